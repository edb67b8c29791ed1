"""`flagplot queue -o` and `-O`: columns by squeue's letters and names. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flagplot.script.build import write_dependency
from flagplot.view.queue import cpus_of, gpus_of, nodes_of
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Forecast, Job
from flagplot_wire.text import clean, width
from flagplot_wire.units import format_duration, format_limit, format_memory


@dataclass(frozen=True, slots=True)
class Seen:
    """A job with what its cells need: the moment, its forecast, and how a time is written here."""

    job: Job
    now: int
    forecast: Forecast | None
    time: Callable[[int], str]

    @property
    def elapsed_s(self) -> int:
        """Seconds that it ran."""
        status = self.job.status
        return (status.end_time or self.now) - status.start_time if status.start_time else 0

    @property
    def nodes(self) -> str:
        """The nodes that it has, as a host list."""
        held = self.job.status.allocation
        return compress_hosts(held.names) if held else ""

    @property
    def reason(self) -> str:
        """Why it is pending, or what its end was; None for none."""
        if self.job.status.state == "PENDING":
            return ",".join(str(one.why) for one in self.forecast.reasons) if self.forecast else "None"
        return self.job.status.message if self.job.status.state.ended else "None"

    @property
    def nodes_or_reason(self) -> str:
        """NODELIST(REASON)."""
        pending = self.job.status.state == "PENDING"
        return f"({self.reason or 'None'})" if pending or not self.nodes else self.nodes


def _begins(seen: Seen) -> str:
    planned = seen.forecast.start if seen.forecast else None
    return seen.time(seen.job.status.start_time or planned or 0)


def _ends(seen: Seen) -> str:
    status, limit = seen.job.status, seen.job.time_limit_s
    return seen.time(status.end_time or (status.start_time + limit if status.start_time and limit else 0))


def _left(seen: Seen) -> str:
    limit = seen.job.time_limit_s
    return format_duration(limit - seen.elapsed_s) if limit else "UNLIMITED"


def _memory(seen: Seen) -> str:
    request = seen.job.spec.request
    asked = (request.mem_per_node_mib, request.mem_per_cpu_mib, request.mem_per_gpu_mib)
    return next((format_memory(one) for one in asked if one is not None), "0")


def _gres(seen: Seen) -> str:
    request = seen.job.spec.request
    gpus = request.gpus_per_node or request.gpus or request.gpus_per_task
    words = [f"gres/gpu:{gpu.type}:{gpu.count}" if gpu.type else f"gres/gpu:{gpu.count}" for gpu in gpus]
    return ",".join([*words, *([f"gres/shard:{request.shards}"] if request.shards else [])]) or "N/A"


def _index(seen: Seen) -> str:
    return "N/A" if seen.job.array_index is None else str(seen.job.array_index)


def _first(seen: Seen) -> str:
    held = seen.job.status.allocation
    return held.names[0] if held else "n/a"


Field = tuple[str, str, str, Callable[[Seen], str]]
"""Letter of `-o` (empty: none), name of `-O`, title, the cell."""

FIELDS: tuple[Field, ...] = (
    ("i", "JobArrayID", "JOBID", lambda seen: seen.job.display_id),
    ("A", "JobID", "JOBID", lambda seen: str(seen.job.number)),
    ("F", "ArrayJobID", "ARRAY_JOB_ID", lambda seen: str(seen.job.array_number or seen.job.number)),
    ("K", "ArrayTaskID", "ARRAY_TASK_ID", _index),
    ("P", "Partition", "PARTITION", lambda seen: seen.job.spec.partition),
    ("j", "Name", "NAME", lambda seen: seen.job.spec.name),
    ("u", "UserName", "USER", lambda seen: seen.job.user),
    ("U", "UserID", "UID", lambda seen: str(seen.job.uid)),
    ("G", "GroupID", "GROUP", lambda seen: str(seen.job.gid)),
    ("t", "StateCompact", "ST", lambda seen: seen.job.status.state.short),
    ("T", "State", "STATE", lambda seen: seen.job.status.state.value),
    ("M", "TimeUsed", "TIME", lambda seen: format_duration(seen.elapsed_s)),
    ("l", "TimeLimit", "TIME_LIMIT", lambda seen: format_limit(seen.job.time_limit_s)),
    ("L", "TimeLeft", "TIME_LEFT", _left),
    ("V", "SubmitTime", "SUBMIT_TIME", lambda seen: seen.time(seen.job.status.submit_time)),
    ("", "EligibleTime", "ELIGIBLE_TIME", lambda seen: seen.time(seen.job.status.eligible_time)),
    ("S", "StartTime", "START_TIME", _begins),
    ("e", "EndTime", "END_TIME", _ends),
    ("D", "NumNodes", "NODES", lambda seen: str(nodes_of(seen.job))),
    ("C", "NumCPUs", "CPUS", lambda seen: str(cpus_of(seen.job))),
    ("", "NumTasks", "TASKS", lambda seen: str(seen.job.spec.request.tasks or 1)),
    ("", "NumGPUs", "GPUS", lambda seen: str(gpus_of(seen.job))),
    ("m", "MinMemory", "MIN_MEMORY", _memory),
    ("b", "tres-per-node", "TRES_PER_NODE", _gres),
    ("R", "ReasonList", "NODELIST(REASON)", lambda seen: seen.nodes_or_reason),
    ("N", "NodeList", "NODELIST", lambda seen: seen.nodes),
    ("B", "BatchHost", "EXEC_HOST", _first),
    ("r", "Reason", "REASON", lambda seen: seen.reason or "None"),
    ("Q", "PriorityLong", "PRIORITY", lambda seen: str(seen.job.status.priority)),
    ("y", "Nice", "NICE", lambda seen: str(seen.job.spec.nice)),
    ("q", "QOS", "QOS", lambda seen: seen.job.spec.qos),
    ("a", "Account", "ACCOUNT", lambda seen: seen.job.spec.account),
    ("v", "Reservation", "RESERVATION", lambda seen: seen.job.spec.reservation or "(null)"),
    ("f", "Feature", "FEATURES", lambda seen: seen.job.spec.request.constraint or "(null)"),
    ("n", "ReqNodes", "REQ_NODES", lambda seen: compress_hosts(list(seen.job.spec.request.nodelist))),
    ("x", "ExcNodes", "EXC_NODES", lambda seen: compress_hosts(list(seen.job.spec.request.exclude))),
    ("W", "Licenses", "LICENSES", lambda seen: ",".join(
        f"{one.name}:{one.count}" for one in seen.job.spec.request.licenses) or "(null)"),
    ("E", "Dependency", "DEPENDENCY", lambda seen: (
        write_dependency(seen.job.spec.dependency) if seen.job.spec.dependency else "(null)")),
    ("", "RestartCnt", "RESTARTS", lambda seen: str(seen.job.status.restarts)),
    ("", "Exit_Code", "EXIT_CODE", lambda seen: str(seen.job.status.exit_code or 0)),
    ("Z", "WorkDir", "WORK_DIR", lambda seen: seen.job.spec.work_dir),
    ("o", "Command", "COMMAND", lambda seen: seen.job.spec.command),
    ("k", "Comment", "COMMENT", lambda seen: seen.job.spec.comment or "(null)"),
    ("", "STDOUT", "STDOUT", lambda seen: seen.job.spec.stdout),
    ("", "STDERR", "STDERR", lambda seen: seen.job.spec.stderr),
)  # fmt: skip


_BY_LETTER = {letter: field for field in FIELDS if (letter := field[0])}
_BY_NAME = {field[1].lower(): field for field in FIELDS}
_LETTER = re.compile(r"%(\.?)(\d*)([A-Za-z%])")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a line: text as it is (`cell` None), or a column of `size` cells (0: as wide as its text)."""

    text: str
    size: int = 0
    right: bool = False
    cell: Callable[[Seen], str] | None = None


