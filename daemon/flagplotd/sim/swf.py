"""The Standard Workload Format of the Parallel Workloads Archive, and the jobs that a log asks for.

A record is 18 columns of numbers, -1 where a value is unknown; `;` begins a header or a comment. See Feitelson,
Tsafrir and Krakov, "Experience with using the Parallel Workloads Archive", JPDC 2014.
"""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

SUBMIT, RUN, ALLOCATED, REQUESTED, REQUESTED_TIME = _USED = 1, 3, 4, 7, 8
"""The columns that are used, from 0."""
COLUMNS, FEWEST = 18, 5
"""Columns of a record, and how many it has at least: a job without any number of processors says nothing."""
LARGEST = 10_000_000_000
"""Of any number used (seconds: 317 years), so that sums of them stay exact."""
_HEADER = re.compile(rb";\s*(MaxProcs|MaxNodes)\s*:\s*(\d{1,9})\b")
_HINT = "the simulator reads the Standard Workload Format, plain or gzip: 18 columns of numbers, ; before comments"

DROPPED = {
    "submit_time": "without a submit time",
    "run_time": "without a run time",
    "requested_time": "without a requested time",
    "processors": "without a number of processors",
    "too_large": "with more processors than the machine has",
}
"""Why a record is no job that can run, in words."""


class Log(Struct, frozen=True):
    """Columns of a log in the order of the file; seconds and processors, 0 or less where unknown."""

    submit: list[int]
    run: list[int]
    requested: list[int]
    procs: list[int]
    """As requested; as allocated where the request is unknown."""
    max_procs: int = 0
    """By the header MaxProcs, else MaxNodes; 0 without either."""


class Workload(Struct, frozen=True):
    """The jobs that can run, by submit time, then order in the file."""

    submit: list[int]
    run: list[int]
    """At most as long as requested."""
    requested: list[int]
    procs: list[int]
    total: int
    """Processors of the machine."""
    dropped: dict[str, int]
    """How many records are left out, by the keys of `DROPPED`."""


def read(path: Path) -> Log:
    """Read a log; `Refused` where the file cannot be read or is none."""
    try:
        content = path.read_bytes()
    except OSError as wrong:
        raise Refused("usage", f"{clean(str(path))} cannot be read: {wrong.strerror}") from wrong
    return parse(content, clean(str(path)))


def parse(content: bytes, name: str = "the log") -> Log:
    """Read the content of a log, plain or gzip; `Refused` names line and column where it is none."""
    submit: list[int] = []
    run: list[int] = []
    requested: list[int] = []
    procs: list[int] = []
    sizes: dict[bytes, int] = {}
    for number, line in enumerate(_plain(content, name).splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        if fields[0].startswith(b";"):
            if header := _HEADER.match(line.strip()):
                sizes.setdefault(header[1], int(header[2]))
            continue
        values = _numbers(fields, f"{name}, line {number}")
        submit.append(values[SUBMIT])
        run.append(values[RUN])
        requested.append(values[REQUESTED_TIME])
        procs.append(values[REQUESTED] if values[REQUESTED] > 0 else values[ALLOCATED])
    if not submit:
        raise Refused("usage", f"{name} holds no job", _HINT)
    return Log(submit, run, requested, procs, sizes.get(b"MaxProcs") or sizes.get(b"MaxNodes") or 0)


def workload(log: Log, total: int) -> Workload:
    """The jobs of a log that can run on `total` processors."""
    dropped = dict.fromkeys(DROPPED, 0)
    jobs = []
    for submit, run, requested, procs in zip(log.submit, log.run, log.requested, log.procs, strict=True):
        if submit < 0:
            dropped["submit_time"] += 1
        elif run <= 0:
            dropped["run_time"] += 1
        elif requested <= 0:
            dropped["requested_time"] += 1
        elif procs <= 0:
            dropped["processors"] += 1
        elif procs > total:
            dropped["too_large"] += 1
        else:
            jobs.append((submit, min(run, requested), requested, procs))
    jobs.sort(key=lambda job: job[0])
    return Workload(
        submit=[job[0] for job in jobs],
        run=[job[1] for job in jobs],
        requested=[job[2] for job in jobs],
        procs=[job[3] for job in jobs],
        total=total,
        dropped=dropped,
    )


def _plain(content: bytes, name: str) -> bytes:
    """The text of a log, unpacked where it is gzip, without a byte order mark."""
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as wrong:
            raise Refused("usage", f"{name} is damaged: {wrong}", "fetch the file again") from wrong
    return content.removeprefix(b"\xef\xbb\xbf")


def _numbers(fields: list[bytes], where: str) -> list[int]:
    """The columns of a record, fractions cut off; -1 for those that are not used, or missing at the end."""
    if len(fields) < FEWEST:
        raise Refused("usage", f"{where}, column {len(fields) + 1} is missing: a record has {COLUMNS}", _HINT)
    if len(fields) > COLUMNS:
        raise Refused("usage", f"{where}, column {COLUMNS + 1}: a record has only {COLUMNS}", _HINT)
    values = [-1] * COLUMNS
    for column, field in enumerate(fields):
        try:
            value = float(field)
            if column in _USED:
                if not -LARGEST <= value <= LARGEST:
                    raise ValueError
                values[column] = int(value)
        except ValueError:
            shown = clean(field[:20].decode("utf-8", "replace"))
            raise Refused("usage", f"{where}, column {column + 1}: {shown} is no number of a log", _HINT) from None
    return values
