"""Which nodes requests may use, by what their constraints ask."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flagplot_wire import constraint
from flagplot_wire.job import Job
from flagplot_wire.node import Node
from flagplotd.core.needs import span
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import State

Bytes = NDArray[np.uint8]


class Places:
    """Which nodes requests may use. Those of a constraint have a row for each of its choices, followed each by the rows of
    its groups (`constraint.Asked`); all that leave the same nodes share them."""

    def __init__(self, state: State, nodes: list[Node], sharing: Sharing) -> None:
        self._state, self._nodes, self._sharing = state, nodes, sharing
        self._known: dict[tuple[object, ...], int] = {}
        self._rows: list[Bytes] = []

    def row(self, job: Job) -> int:
        """The first row of a job."""
        request, reservation = job.spec.request, job.spec.reservation
        alone = span(request)[1] == 1
        key = (job.spec.partition, request.nodelist, request.exclude, request.constraint, alone, reservation)
        if key not in self._known:
            self._known[key] = len(self._rows)
            open_to = self._open(job)
            if request.constraint:
                self._rows += self._asked(open_to, constraint.asked(request.constraint, 1 if alone else 2))
            else:
                self._rows.append(open_to)
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
            row[index] = fits
        return row

    def _asked(self, open_to: Bytes, wanted: constraint.Asked) -> list[Bytes]:
        rows: list[Bytes] = []
        for choice in wanted.choices:
            inside = open_to * self._matching(choice)
            rows += [inside, *(inside * self._matching(part) for part, _ in wanted.groups)]
        return rows

    def _matching(self, tree: constraint.Tree) -> Bytes:
        """Which nodes match; nodes with the same features are looked at once."""
        known: dict[tuple[str, ...], bool] = {}
        row = np.zeros(len(self._nodes), np.uint8)
        for index, node in enumerate(self._nodes):
            features = node.inventory.features if node.inventory else ()
            if features not in known:
                known[features] = constraint.matches(tree, features)
            row[index] = known[features]
        return row