Line = tuple[Part, ...]


def parse_letters(text: str) -> Line:
    """`-o`: letters behind `%`, with the size and a dot for right in between; everything else stays as it is."""
    parts: list[Part] = []
    at = 0
    for match in _LETTER.finditer(text):
        parts.append(Part(text[at : match.start()]))
        at = match.end()
        dot, size, letter = match.groups()
        if letter == "%":
            parts.append(Part("%"))
            continue
        if letter not in _BY_LETTER:
            raise Refused("usage", f"-o: there is no column %{letter}", "known: " + " ".join(sorted(_BY_LETTER)))
        _, _, title, cell = _BY_LETTER[letter]
        parts.append(Part(title, int(size or 0), bool(dot), cell))
    parts.append(Part(text[at:]))
    if stray := next((part.text for part in parts if part.cell is None and "%" in part.text and part.text != "%"), ""):
        raise Refused("usage", f"-o: {clean(stray.strip())!r} names no column", "such as: %.18i %.9P %.20j")
    return tuple(part for part in parts if part.text)


def parse_names(text: str) -> Line:
    """`-O`: names apart by commas, each with `:SIZE` or `:.SIZE` (right) behind it. A column without a size is as wide as
    its widest cell, where squeue cuts at 20."""
    parts: list[Part] = []
    for word in text.split(","):
        name, _, size = word.strip().partition(":")
        right, size = size.startswith("."), size.removeprefix(".")
        if name.lower() not in _BY_NAME:
            raise Refused("usage", f"-O: there is no column {clean(name)!r}", ", ".join(field[1] for field in FIELDS))
        if size and not size.isdecimal():
            raise Refused("usage", f"-O: {clean(word)!r}: a size is a number", "such as: name:30 or name:.30")
        _, _, title, cell = _BY_NAME[name.lower()]
        parts.append(Part(title, int(size) if size else -1, right, cell))
    return tuple(parts)


def lines(line: Line, jobs: Sequence[Seen], header: bool = True) -> list[str]:
    """The lines of some jobs, the titles before them."""
    rows = [[part.text for part in line]] if header else []
    rows += [[clean(part.cell(seen)) if part.cell else part.text for part in line] for seen in jobs]
    widest = [max((width(row[at]) for row in rows), default=0) + 1 for at in range(len(line))]
    return ["".join(map(_sized, line, row, widest)).rstrip() for row in rows]


def _sized(part: Part, text: str, widest: int) -> str:
    size = widest if part.size < 0 else part.size
    if part.cell is None or not size:
        return text
    while width(text) > size:
        text = text[:-1]
    blanks = " " * (size - width(text))
    return blanks + text if part.right else text + blanks
