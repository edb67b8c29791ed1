"""The submit form's fields as the options of `flagplot submit`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from flagplot_wire.errors import Refused


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: its name, label, the option it stands for and an example."""

    name: str
    label: str
    option: str
    example: str = ""


FIELDS: tuple[Field, ...] = (
    Field("name", "Name", "--job-name", "my-training"),
    Field("partition", "Partition", "--partition", "default"),
    Field("nodes", "Nodes", "--nodes", "1"),
    Field("tasks", "Tasks", "--ntasks", "1 per node"),
    Field("cpus", "CPUs per task", "--cpus-per-task", "1"),
    Field("memory", "Memory per node", "--mem", "16G"),
    Field("gpus", "GPUs per node", "--gpus-per-node", "2 or h100:2"),
    Field("shards", "GPU shards", "--gres", "3 (of one GPU)"),
    Field("vram", "or VRAM", "--vram", "20G (of one GPU)"),
    Field("time", "Time limit", "--time", "2:00:00 or 1-12 (days-hours)"),
    Field("array", "Array", "--array", "0-9%2"),
    Field("dependency", "Dependency", "--dependency", "afterok:41"),
    Field("account", "Account", "--account", "your default"),
    Field("qos", "QoS", "--qos", "the account's"),
    Field("reservation", "Reservation", "--reservation", "none"),
    Field("licenses", "Licenses", "--licenses", "matlab:2"),
    Field("output", "Output file", "--output", "slurm-%j.out"),
    Field("workdir", "Work directory", "--chdir", ""),
)
"""In the order of the form."""


def options_of(draft: Mapping[str, str]) -> list[str]:
    """The options for the fields that are filled in."""
    found = []
    for field in FIELDS:
        value = draft.get(field.name, "").strip()
        if value:
            found.append(f"{field.option}={'shard:' if field.name == 'shards' else ''}{value}")
    return found


def source_of(draft: Mapping[str, str]) -> str:
    """Which of `command`, `file`, `script` is filled in; raises `Refused` unless it is exactly one."""
    filled = [name for name in ("command", "file", "script") if draft.get(name, "").strip()]
    words = {"command": "a command", "file": "a script file", "script": "the text of a script"}
    if not filled:
        raise Refused("usage", "Nothing to run yet: give a command, a script file or the text of a script")
    if len(filled) > 1:
        both = " and ".join(words[name] for name in filled)
        raise Refused("usage", f"There is {both}: only one of them can run", "empty the other")
    return filled[0]


def fields_named(message: str) -> list[str]:
    """The fields whose option an error names."""
    return [field.name for field in FIELDS if re.search(rf"{field.option}(?![\w-])", message)]
