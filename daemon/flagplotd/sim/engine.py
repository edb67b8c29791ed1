"""A workload of processors run through a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from flagplotd.sim.swf import Workload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POLICIES = ("fcfs", "easy", "easy-sjbf", "conservative")


class Outcome(Struct, frozen=True):
    """When each job of a workload started (seconds on the log's clock), and by when it was promised to."""

    jobs: Workload
    start: list[int]
    promised: list[int]


def simulate(jobs: Workload, policy: str, clairvoyant: bool = False) -> Outcome:
    """Run the jobs under one of `POLICIES`; clairvoyant: the scheduler knows each run time as its estimate."""
    import numpy as np

    from flagplotd.sched import profile

    submit, run, estimate, procs = (
        np.array(column, np.int64)
        for column in (jobs.submit, jobs.run, jobs.run if clairvoyant else jobs.requested, jobs.procs)
    )
    start: NDArray[np.int64] = np.full(len(jobs.submit), -1, np.int64)
    promised = start.copy()
    if policy == "conservative":
        profile.replay_conservative(submit, run, estimate, procs, jobs.total, start, promised)
    else:
        discipline = {"fcfs": profile.FCFS, "easy": profile.EASY, "easy-sjbf": profile.EASY_SJBF}[policy]
        profile.replay_queue(submit, run, estimate, procs, jobs.total, discipline, start, promised)
    return Outcome(jobs, start.tolist(), promised.tolist())
