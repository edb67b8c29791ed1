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
from flagplotd.core.needs import MAX_GPU_TYPES, needs
from flagplotd.core.sharing import ENDLESS, RESOURCES, Sharing, totals_of
from flagplotd.core.state import State
from flagplotd.sched.kernel.layout import NEVER
from flagplotd.sched.places import Places
from flagplotd.sched.shapes import Shape, shape_of

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
    """Lists by shape: `shapes`, `samples` (a job that asks for it), `counted` (what it counts for in limits, and its time
    limit), `masks` and `reserved`. `chains` are lists of the keys of `limits`."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []
        self.samples: list[Job] = []
        self.counted: list[list[int]] = []
        self.masks: list[int] = []
        self.reserved: list[tuple[int, int, int]] = []
        self.chains: list[tuple[str, ...]] = []
        self.limits: dict[str, Limit] = {}
        self._members: list[Job] = []
        self._places: Places | None = None
        self._shapes: dict[tuple[object, ...], int] = {}
        self._chains: dict[tuple[str, str, str, str], int] = {}

    def look(self, state: State, nodes: list[Node], sharing: Sharing, *, anew: bool, policy: bool) -> None:
        """Before rows are made: `anew` where nodes, partitions or reservations changed, `policy` where limits did."""
        if anew or self._places is None:
            self._places = Places(state, nodes, sharing)
            self.masks = [self._places.row(job) for job in self.samples]
            self.reserved = [_reservation(state, job.spec.reservation) for job in self.samples]
        if policy:
            self.limits.clear()
            self.chains = [self._links(state, job) for job in self._members]
        for limit in self.limits.values():
            limit.used = sharing.used(limit.key, limit.limits)

    def allowed(self) -> Bytes:
        """By row of `masks` the nodes that may be used."""
        assert self._places is not None
        return self._places.allowed()

    def shape(self, state: State, job: Job, waived: bool) -> int:
        """The number of a job's shape; `waived` where it does not mind the switches any more."""
        spec, request = job.spec, job.spec.request
        key = (request, spec.partition, spec.reservation, waived)
        index = self._shapes.get(key)
        if index is None:
            assert self._places is not None
            index = self._shapes[key] = len(self.shapes)
            shape = shape_of(request)
            self.shapes.append(replace(shape, switches=0) if waived else shape)
            self.samples.append(job)
            self.counted.append(_counted(request))
            self.masks.append(self._places.row(job))
            self.reserved.append(_reservation(state, spec.reservation))
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
        for name in ("shapes", "samples", "counted", "masks", "reserved"):
            column = getattr(self, name)
            setattr(self, name, [column[old] for old in kept])
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


def _reservation(state: State, name: str) -> tuple[int, int, int]:
    """The number of a reservation (-1: none), when it opens and closes."""
    one = state.reservations.get(name)
    if one is None:
        return -1, 0, NEVER
    number = list(state.reservations).index(name)
    return number, 0 if one.flex else one.start, NEVER if one.flex else one.end


def shape_arrays(shapes: list[Shape], types: dict[str, int]) -> tuple[Ints, Ints, Ints]:
    """(needs, GPU types, GPU counts) by shape."""
    need = np.zeros((max(len(shapes), 1), 6), np.int64)
    kinds = np.full((max(len(shapes), 1), MAX_GPU_TYPES), -1, np.int64)
    counts = np.zeros((max(len(shapes), 1), MAX_GPU_TYPES), np.int64)
    for row, shape in enumerate(shapes):
        # A type that no node has gets an index that none carries, so that it never fits.
        share = types.get(shape.share_type, len(types) + 1) if shape.share_type else -1
        need[row] = (shape.cpu, shape.mem, shape.shards, shape.vram, share, shape.exclusive)
        for kind, (word, count) in enumerate(shape.gpus):
            kinds[row, kind] = types.get(word, len(types) + 1) if word else -1
            counts[row, kind] = count
    return need, kinds, counts
