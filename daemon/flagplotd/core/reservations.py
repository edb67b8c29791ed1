"""Reservations: what they cover, whether they contradict each other or running jobs, and their passing."""

from __future__ import annotations

from math import gcd

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.ids import JobNumber
from flagplot_wire.policy import Reservation
from flagplotd.core import keys
from flagplotd.core.records import check_record, find, known
from flagplotd.core.state import State
from flagplotd.core.stepper import Stepper

FOREVER = 2**62
_WHERE = ("nodes", "all_nodes", "partition", "cores", "gpus")


def covered(state: State, reservation: Reservation) -> set[str]:
    """The names of the nodes it is about."""
    return reservation.covered(state.nodes, state.partitions)


def whole(reservation: Reservation) -> bool:
    """True when it takes its nodes as a whole."""
    return reservation.cores is None and reservation.gpus is None


def occurrence(reservation: Reservation, now: int) -> Reservation | None:
    """The reservation as of `now`: a repeating one that ended is moved on, another one is over (None)."""
    if reservation.end > now:
        return reservation
    if not reservation.repeat_s:
        return None
    late = (now - reservation.end) // reservation.repeat_s + 1
    shift = late * reservation.repeat_s
    return msgspec.structs.replace(reservation, start=reservation.start + shift, end=reservation.end + shift)


