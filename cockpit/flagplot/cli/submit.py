"""`flagplot submit`: a job script, or a command with --wrap."""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import click

from flagplot.cli.common import ask, json_option, print_warnings, target_of
from flagplot.client.inherited import with_inherited
from flagplot.script.build import ParsedScript, build, parse_arguments, parse_script, wrap_script
from flagplot.script.lexer import MAX_SCRIPT
from flagplot.script.options import OPTIONS
from flagplot_wire.errors import Refused
from flagplot_wire.job import Forecast, JobSpec
from flagplot_wire.text import clean

OWN = {
    "--wrap": True,
    "--parsable": False,
    "--json": False,
    "--test-only": False,
    "--dry-run": False,
    "--help": False,
    "-h": False,
}
"""Options of the command itself (True: takes a value); all others are those of job scripts."""


class SubmitCommand(click.Command):
    """Its help lists the table of script options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, then the table."""
        super().format_options(ctx, formatter)
        rows = []
        for option in OPTIONS:
            if option.effective:
                short = f"-{option.short}, " if option.short else ""
                value = f" {option.metavar}" if option.argument == "required" else ""
                rows.append((f"{short}--{option.long}{value}", option.help))
        with formatter.section("Options of job scripts (#SBATCH or #FLAGPLOT lines, or here)"):
            formatter.write_dl(rows)


@click.command(
    "submit", cls=SubmitCommand, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("--wrap", metavar="COMMAND", help="Run this command instead of a script.")
@click.option("--parsable", is_flag=True, help="Print the number alone.")
@click.option("--test-only", "--dry-run", "test_only", is_flag=True, help="Check, and say when it would start.")
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] SCRIPT [ARGS]...")
@click.pass_context
def command(
    context: click.Context, wrap: str | None, parsable: bool, test_only: bool, as_json: bool, words: tuple[str, ...]
) -> None:
    """Submit a job script with its #SBATCH and #FLAGPLOT lines; options given here win."""
    own, script_words = split_own(list(words))
    wrap = str(own.get("--wrap", wrap)) if own.get("--wrap", wrap) is not None else None
    as_json = as_json or "--json" in own
    parsable = parsable or "--parsable" in own
    test_only = test_only or "--test-only" in own or "--dry-run" in own
    given, rest = parse_arguments(script_words)
    script, name, args = _script(wrap, rest)
    target = target_of(context)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FLAGPLOT_FD")}
    if target.kind == "local":
        environment["FLAGPLOT_DATA_DIR"] = str(target.data_dir)
    offset = time.localtime().tm_gmtoff
    spec, payload, warnings = build(
        script.options, given, script_text=script.text, script_name=name, args=args, work_dir=os.getcwd(),
        environment=environment, now=int(time.time()), utc_offset_s=offset,
    )  # fmt: skip
    if test_only:
        found = ask(context, lambda calls: calls.estimate(spec))
        told = [*script.warnings, *warnings, *found.warnings]
        if as_json:
            from flagplot.output.json import forecast_object, print_json

            print_json({**forecast_object(found.forecast), "warnings": told})
            return
        print_warnings(told)
        print_belonging(spec)
        print(start_words(found.forecast, int(time.time())))
        return
    if spec.stage_in or spec.stage_out:
        _check_transfers(spec)
    reply = ask(context, lambda calls: calls.submit(spec, with_inherited(payload), uuid.uuid4().hex))
    if spec.stage_in:
        from flagplot.cli.stage import send_after_submit

        send_after_submit(target, reply.number)
    told = [*script.warnings, *warnings, *reply.warnings]
    if as_json:
        from flagplot.output.json import print_json

        print_json({"job_id": reply.number, "warnings": told, **belonging(spec)})
        return
    print_warnings(told)
    if not parsable:
        print_belonging(spec)
    print(reply.number if parsable else f"Submitted batch job {reply.number}")


def _check_transfers(spec: JobSpec) -> None:
    from flagplot.client.staging import check_sources

    if os.environ.get("FLAGPLOT_CONFINED") == "1":
        raise Refused(
            "not_permitted",
            "this session may not read files here (--stage-in, --stage-out)",
            "submit from your own machine",
        )
    check_sources(spec)


