"""Variables of commands that people write (`$JOB`, `$NODE`): filled in argument by argument, never read by a shell. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Job
from flagplot_wire.text import clean

VARIABLES = {
    "JOB": "the job's id, as commands take it",
    "JOBS": "the ids of all marked jobs (of the one job without marks); alone in an argument it becomes several",
    "NAME": "the job's name",
    "USER": "the job's user; of a node, you",
    "STATE": "the job's state",
    "EXIT_CODE": "the exit code of a job that ended",
    "PARTITION": "its partition",
    "ACCOUNT": "its account",
    "WORK_DIR": "its working folder",
    "NODE": "the node, or the job's first",
    "NODES": "the marked nodes, or all of the job's; alone in an argument it becomes several",
    "CLUSTER": "the cluster's name",
}
LISTS = ("JOBS", "NODES")
_NAME = re.compile(r"\$(?:\{([A-Z_]+)\}|([A-Z_]+)|(\$))")

Values = Mapping[str, Sequence[str]]
"""What each variable stands for: one text, or several."""


def values_of_job(job: Job, cluster: str, targets: Sequence[str], target: str) -> dict[str, list[str]]:
    """The variables of a job; `target` names it, `targets` those that are marked."""
    names = list(job.status.allocation.names) if job.status.allocation else []
    found = {
        "JOB": [target],
        "JOBS": list(targets) or [target],
        "NAME": [clean(job.spec.name)],
        "USER": [clean(job.user)],
        "STATE": [job.status.state.value],
        "EXIT_CODE": [str(job.status.exit_code or 0)],
        "PARTITION": [clean(job.spec.partition)],
        "ACCOUNT": [clean(job.spec.account)],
        "WORK_DIR": [clean(job.spec.work_dir)],
        "CLUSTER": [clean(cluster)],
    }
    return found | ({"NODE": names[:1], "NODES": names} if names else {})


def values_of_nodes(names: Sequence[str], user: str, cluster: str) -> dict[str, list[str]]:
    """The variables of nodes, the first of which is the one meant."""
    found = {"USER": [clean(user)], "CLUSTER": [clean(cluster)]}
    return found | ({"NODE": [names[0]], "NODES": list(names)} if names else {})


def names_in(words: Iterable[str]) -> list[str]:
    """The variables that some words name, each once."""
    found = (match[1] or match[2] for word in words for match in _NAME.finditer(word) if not match[3])
    return list(dict.fromkeys(found))


def check(words: Iterable[str]) -> None:
    """Refuse variables that there are not."""
    for name in names_in(words):
        if name not in VARIABLES:
            raise Refused(
                "usage", f"there is no variable ${name}", "known: " + " ".join(f"${one}" for one in VARIABLES)
            )


def fill(words: Sequence[str], values: Values) -> list[str]:
    """The arguments with their variables filled in. What is filled in is never looked at again, stays within its
    argument, and cannot make an option of a variable that stands at the beginning of one: such is refused, and so is
    a variable that has no value here."""
    filled: list[str] = []
    for word in words:
        match = _NAME.fullmatch(word)
        several = (match[1] or match[2]) if match else ""
        pieces = [*_values(several, values)] if several in LISTS else [_NAME.sub(lambda m: _text(m, values), word)]
        for piece in pieces:
            if word.startswith("$") and piece.startswith("-"):
                raise Refused("usage", f"{word} is {clean(piece)!r} here, which would be read as an option")
        filled += pieces
    return filled


def environment(values: Values) -> dict[str, str]:
    """The variables as a shell's environment, for commands that want one."""
    return {name: " ".join(found) for name, found in values.items()}


def _values(name: str, values: Values) -> Sequence[str]:
    if not values.get(name):
        raise Refused("usage", f"there is no ${name} here", VARIABLES.get(name, ""))
    return values[name]


def _text(match: re.Match[str], values: Values) -> str:
    if match[3]:
        return "$"
    name = match[1] or match[2]
    found = _values(name, values)
    return compress_hosts(list(found)) if name == "NODES" else ",".join(found)