def meet(one: Reservation, other: Reservation) -> bool:
    """True when some occurrence of one overlaps in time with some occurrence of the other."""
    if one.repeat_s and other.repeat_s:
        period = gcd(one.repeat_s, other.repeat_s)
        first = other.start + ((one.start - other.end) // period + 1) * period
        return first < one.end
    if other.repeat_s:
        one, other = other, one
    start, end = one.start, one.end
    if one.repeat_s and end <= other.start:
        shift = ((other.start - end) // one.repeat_s + 1) * one.repeat_s
        start, end = start + shift, end + shift
    return start < other.end and other.start < end


def check_free(state: State, reservation: Reservation, now: int, jobs: bool) -> None:
    """Refuse nodes that are unknown or reserved for others, and (with `jobs`) those whose jobs run into it."""
    known("node", reservation.nodes, state.nodes, f"reservation {reservation.name}")
    nodes = covered(state, reservation)
    if not nodes and not reservation.licenses:
        raise Refused("bad_value", f"reservation {reservation.name}: there are no nodes to reserve")
    check_apart(state, reservation)
    if jobs and not reservation.ignore_jobs:
        _check_jobs(state, reservation, nodes, now)


def _tolerant(reservation: Reservation) -> bool:
    return reservation.maintenance or reservation.ignore_jobs


def check_apart(state: State, reservation: Reservation) -> None:
    """Refuse nodes that others have reserved for the same time."""
    if _tolerant(reservation):
        return
    nodes = covered(state, reservation)
    cores, gpus = dict.fromkeys(nodes, reservation.cores or 0), dict.fromkeys(nodes, reservation.gpus or 0)
    for other in state.reservations.values():
        if other.name == reservation.name or _tolerant(other) or not meet(reservation, other):
            continue
        both = nodes & covered(state, other)
        if both and (whole(reservation) or whole(other)):
            raise Refused(
                "reserved", f"reservation {reservation.name}: {compress_hosts(both)} is reserved by {other.name} then",
                "choose other nodes or another time, or flag one of them maint",
            )  # fmt: skip
        for name in both:
            cores[name] += other.cores or 0
            gpus[name] += other.gpus or 0
    for name in sorted(nodes):
        _check_room(state, reservation, name, cores[name], gpus[name], "other reservations")


def _check_room(state: State, reservation: Reservation, name: str, cores: int, gpus: int, whose: str) -> None:
    """Refuse where all that is wanted of a node is more than it has."""
    inventory = state.nodes[name].inventory if name in state.nodes else None
    if inventory is None or whole(reservation):
        return
    for wanted, there, what in ((cores, inventory.cores, "cores"), (gpus, len(inventory.gpus), "GPUs")):
        if wanted > there:
            raise Refused(
                "reserved", f"reservation {reservation.name}: {name} has {there} {what}, "
                f"{wanted} are wanted with those of {whose}", "reserve fewer, or choose other nodes or another time",
            )  # fmt: skip


def _check_jobs(state: State, reservation: Reservation, nodes: set[str], now: int) -> None:
    until = FOREVER if reservation.repeat_s else reservation.end
    for name in sorted(nodes & state.use.keys()):
        cpus, gpus = 0, 0
        for number in sorted(state.use[name].jobs):
            job = state.jobs[number]
            end = job.limit_ends or FOREVER
            outside = job.spec.reservation == reservation.name or max(end, now) <= reservation.start
            if outside or until <= now or job.status.allocation is None:
                continue
            if whole(reservation):
                raise Refused(
                    "in_use", f"reservation {reservation.name}: job {job.display_id} on {name} may run longer than until "
                    "its start", "choose other nodes or a later start, or add flags=ignore_jobs",
                )  # fmt: skip
            part = next(part for part in job.status.allocation.nodes if part.node == name)
            cpus += part.cpus
            gpus += len(part.gpus)
        inventory = state.nodes[name].inventory if name in state.nodes else None
        threads = max(inventory.threads_per_core, 1) if inventory is not None else 1
        cores = (reservation.cores or 0) + -(-cpus // threads)
        _check_room(state, reservation, name, cores, (reservation.gpus or 0) + gpus, "running jobs")


def change(step: Stepper, verb: str, name: str, values: dict[str, str], by: str) -> str:
    """Add, modify or remove one reservation; returns what was done in words."""
    there = step.state.reservations
    if verb == "add":
        if name in there:
            raise Refused("exists", f"there is a reservation {name} already", "modify it, or choose another name")
        return _keep(step, None, _changed(step, Reservation(name, step.now, 0), values), "added", by)
    old = find("reservation", name, there)
    if verb == "modify":
        return _keep(step, old, _changed(step, old, values), f"changed {', '.join(values)}", by)
    busy = _users_of(step.state, name)
    if busy:
        jobs = f"job {busy[0]}" + (f" and {len(busy) - 1} more" if len(busy) > 1 else "")
        raise Refused("in_use", f"reservation {name} is named by {jobs}", "cancel or change them first")
    step.emit(ev.PolicyRemoved("reservation", name, by))
    step.replan()
    return "removed"


def _keep(step: Stepper, old: Reservation | None, new: Reservation, what: str, by: str) -> str:
    check_record(step.state, new)
    if occurrence(new, step.now) is None:
        raise Refused("bad_value", f"reservation {new.name} would be over already", "give a later end")
    moved = old is None or any(getattr(old, field) != getattr(new, field) for field in (*_WHERE, "start"))
    check_free(step.state, new, step.now, jobs=moved or (old is not None and old.ignore_jobs and not new.ignore_jobs))
    step.emit(ev.PolicyChanged(new, what, by))
    step.replan()
    return what


def _changed(step: Stepper, old: Reservation, values: dict[str, str]) -> Reservation:
    given = {keys.find("reservation", key).name: value for key, value in values.items()}
    duration = given.pop("duration", "")
    if duration and "end" in given:
        raise Refused("bad_key", "give an end or a duration, not both")
    new = keys.changed(old, "reservation", given, step.now)
    if duration:
        lasts = keys.read_value(keys.KEYS["reservation"]["duration"], duration, step.now)["duration"]
        new = msgspec.structs.replace(new, end=new.start + lasts)
    if not new.end:
        raise Refused("bad_value", f"reservation {new.name} has no end", "give an end or a duration")
    return new


def _users_of(state: State, name: str) -> list[JobNumber]:
    return sorted(number for number in (*state.active, *state.pending) if state.jobs[number].spec.reservation == name)


def tick(step: Stepper) -> None:
    """Move repeating reservations on, remove those that ended, and wake the scheduler where one begins."""
    begun = False
    for reservation in list(step.state.reservations.values()):
        kept = occurrence(reservation, step.now)
        if kept is None:
            step.emit(ev.PolicyRemoved("reservation", reservation.name))
        elif kept is not reservation:
            step.emit(ev.PolicyChanged(kept, "moved on"))
        begun |= kept is not reservation or step.state.planned_at < reservation.start <= step.now
    if begun:
        step.state.planned_at = step.now
        step.replan()
