"""The submit form's fields as the options of `flagplot submit`. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flagplot.language import later, tr
from flagplot.script.options import BY_LONG, Given, When
from flagplot.script.options import Draft as Parsed
from flagplot.script.write import written
from flagplot.view.bars import Piece
from flagplot.view.words import and_more
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: its name, label, the option it stands for and an example."""

    name: str
    label: str
    option: str
    example: str = ""


FIELDS: tuple[Field, ...] = (
    Field("name", later("Name"), "--job-name", "my-training"),
    Field("partition", later("Partition"), "--partition", later("default")),
    Field("nodes", later("Nodes"), "--nodes", "1"),
    Field("tasks", later("Tasks"), "--ntasks", later("1 per node")),
    Field("cpus", later("CPUs per task"), "--cpus-per-task", "1"),
    Field("memory", later("Memory per node"), "--mem", "16G"),
    Field("gpus", later("GPUs per node"), "--gpus-per-node", later("2 or h100:2")),
    Field("shards", later("GPU shards"), "--gres", later("3 (of one GPU)")),
    Field("vram", later("or VRAM"), "--vram", later("20G (of one GPU)")),
    Field("time", later("Time limit"), "--time", later("2:00:00 or 1-12 (days-hours)")),
    Field("array", later("Array"), "--array", "0-9%2"),
    Field("dependency", later("Dependency"), "--dependency", "afterok:41"),
    Field("account", later("Account"), "--account", later("your default")),
    Field("qos", later("QoS"), "--qos", later("the account's")),
    Field("reservation", later("Reservation"), "--reservation", later("none")),
    Field("licenses", later("Licenses"), "--licenses", "matlab:2"),
    Field("output", later("Output file"), "--output", "slurm-%j.out"),
    Field("workdir", later("Work directory"), "--chdir", ""),
    Field("more", later("Other options"), "", "--constraint=nvlink --nice"),
)
"""In the order of the form. The last one takes any options that have no field."""


def options_of(draft: Mapping[str, str]) -> list[str]:
    """The options for the fields that are filled in; raises `Refused` where other options cannot be read."""
    found = []
    for field in FIELDS:
        value = draft.get(field.name, "").strip()
        if value and field.option:
            found.append(f"{field.option}={'shard:' if field.name == 'shards' else ''}{value}")
    return found + words_of(draft, "more", "Other options")


def words_of(draft: Mapping[str, str], name: str, label: str) -> list[str]:
    """The words of a field as a shell reads them; raises `Refused` where a quote is not closed."""
    try:
        return shlex.split(draft.get(name, ""))
    except ValueError as wrong:
        raise Refused("usage", f"{label}: {str(wrong).lower()}") from wrong


def draft_of(options: Mapping[str, str]) -> dict[str, str]:
    """The fields for options by their long names, as `flagplot.script.write` writes them; the rest are other options."""
    names = {field.option.removeprefix("--"): field.name for field in FIELDS if field.option}
    draft: dict[str, str] = {}
    others = []
    for option, value in options.items():
        if option in names and value and (option != "gres" or value.startswith("shard:")):
            draft[names[option]] = value.removeprefix("shard:") if option == "gres" else value
        else:
            others.append(written(option, value))
    return draft | ({"more": shlex.join(others)} if others else {})


PLAIN = {"nodes": "1", "cpus-per-task": "1", "time": "UNLIMITED", "nice": "0", "gres": "none", "open-mode": "truncate"}
"""What says the same as no option at all."""


def changed_options(script: Mapping[str, str], job: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What must be said beside a script's own directives to have a job again, and directives that no option undoes."""
    needed = {name: value for name, value in job.items() if script.get(name) != value}
    left = [name for name in script if name not in job]
    needed |= {name: PLAIN[name] for name in left if name in PLAIN}
    return needed, [written(name, script[name]) for name in left if name not in PLAIN]


@dataclass(frozen=True, slots=True)
class Difference:
    """An option of the form against the script: where the directive stands ("": there is none), what it says, what the
    form says instead."""

    where: str
    script: str
    form: str


def differences(script: Sequence[Given], form: Sequence[Given]) -> list[Difference]:
    """Where the form does not say what the directives say, in the order of the form; of an option given twice the last
    counts."""
    before = {given.option.long: given for given in script}
    found = []
    for long, given in {given.option.long: given for given in form}.items():
        old = before.get(long)
        if old is None:
            found.append(Difference("", "", given.written))
        elif old.written != given.written and _meaning(old) != _meaning(given):
            found.append(Difference(old.where, old.written, given.written))
    return found


def difference_lines(found: Sequence[Difference], most: int) -> list[list[Piece]]:
    """Differences as lines under a title; beyond `most` their number is told; no lines without differences."""
    if not found:
        return []
    lines: list[list[Piece]] = [[(tr("The form says other than the script:"), "dim")]]
    for one in found[: most if len(found) <= most else most - 1]:
        if one.where:
            where = one.where.rpartition(" line ")[2]
            lines.append(
                [(tr("~ line {number}  ").format(number=where), "dim"), (clean(one.script), "bad"), (" → ", "dim")]
            )
            lines[-1].append((clean(one.form), "good"))
        else:
            lines.append([("+ ", "dim"), (clean(one.form), "good")])
    if len(found) > most:
        lines.append([(and_more(len(found) - most + 1), "dim")])
    return lines


def _meaning(given: Given) -> object:
    """What an option sets, so that `-t 120` and `--time=2:00:00` are the same; its text where that cannot be read."""
    parsed: Parsed = {}
    try:
        BY_LONG[given.option.long].set(parsed, given.value, When(0))
    except Refused:
        return given.value
    return parsed or given.value


def source_of(draft: Mapping[str, str]) -> str:
    """Which of `command`, `file`, `script` is filled in; raises `Refused` unless it is exactly one."""
    filled = [name for name in ("command", "file", "script") if draft.get(name, "").strip()]
    words = {"command": tr("a command"), "file": tr("a script file"), "script": tr("the text of a script")}
    if not filled:
        raise Refused("usage", tr("Nothing to run yet: give a command, a script file or the text of a script"))
    if len(filled) > 1:
        both = tr(" and ").join(words[name] for name in filled)
        raise Refused("usage", tr("There is {both}: only one of them can run").format(both=both), tr("empty the other"))
    return filled[0]


def fields_named(message: str) -> list[str]:
    """The fields whose option an error names."""
    named = [field.name for field in FIELDS if field.option and re.search(rf"{field.option}(?![\w-])", message)]
    return named or (["more"] if message.startswith("Other options") else [])
