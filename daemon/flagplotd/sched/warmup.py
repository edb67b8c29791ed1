"""Compiling the kernels ahead of the first cycle; the compiler keeps the result in its cache folder."""

from __future__ import annotations

from collections.abc import Callable

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import GpuCount, Job, JobSpec, Request, Status
from flagplot_wire.node import Gpu, Inventory, Node, Partition
from flagplotd.core.state import State

STAGES = ("loading the compiler", "compiling the scheduler")


def compile_all(progress: Callable[[str, int, int], None]) -> None:
    """Compile (or load) every kernel by planning a tiny cluster; `progress` gets what, done, total."""
    from flagplotd.sched.plan import Policy, run

    progress(STAGES[0], 0, 2)
    from flagplotd.sched import between, snapshot

    progress(STAGES[1], 1, 2)
    state = State()
    gpu = Gpu(0, "GPU-0", "none", vram_mib=1024)
    inventory = Inventory("boot", 1, 1, 1, "0", 1024, gpus=(gpu,))
    state.nodes["n"] = Node("n", inventory, responding=True)
    state.partitions["p"] = Partition("p", all_nodes=True)
    for number, gpus in ((1, 1), (2, 1)):
        spec = JobSpec("warm", "/", Request(gpus_per_node=(GpuCount(gpus),)), "p")
        state.jobs[JobNumber(number)] = Job(JobNumber(number), "nobody", 0, spec, Status())
        state.pending.add(JobNumber(number))
    left = between.left_by(run(snapshot.take(state, 1), Policy()), Policy())
    if left is not None:
        left.ending.at(1, 0, ())
    progress(STAGES[1], 2, 2)
