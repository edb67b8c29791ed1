"""Samples of nodes, GPUs and jobs. None always means "could not be measured", never zero.

Samples are not journalled: subscribers get the latest, a gap loses nothing that matters.
"""

from __future__ import annotations

from msgspec import Struct

from flagplot_wire.ids import JobNumber


class GpuProcess(Struct, frozen=True, omit_defaults=True):
    """A process on a GPU; `job` is 0 for an outsider (no job owns it)."""

    pid: int
    memory_mib: int | None = None
    user: str = ""
    command: str = ""
    job: JobNumber = JobNumber(0)


class GpuSample(Struct, frozen=True, omit_defaults=True):
    """One GPU at one moment: per cent, MiB, °C, W. `fault` tells why it could not be read or is unfit."""

    index: int
    utilisation: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    temperature_c: int | None = None
    power_w: int | None = None
    power_limit_w: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    fault: str = ""


class JobSample(Struct, frozen=True, omit_defaults=True):
    """What one job uses on one node. `cpu_ms` is CPU time since its start; `cpu_percent` of one core, now."""

    number: JobNumber
    attempt: int
    cpu_ms: int | None = None
    cpu_percent: int | None = None
    memory_mib: int | None = None
    memory_peak_mib: int | None = None
    processes: int | None = None
    gpu_percent: int | None = None
    gpu_memory_mib: int | None = None


class NodeSample(Struct, frozen=True, omit_defaults=True):
    """One node at `time` (epoch seconds). `load` is the 1-minute load average times 100."""

    node: str
    time: int
    cpu_percent: int | None = None
    load: int | None = None
    memory_used_mib: int | None = None
    gpus: tuple[GpuSample, ...] = ()
    jobs: tuple[JobSample, ...] = ()
    simulated: bool = False
