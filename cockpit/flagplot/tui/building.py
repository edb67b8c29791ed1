"""From the form's draft to what is submitted, through the same parser as `flagplot submit`."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flagplot.client.inherited import with_inherited
from flagplot.script.build import build as parser
from flagplot.script.build import parse_arguments, parse_script, wrap_script
from flagplot.script.options import Given
from flagplot.script.write import with_directives, write_options
from flagplot.view.draft import (
    Difference,
    changed_options,
    differences,
    draft_of,
    options_of,
    source_of,
    words_of,
)
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job, JobSpec, Payload
from flagplot_wire.replies import Script
from flagplot_wire.text import clean

MAX_SCRIPT = 4 * 1024 * 1024
"""Bytes of a script file that the form reads."""


def default_work_dir(user: str, confined: bool) -> str:
    """Where a job works when the form does not say: here, or at home for a session that has no files here."""
    if not confined:
        return os.getcwd()
    home = os.path.expanduser(f"~{user}") if user else "~"
    return home if home.startswith("/") else "/tmp"


def read_script(path: str) -> bytes:
    """A script file's text; what is wrong with the file is refused in words."""
    full = Path(path).expanduser()
    try:
        size = full.stat().st_size
        if size > MAX_SCRIPT:
            raise Refused("bad_script", f"{path} has {size} bytes: a script may have at most {MAX_SCRIPT}")
        return full.read_bytes()
    except OSError as error:
        raise Refused("bad_script", f"Cannot read {path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Source:
    """What a draft runs: the script's text and name, its directives, warnings about it, its arguments."""

    text: str
    name: str
    options: list[Given]
    warnings: list[str]
    args: list[str]


def source(draft: Mapping[str, str], confined: bool) -> Source:
    """What a draft runs; raises `Refused` that names what is wrong with it."""
    kind, args = source_of(draft), words_of(draft, "args", "Arguments")
    if kind == "command":
        if args:
            raise Refused("usage", "Arguments are for a script: write them into the command")
        return Source(wrap_script(draft["command"].strip()), "wrap", [], [], [])
    if kind == "file" and confined:
        raise Refused("not_permitted", "This session may not read files: type a script or a command")
    name = Path(draft["file"].strip()).name if kind == "file" else "script"
    parsed = parse_script(read_script(draft["file"].strip()) if kind == "file" else draft["script"], name)
    return Source(parsed.text, name, parsed.options, list(parsed.warnings), args)


def form_options(draft: Mapping[str, str]) -> list[Given]:
    """The options of the form's fields; raises `Refused` that names what is wrong with one."""
    chosen, left = parse_arguments(options_of(draft))
    if left:
        raise Refused("usage", f"Other options: {left[0]!r} is no option")
    return chosen


def build(draft: Mapping[str, str], user: str, confined: bool, now: int) -> tuple[JobSpec, Payload, list[str]]:
    """The job of a draft and warnings in sentences; raises `Refused` that names what is wrong."""
    script, chosen = source(draft, confined), form_options(draft)
    spec, payload, more = parser(
        script.options,
        chosen,
        script_text=script.text,
        script_name=script.name,
        args=script.args,
        work_dir=default_work_dir(user, confined),
        environment={} if confined else dict(os.environ),
        now=now,
        utc_offset_s=time.localtime(now).tm_gmtoff,
    )
    # Of a confined session only the controller's own limits could be told.
    return spec, payload if confined else with_inherited(payload), [*script.warnings, *more]


def command_line(draft: Mapping[str, str]) -> str:
    """The same submission from a shell; raises `Refused` where other options cannot be read."""
    words = ["flagplot", "submit", *options_of(draft)]
    if draft.get("command", "").strip():
        words.append(f"--wrap={draft['command'].strip()}")
    elif draft.get("file", "").strip():
        words.append(draft["file"].strip())
    elif draft.get("script", "").strip():
        words.append("SCRIPT")
    return shlex.join([*words, *words_of(draft, "args", "Arguments")])


def form_differences(draft: Mapping[str, str], confined: bool) -> list[Difference]:
    """Where the form says something else than the script's directives; none while either cannot be read."""
    try:
        script = source(draft, confined)
        return differences(script.options, form_options(draft)) if script.options else []
    except Refused:
        return []


def resubmission(job: Job, found: Script, work_dir: str, now: int) -> tuple[dict[str, str], list[str]]:
    """A draft that makes a job again, and in sentences what is left to do by hand: directives that no longer hold.

    Only what the script does not say itself is in the fields. `work_dir` is where the form's jobs work unless it says.
    """
    draft = {"args": shlex.join(found.args)} if found.args else {}
    if found.script.startswith(WRAPPED):
        draft["command"], own = found.script.removeprefix(WRAPPED).strip("\n"), {"job-name": "wrap", "chdir": work_dir}
    else:
        draft["script"], own = found.script, directives_of(found.script, work_dir, now)
    needed, left = changed_options(own, write_options(job.spec))
    draft |= draft_of(needed)
    notes = [f"No longer so, take it out of the script: {' '.join(left)}"] if left else []
    return harmless(draft), notes + replaced(draft)


def replaced(draft: Mapping[str, str]) -> list[str]:
    """A sentence where `harmless` makes another script of it; none where it stays as it is."""
    changed = [name for name in ("command", "script") if name in draft and harmless(draft)[name] != draft[name]]
    return (
        [f"Characters of the {changed[0]} that a terminal does not show were replaced: look at it"] if changed else []
    )


def harmless(draft: Mapping[str, str]) -> dict[str, str]:
    """A draft that came from elsewhere, without what would steer the terminal that shows it; tabs stay."""
    return {
        name: "\t".join(clean(part, keep_newlines=True) for part in value.split("\t")) for name, value in draft.items()
    }


WRAPPED = wrap_script("").rstrip("\n") + "\n\n"


def directives_of(text: str, work_dir: str, now: int) -> dict[str, str]:
    """What a script's directives alone ask for, as options; nothing where they cannot be read (the form tells why)."""
    try:
        parsed = parse_script(text, "script")
        spec, _, _ = parser(
            parsed.options,
            [],
            script_text=text,
            script_name="script",
            args=(),
            work_dir=work_dir,
            environment={},
            now=now,
        )
    except Refused:
        return {}
    return write_options(spec)


def template(draft: Mapping[str, str], confined: bool) -> str:
    """The draft as a script of its own: the form's options are directives in it. Raises `Refused`."""
    script = source(draft, confined)
    options = {given.option.long: given.value for given in form_options(draft)}
    return with_directives(script.text, options)
