"""Whose events may change what is said of a pending job: those it depends on, and its array."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from flagplot_wire.ids import JobNumber, parse_job_ref
from flagplot_wire.job import Job


class Watching:
    """Pending jobs by what they watch: jobs (or the arrays of these) by number, `singleton`s by user and name."""

    def __init__(self) -> None:
        self._by: dict[Hashable, set[JobNumber]] = {}
        self.dependants: set[JobNumber] = set()

    def put(self, job: Job) -> None:
        """A pending job."""
        for key in _keys(job):
            self._by.setdefault(key, set()).add(job.number)
        if job.spec.dependency is not None:
            self.dependants.add(job.number)

    def drop(self, job: Job) -> None:
        """As it was put."""
        for key in _keys(job):
            there = self._by.get(key, set())
            there.discard(job.number)
            if not there:
                self._by.pop(key, None)
        self.dependants.discard(job.number)

    def by(self, job: Job) -> Iterator[JobNumber]:
        """The pending jobs that watch this one."""
        for key in (job.number, job.array_number, (job.user, job.spec.name)):
            yield from self._by.get(key, ())


def _keys(job: Job) -> Iterator[Hashable]:
    if job.array_index is not None:
        yield job.array_number
    for term in job.spec.dependency.terms if job.spec.dependency is not None else ():
        if term.kind == "singleton":
            yield (job.user, job.spec.name)
        yield from (parse_job_ref(text).number for text in term.jobs)
