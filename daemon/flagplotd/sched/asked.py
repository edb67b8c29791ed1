"""What pending jobs ask for: shapes, of which identical requests share one, the nodes each may use, the limits they are
under. Kept from cycle to cycle; `compact` drops what nobody asks for any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flagplot_wire.job import Job, Request
from flagplot_wire.node import Node
from flagplot_wire.policy import Limits
from flagplotd.core.limits import limit_chain
from flagplotd.core.needs import needs
from flagplotd.core.sharing import ENDLESS, RESOURCES, Sharing, totals_of
from flagplotd.core.state import State
from flagplotd.sched.arrays import shape_records
from flagplotd.sched.grown import Grown
from flagplotd.sched.kernel.layout import NEVER, SHAPE
from flagplotd.sched.places import Places
from flagplotd.sched.shapes import shape_of

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class Limit:
    """A limit that some pending job is under: what is used and the most, by `sharing.RESOURCES` (-1: no limit)."""

    words: str
    key: str
    used: list[int]
    most: list[int]
    limits: Limits = Limits()


class Asked:
    """By shape: `shapes`, `requests`, `counted` (what it counts for in limits, and its time limit), `masks`, `reserved` and
    `records` (as `arrays.shape_records`). `chains` are lists of the keys of `limits`."""

    def __init__(self) -> None:
        self.shapes, self.requests = Grown(object), Grown(object)
        self.counted, self.masks, self.reserved = Grown(np.int64, 7), Grown(np.int64), Grown(np.int64, 3)
        self.records = Grown(SHAPE)
        self._samples: list[Job] = []
        self._types: dict[str, int] = {}
        self.chains: list[tuple[str, ...]] = []
        self.limits: dict[str, Limit] = {}
        self._members: list[Job] = []
        self._places: Places | None = None
        self._allowed: Bytes | None = None
        self._shapes: dict[tuple[object, ...], int] = {}
        self._chains: dict[tuple[str, str, str, str], int] = {}

    def look(
        self, state: State, nodes: list[Node], types: dict[str, int], sharing: Sharing, *, anew: bool, policy: bool
    ) -> None:
        """Before rows are made: `anew` where nodes, partitions or reservations changed, `policy` where limits did. `types`
        numbers the types of GPUs."""
        if anew or self._places is None:
            self._places, self._allowed = Places(state, nodes, sharing), None
            for row, job in enumerate(self._samples):
                self.masks.all[row] = self._places.row(job)
                self.reserved.all[row] = _reservation(state, job.spec.reservation, self.shapes.all[row].limit)
        if types != self._types:
            self._types = dict(types)
            self.records.all[:] = shape_records(self.shapes.all.tolist(), types)
        if policy:
            self.limits.clear()
            self.chains = [self._links(state, job) for job in self._members]
        for limit in self.limits.values():
            limit.used = sharing.used(limit.key, limit.limits)

    def allowed(self) -> Bytes:
        """By row of `masks` the nodes that may be used."""
        assert self._places is not None
        if self._allowed is None:
            self._allowed = self._places.allowed()
        return self._allowed

    def shape(self, state: State, job: Job, waived: bool) -> int:
        """The number of a job's shape; `waived` where it does not mind the switches any more."""
        spec, request = job.spec, job.spec.request
        key = (request, spec.partition, spec.reservation, waived)
        index = self._shapes.get(key)
        if index is None:
            assert self._places is not None
            index = self._shapes[key] = len(self.shapes)
            shape = replace(shape_of(request), switches=0) if waived else shape_of(request)
            self._samples.append(job)
            self._allowed = None
            for column, one in (
                (self.shapes, shape), (self.requests, request), (self.counted, _counted(request)),
                (self.masks, self._places.row(job)), (self.reserved, _reservation(state, spec.reservation, shape.limit)),
                (self.records, shape_records([shape], self._types)[0]),
            ):  # fmt: skip
                column.add(one)
        return index

    def chain(self, state: State, job: Job, sharing: Sharing) -> int:
        """The number of a job's chain."""
        key = (job.user, job.spec.account, job.spec.qos, job.spec.partition)
        index = self._chains.get(key)
        if index is None:
            index = self._chains[key] = len(self.chains)
            self._members.append(job)
            self.chains.append(self._links(state, job))
            for name in self.chains[-1]:
                self.limits[name].used = sharing.used(name, self.limits[name].limits)
        return index

    def _links(self, state: State, job: Job) -> tuple[str, ...]:
        links = limit_chain(state, job.user, job.spec)
        for words, name, limits in links:
            if name not in self.limits:
                most = [getattr(limits, place) for place in RESOURCES]
                unset = [0] * len(RESOURCES)
                self.limits[name] = Limit(words, name, unset, [-1 if one is None else one for one in most], limits)
        return tuple(name for _, name, _ in links)

    def compact(self, shapes: Iterable[int], chains: Iterable[int]) -> tuple[Ints, Ints]:
        """Keep these alone; returns the new numbers by the old ones."""
        kept, new_shapes = _renumber(shapes, len(self.shapes))
        keys = list(self._shapes)
        self._shapes = {keys[old]: new for new, old in enumerate(kept)}
        self._samples = [self._samples[old] for old in kept]
        for column in (self.shapes, self.requests, self.counted, self.masks, self.reserved, self.records):
            column.keep(kept)
        kept, new_chains = _renumber(chains, len(self.chains))
        members = list(self._chains)
        self._chains = {members[old]: new for new, old in enumerate(kept)}
        self.chains, self._members = [self.chains[old] for old in kept], [self._members[old] for old in kept]
        return new_shapes, new_chains


def _renumber(kept: Iterable[int], count: int) -> tuple[list[int], Ints]:
    order = sorted(kept)
    new = np.full(count, -1, np.int64)
    new[order] = np.arange(len(order))
    return order, new


def _counted(request: Request) -> list[int]:
    wall_s = needs(request).wall_s
    return [*totals_of(request), ENDLESS if wall_s is None else wall_s]


def _reservation(state: State, name: str, limit: int) -> tuple[int, int, int]:
    """The number of a reservation (-1: none), when it opens and closes."""
    one = state.reservations.get(name)
    if one is None:
        return -1, 0, NEVER
    number = list(state.reservations).index(name)
    if not one.flex:
        return number, one.start, one.end
    # A job may run on after a flexible one, but when that is over it cannot start any more.
    return number, 0, NEVER if one.repeat_s else one.end - 1 + limit
