"""When what a job holds is free again, as the plan takes it: also of jobs on their way out and of suspended ones."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from flagplot_wire.alloc import NodeAlloc
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplotd.core.state import NodeUse, State
from flagplotd.core.suspending import offered, on_their_way, waited_for


class Leaving(Struct, frozen=True):
    """At `end` so many CPUs of `part` are free, and the rest of it where `rest` says so."""

    end: int
    part: NodeAlloc
    cpus: int
    rest: bool = True


def leaving(state: State, job: Job, now: int, default_time_s: int) -> Iterator[Leaving]:
    """What an active job gives back. The CPUs that a suspended one goes on with later are its own; those that its
    preemptor waits for are free when that one's last victim is gone."""
    status = job.status
    end = status.stop_by or job.limit_ends or status.start_time + default_time_s
    end = max(end, now + 1)
    for part in status.allocation.nodes if status.allocation is not None else ():
        if not status.suspended_at:
            yield Leaving(end, part, part.cpus)
            continue
        free = (mask_of(part.cpu_ids) & ~state.use.get(part.node, NodeUse()).cpus).bit_count()
        if status.state is JobState.COMPLETING or offered(state, job):
            yield Leaving(end, part, 0)
        elif waited_for(state, job):
            others = on_their_way(state, state.jobs[status.preempted_by])
            yield Leaving(max(now + 1, *(other.status.stop_by for other in others)), part, free, rest=False)
            yield Leaving(end, part, 0)
        else:
            yield Leaving(end, part, free)
