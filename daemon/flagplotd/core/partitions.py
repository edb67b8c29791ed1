"""Partitions that people add, modify and remove while the controller runs."""

from __future__ import annotations

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.node import Partition
from flagplotd.core import keys
from flagplotd.core.records import check_partition, find, known
from flagplotd.core.stepper import Stepper


def change(step: Stepper, verb: str, name: str, values: dict[str, str], by: str) -> str:
    """Add, modify or remove one partition; returns what was done in words."""
    there = step.state.partitions
    if verb == "add":
        if name in there:
            raise Refused("exists", f"there is a partition {name} already", "modify it, or choose another name")
        new = keys.changed(Partition(name, added_by=by), "partition", values, step.now)
        if not new.nodes and not new.all_nodes:
            raise Refused("bad_value", f"partition {name} has no nodes", "give nodes: a host list, or ALL")
        return _keep(step, None, new, "added", by)
    old = find("partition", name, there)
    if verb == "modify":
        new = keys.changed(old, "partition", values, step.now)
        return _keep(step, old, new, f"changed {', '.join(values)}", by)
    _check_unused(step, name)
    step.emit(ev.PartitionRemoved(name, by))
    step.replan()
    return "removed"


def _keep(step: Stepper, old: Partition | None, new: Partition, what: str, by: str) -> str:
    if old is None or old.nodes != new.nodes:
        known("node", new.nodes, step.state.nodes, f"partition {new.name}")
    check_partition(step.state, new)
    step.emit(ev.PartitionChanged(new, by))
    if new.default and not (old is not None and old.default):
        for other in list(step.state.partitions.values()):
            if other.default and other.name != new.name:
                step.emit(ev.PartitionChanged(msgspec.structs.replace(other, default=False), by))
    step.replan()
    return what


def _check_unused(step: Stepper, name: str) -> None:
    state = step.state
    jobs = [number for number in (*state.active, *state.pending) if state.jobs[number].spec.partition == name]
    if jobs:
        raise Refused(
            "in_use", f"partition {name} has {len(jobs)} jobs, the first is {min(jobs)}",
            "modify it with state=down, and wait until they ended, or move them",
        )  # fmt: skip
    users = [one.name for one in state.reservations.values() if one.partition == name]
    if users:
        raise Refused("in_use", f"partition {name} is what reservation {users[0]} is about", "remove that first")
