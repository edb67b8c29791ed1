"""What nodes told at the start of attempts: where the output is, and what is enforced. In memory alone, for nodes tell
it again when they join."""

from __future__ import annotations

from collections import OrderedDict

from flagplot_wire.agentlink import Started
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.replies import Confined
from flagplot_wire.text import clean

KEPT = 50_000
"""Attempts remembered; the oldest are forgotten."""
MAX_WORDS, MAX_WORD = 16, 60
MAX_NOTE = 300


class Told:
    """By (job, attempt): the paths of its output, and the nodes of each way to confine it."""

    def __init__(self) -> None:
        self._paths: OrderedDict[tuple[JobNumber, int], tuple[str, str]] = OrderedDict()
        self._confined: OrderedDict[
            tuple[JobNumber, int], dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, None]]
        ] = OrderedDict()

    def started(self, node: str, body: Started) -> None:
        """A node confirmed its part (perhaps again)."""
        key = (body.number, body.attempt)
        if body.stdout or body.stderr:
            self._paths[key] = (body.stdout, body.stderr)
        ways = self._confined.setdefault(key, {})
        for nodes in ways.values():
            nodes.pop(node, None)
        notes = tuple(clean(note)[:MAX_NOTE] for note in body.notes[:MAX_WORDS])
        ways.setdefault((tuple(clean(word)[:MAX_WORD] for word in body.enforced[:MAX_WORDS]), notes), {})[node] = None
        while len(self._confined) > KEPT:
            self._confined.popitem(last=False)
        while len(self._paths) > KEPT:
            self._paths.popitem(last=False)

    def paths(self, number: JobNumber, attempt: int) -> tuple[str, str]:
        """Real paths of standard output and error; empty while unknown."""
        return self._paths.get((number, attempt), ("", ""))

    def confined(self, job: Job) -> list[Confined]:
        """How the nodes of a job's latest attempt confine it."""
        ways = self._confined.get((job.number, job.status.attempt), {})
        return [
            Confined(job.number, compress_hosts(list(nodes)), enforced, notes)
            for (enforced, notes), nodes in ways.items()
            if nodes
        ]