def belonging(spec: JobSpec) -> dict[str, Any]:
    """The account, QoS, reservation and licenses that the job asks for; empty where it leaves them to the controller."""
    licenses = {one.name: one.count for one in spec.request.licenses}
    return {"account": spec.account, "qos": spec.qos, "reservation": spec.reservation, "licenses": licenses}


def print_belonging(spec: JobSpec) -> None:
    """Say it in a line on standard error: scripts read the number off standard output."""
    licenses = ",".join(f"{one.name}:{one.count}" for one in spec.request.licenses)
    found = (("account", spec.account), ("QoS", spec.qos), ("reservation", spec.reservation), ("licenses", licenses))
    words = ", ".join(f"{name} {clean(value)}" for name, value in found if value)
    if words:
        print(f"flagplot: {words}", file=sys.stderr)


def split_own(words: list[str], table: dict[str, bool] = OWN) -> tuple[dict[str, str | bool], list[str]]:
    """Take the command's own options (`table`) out of the words before the script, wherever they stand."""
    own: dict[str, str | bool] = {}
    kept: list[str] = []
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name in table:
            if not table[name]:
                own[name] = True
            elif equals:
                own[name] = value
            elif words:
                own[name] = words.pop(0)
            else:
                raise Refused("usage", f"{name} needs a value")
            continue
        kept.append(word)
        if not word.startswith("-") or word == "--":
            return own, kept + words
        if _takes_next(word) and words:
            kept.append(words.pop(0))
    if "--help" in own or "-h" in own:
        context = click.get_current_context()
        click.echo(context.get_help())
        context.exit()
    return own, kept


def _takes_next(word: str) -> bool:
    """True when the word is an option whose value is the next word."""
    from flagplot.script.options import BY_LONG, BY_SHORT

    if word.startswith("--"):
        option = BY_LONG.get(word[2:])
        return option is not None and option.argument == "required"
    option = BY_SHORT.get(word[-1:]) if len(word) == 2 else None
    return option is not None and option.argument == "required"


def _script(wrap: str | None, rest: list[str]) -> tuple[ParsedScript, str, list[str]]:
    if wrap is not None:
        if rest:
            raise Refused("usage", f"--wrap takes no script, but there is {rest[0]!r}")
        return ParsedScript(wrap_script(wrap)), "wrap", []
    if rest and rest[0] != "-":
        path = Path(rest[0])
        if os.environ.get("FLAGPLOT_CONFINED") == "1":
            raise Refused(
                "not_permitted", "this session may not read files here", "use --wrap, or send the script by stdin"
            )
        try:
            size = path.stat().st_size
            if size > MAX_SCRIPT:
                raise Refused("bad_script", f"{path} has {size} bytes: a script may have at most {MAX_SCRIPT}")
            data = path.read_bytes()
        except OSError as wrong:
            raise Refused(
                "bad_script", f"cannot read {path}: {wrong.strerror}", "give the path of a job script"
            ) from wrong
        return parse_script(data, path.name), path.name, rest[1:]
    if sys.stdin is None or sys.stdin.isatty():
        raise Refused("usage", "no script was given", "flagplot submit SCRIPT, or --wrap COMMAND")
    return parse_script(sys.stdin.buffer.read(MAX_SCRIPT + 1), "stdin"), "stdin", rest[1:]


def start_words(forecast: Forecast, now: int) -> str:
    """An estimate in one line."""
    from flagplot_wire.units import format_age

    hints = "; ".join(forecast.hints)
    tail = f" ({hints})" if hints else ""
    if forecast.never:
        return f"would never start: {forecast.never}{tail}"
    if forecast.start is None:
        words = ", ".join(f"{one.why}" for one in forecast.reasons)
        return f"would wait: {words or 'no estimate yet'}{tail}"
    where = f" on {','.join(forecast.nodes)}" if forecast.nodes else ""
    return (
        f"would start now{where}"
        if forecast.start <= now
        else f"would start in {format_age(forecast.start - now)}{where}{tail}"
    )
