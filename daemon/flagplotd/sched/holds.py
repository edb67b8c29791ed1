"""What is taken and given back at known times beside the ends of jobs: reservations and licenses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from flagplot_wire.alloc import NodeAlloc
from flagplot_wire.job import Job
from flagplot_wire.node import Node
from flagplot_wire.policy import Reservation
from flagplotd.core.reservations import whole
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import State
from flagplotd.sched.kernel.layout import NEVER
from flagplotd.sched.leaving import leaving

REPEATS = 32
"""Times ahead that a repeating reservation is planned around; the last of them is taken to have no end, so that nothing is
promised beyond."""


class Hold(Struct, frozen=True):
    """At `time` something of row `row` is given back (`sign` 1) or taken (-1): CPUs (or seats of a license), shards of
    GPUs; or the node is closed (`shut` 1) or opened (-1). `res` is the number of the reservation (-1: none)."""

    row: int
    time: int
    sign: int
    res: int = -1
    cpus: int = 0
    gpus: tuple[tuple[int, int], ...] = ()
    shut: int = 0


def holds_of(
    state: State, now: int, nodes: list[Node], rows: Mapping[str, int], licenses: Mapping[str, int], sharing: Sharing,
    licensed: list[Job], default_time_s: int,
) -> list[Hold]:  # fmt: skip
    """All holds; `rows` are those of the nodes by name, a license's row follows them. `licensed` are the active jobs with
    licenses."""
    seats = {name: row for row, name in enumerate(licenses, len(nodes))}
    found = list(_seats_back(state, now, seats, licensed, default_time_s))
    for number, reservation in enumerate(state.reservations.values()):
        for time in range(REPEATS if reservation.repeat_s else 1):
            start = reservation.start + reservation.repeat_s * time
            end = NEVER if time == REPEATS - 1 else start + reservation.end - reservation.start
            for name, count in reservation.licenses:
                if name in seats:
                    found += _pair(seats[name], start, end, number, count)
            for name in sorted(sharing.nodes_of(reservation.name) & rows.keys()):
                if whole(reservation):
                    found.append(Hold(rows[name], start, -1, number, shut=1))
                    found.append(Hold(rows[name], end, 1, number, shut=-1))
                else:
                    node = nodes[rows[name]]
                    found += _part(state, reservation, number, node, rows[name], start, end, now, default_time_s)
    return found


def _pair(row: int, start: int, end: int, number: int, cpus: int, gpus: tuple[tuple[int, int], ...] = ()) -> list[Hold]:
    return [Hold(row, start, -1, number, cpus, gpus), Hold(row, end, 1, number, cpus, gpus)]


def _seats_back(
    state: State, now: int, seats: Mapping[str, int], licensed: list[Job], default_time_s: int
) -> Iterator[Hold]:
    for job in licensed:
        end = max((one.end for one in leaving(state, job, now, default_time_s)), default=now + 1)
        for wanted in job.spec.request.licenses:
            if wanted.name in seats:
                yield Hold(seats[wanted.name], end, 1, cpus=wanted.count)


def _part(
    state: State, reservation: Reservation, number: int, node: Node, row: int, start: int, end: int, now: int,
    default_time_s: int,
) -> list[Hold]:  # fmt: skip
    """A reservation of some cores or GPUs of a node: what its own jobs hold of it already is held when they end. What one
    takes in a cycle counts so from the next one on: in its own, others go around the whole of it."""
    assert node.inventory is not None
    members = _members(state, reservation, node.name, now, default_time_s)
    others = _taken_by_others(state, reservation, node.name, start, now, default_time_s)
    cpus = (reservation.cores or 0) * max(node.inventory.threads_per_core, 1)
    inside = {index for _, part in members for index in (gpu.index for gpu in part.gpus)}
    cards = sorted(node.inventory.gpus, key=lambda gpu: (gpu.index not in inside, gpu.index in others, -gpu.index))
    held = [gpu for gpu in cards if not gpu.fault][: reservation.gpus or 0]
    back = {gpu.index: start for gpu in held}
    found: list[Hold] = []
    left = cpus
    for until, part in members:
        mine = min(part.cpus, left)
        left -= mine
        if mine and until < end:
            found += _pair(row, max(until, start), end, number, mine)
        for index in (gpu.index for gpu in part.gpus if gpu.index in back):
            back[index] = max(back[index], until)
    if left:
        found += _pair(row, start, end, number, left)
    for gpu in held:
        if back[gpu.index] < end:
            found += _pair(row, max(back[gpu.index], start), end, number, 0, ((gpu.index, gpu.shards),))
    return found


def _members(
    state: State, reservation: Reservation, node: str, now: int, default_time_s: int
) -> list[tuple[int, NodeAlloc]]:
    """The parts of a node that jobs of a reservation hold, and until when."""
    use = state.use.get(node)
    found = [
        (one.end, one.part)
        for job in (state.jobs[number] for number in sorted(use.jobs if use is not None else ()))
        if job.spec.reservation == reservation.name
        for one in leaving(state, job, now, default_time_s)
        if one.part.node == node
    ]
    return sorted(found, key=lambda one: one[0])


def _taken_by_others(
    state: State, reservation: Reservation, node: str, start: int, now: int, default_time_s: int
) -> set[int]:
    """The GPUs that other jobs hold beyond `start`. Who leaves before changes nothing: else the choice would move to
    GPUs that somebody was promised."""
    use = state.use.get(node)
    return {
        gpu.index
        for job in (state.jobs[number] for number in sorted(use.jobs if use is not None else ()))
        if job.spec.reservation != reservation.name
        for one in leaving(state, job, now, default_time_s)
        if one.part.node == node and one.end > start
        for gpu in one.part.gpus
    }
