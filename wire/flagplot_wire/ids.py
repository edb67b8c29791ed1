"""Typed identifiers, and the ways a person writes a job."""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplot_wire.indices import expand_indices

JobNumber = NewType("JobNumber", int)
"""The number of a job; every element of an array that was split off has one of its own."""

Epoch = NewType("Epoch", int)
"""Counts the starts of a controller on its store; agents refuse an older one."""


class JobRef(Struct, frozen=True):
    """A job as a person names it: `41`, `41_3` or `41_[1-3,7]`."""

    number: JobNumber
    indices: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.indices is None:
            return str(self.number)
        if len(self.indices) == 1:
            return f"{self.number}_{self.indices[0]}"
        from flagplot_wire.indices import compress_indices

        return f"{self.number}_[{compress_indices(self.indices)}]"


def parse_job_ref(text: str) -> JobRef:
    """Read `41`, `41_3` or `41_[1-3,7]`; raises `Refused` that names what is wrong."""
    head, underscore, tail = text.strip().partition("_")
    if not head.isdecimal() or not head.isascii() or int(head) == 0:
        raise Refused("bad_job_id", f"{text!r} is not a job: write a number such as 41, 41_3 or 41_[1-3]")
    if not underscore:
        return JobRef(JobNumber(int(head)))
    if tail.startswith("[") and tail.endswith("]"):
        tail = tail[1:-1]
    return JobRef(JobNumber(int(head)), tuple(expand_indices(tail)))
