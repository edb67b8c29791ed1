"""Which processes belong to the attempts that run here."""

from __future__ import annotations

import msgspec

from flagplot_agent.attempts import Held
from flagplot_agent.launch.cgroup import pids_in
from flagplot_agent.launch.processes import of_attempt, table
from flagplot_agent.telemetry.sampler import JobProcesses
from flagplot_wire.alloc import GpuPart


def job_processes(running: Held) -> list[JobProcesses]:
    """The processes of attempts, from what the keeper noted at their start and the GPUs they hold."""
    found = []
    processes = None
    for (number, attempt), (begun, gpus) in running.items():
        pids: set[int] = set()
        if begun is not None and begun["group"]:
            pids = pids_in(begun["group"])
        elif begun is not None and begun["pids"]:
            processes = table() if processes is None else processes
            pids = of_attempt({int(pid) for pid in begun["pids"]}, (), -1, processes)
        parts = [msgspec.convert(gpu, GpuPart) for gpu in gpus]
        found.append(JobProcesses(number, attempt, sorted(pids), parts))
    return found
