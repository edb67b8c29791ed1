"""Which nodes requests may use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flagplot_wire import constraint
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job
from flagplot_wire.node import Node
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import State

Bytes = NDArray[np.uint8]


class Places:
    """Which nodes requests may use, one row for all that leave the same ones."""

    def __init__(self, state: State, nodes: list[Node], sharing: Sharing) -> None:
        self._state, self._nodes, self._sharing = state, nodes, sharing
        self._known: dict[tuple[object, ...], int] = {}
        self._rows: list[Bytes] = []

    def row(self, job: Job) -> int:
        """The row of a job."""
        request, reservation = job.spec.request, job.spec.reservation
        key = (job.spec.partition, request.nodelist, request.exclude, request.constraint, reservation)
        if key not in self._known:
            self._known[key] = len(self._rows)
            self._rows.append(self._open(job))
        return self._known[key]

    def allowed(self) -> Bytes:
        """All rows, a column for each node."""
        return np.array(self._rows or [np.ones(len(self._nodes), np.uint8)], np.uint8).reshape(-1, len(self._nodes))

    def _open(self, job: Job) -> Bytes:
        request, part = job.spec.request, self._state.partitions.get(job.spec.partition)
        row = np.zeros(len(self._nodes), np.uint8)
        inside = self._sharing.only_on(job)
        for index, node in enumerate(self._nodes):
            fits = (part is None or part.has(node.name)) and (inside is None or node.name in inside)
            fits = fits and (not request.nodelist or node.name in request.nodelist) and node.name not in request.exclude
            features = node.inventory.features if node.inventory else ()
            row[index] = fits and has_features(request.constraint, features)
        return row


def has_features(text: str, features: tuple[str, ...]) -> bool:
    """Whether a node with `features` may be among the nodes of a job with this constraint (`sbatch(1)`); one that
    cannot be read, which the gate refuses, matches none."""
    try:
        return constraint.matches(constraint.parse(text), features)
    except Refused:
        return False
