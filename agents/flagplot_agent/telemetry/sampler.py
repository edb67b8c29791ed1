"""The sampler: one measurement of the node, its GPUs and its jobs at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from flagplot_agent.telemetry import host
from flagplot_agent.telemetry.nvml import Device, NoNvml, Nvml
from flagplot_agent.telemetry.simulated import sample_gpu
from flagplot_wire.alloc import GpuPart
from flagplot_wire.ids import JobNumber
from flagplot_wire.node import Inventory
from flagplot_wire.telemetry import GpuProcess, GpuSample, JobSample, NodeSample

RETRY_S = 30
"""After a failed init NVML is tried again this often."""


@dataclass(slots=True)
class JobProcesses:
    """A running attempt: its processes and the GPUs it holds here."""

    number: int
    attempt: int
    pids: list[int]
    gpus: list[GpuPart] = field(default_factory=list)


class Sampler:
    """Keeps what is needed between two samples. `inventory` follows GPUs that fail and come back."""

    def __init__(self, inventory: Inventory, simulate: Path | None) -> None:
        self.inventory = inventory
        self.simulated = simulate is not None
        self._nvml: Nvml | None = None
        self._devices: list[Device] = []
        self._retry_at = 0
        self._busy = host.cpu_times()
        self._usage: dict[tuple[int, int], tuple[int, int]] = {}
        self._peaks: dict[tuple[int, int], int] = {}
        self._gpu: dict[tuple[int, int], tuple[int, int]] = {}
        """Of each attempt the utilisation of its GPUs added up, over so many samples."""

    def sample(self, now: int, jobs: list[JobProcesses]) -> NodeSample:
        """Measure; `now` is epoch seconds. Blocks for some milliseconds, so call it in a thread."""
        gpus = self._simulated(now, jobs) if self.simulated else self._real(now, jobs)
        busy, ticks = host.cpu_times()
        spent, passed = busy - self._busy[0], ticks - self._busy[1]
        self._busy = (busy, ticks)
        job_samples = tuple(self._job(job, now, gpus) for job in jobs)
        cpu = 100 * spent // passed if passed > 0 else None
        memory: int | None = host.memory_used_mib()
        if self.simulated:
            # The real machine's figures are not this node's: what its jobs use is.
            known = [one.cpu_percent for one in job_samples if one.cpu_percent is not None]
            cpus = self.inventory.cores * self.inventory.threads_per_core
            cpu = sum(known) // max(cpus, 1)
            memory = sum(one.memory_mib or 0 for one in job_samples)
        load = None if self.simulated else host.load_hundredths()
        for key in self._usage.keys() - {(job.number, job.attempt) for job in jobs}:
            del self._usage[key]
            self._peaks.pop(key, None)
            self._gpu.pop(key, None)
        return NodeSample("", now, cpu, load, memory, gpus, job_samples, self.simulated)

    def measured(self, key: tuple[int, int], end: dict[str, Any]) -> dict[str, Any]:
        """The end of an attempt with what was measured of it while it ran, as far as this agent saw it run."""
        found = {**end, "memory_peak_mib": max(end.get("memory_peak_mib", 0), self._peaks.get(key, 0))}
        if key in self._gpu:
            total, samples = self._gpu[key]
            found["gpu_percent"] = total // samples
        return found

    def gpu_processes(self, wanted: set[int], owners: dict[int, int]) -> dict[int, tuple[GpuProcess, ...]]:
        """Who is on these GPUs now; `owners` maps pids to jobs. A GPU that cannot be asked is left out."""
        nvml = self._nvml
        if nvml is None:
            return {}
        mine = [device for device in self._devices if device.gpu.index in wanted]
        found = {device.gpu.index: nvml.processes(device, owners) for device in mine}
        return {index: processes for index, processes in found.items() if processes is not None}

    def _simulated(self, now: int, jobs: list[JobProcesses]) -> tuple[GpuSample, ...]:
        held = [0] * len(self.inventory.gpus)
        for job in jobs:
            for part in job.gpus:
                held[part.index] += part.shards
        return tuple(sample_gpu("", gpu, count, now) for gpu, count in zip(self.inventory.gpus, held, strict=True))

    def _real(self, now: int, jobs: list[JobProcesses]) -> tuple[GpuSample, ...]:
        if self._nvml is None:
            if now < self._retry_at:
                return self._silent()
            self._retry_at = now + RETRY_S
            try:
                self._nvml = Nvml()
                self._devices = self._nvml.devices()
            except NoNvml as why:
                self._nvml = None
                self._note_failure(str(why))
                return self._silent(str(why))
            self._take_devices()
        elif now >= self._retry_at and any(device.gpu.fault for device in self._devices):
            # A card that was lost when it was first looked at is known only by looking again.
            self._retry_at = now + RETRY_S
            self._devices = self._nvml.devices()
            self._take_devices()
        owners = {pid: job.number for job in jobs for pid in job.pids}
        samples = tuple(self._nvml.sample(device, owners) for device in self._devices)
        self._note_faults(samples)
        return samples

    def _silent(self, fault: str = "could not be read") -> tuple[GpuSample, ...]:
        return tuple(GpuSample(gpu.index, fault=gpu.fault or fault) for gpu in self.inventory.gpus)

    def _note_failure(self, why: str) -> None:
        """A driver that went away makes every GPU unfit for new jobs; it comes back by itself."""
        if self.inventory.gpus:
            gpus = tuple(msgspec.structs.replace(gpu, fault=why) for gpu in self.inventory.gpus)
            self.inventory = msgspec.structs.replace(self.inventory, gpus=gpus)

    def _take_devices(self) -> None:
        gpus = tuple(device.gpu for device in self._devices)
        if gpus != self.inventory.gpus:
            self.inventory = msgspec.structs.replace(self.inventory, gpus=gpus, notes=())

    def _note_faults(self, samples: tuple[GpuSample, ...]) -> None:
        gpus = tuple(
            msgspec.structs.replace(gpu, fault=sample.fault or device.gpu.fault)
            for gpu, sample, device in zip(self.inventory.gpus, samples, self._devices, strict=True)
        )
        if gpus != self.inventory.gpus:
            self.inventory = msgspec.structs.replace(self.inventory, gpus=gpus)

    def _job(self, job: JobProcesses, now: int, gpus: tuple[GpuSample, ...]) -> JobSample:
        key = (job.number, job.attempt)
        usages = [usage for pid in job.pids if (usage := host.process_usage(pid)) is not None]
        cpu_ms = sum(usage[0] for usage in usages)
        memory = sum(usage[1] for usage in usages) // 1024
        before = self._usage.get(key)
        percent = None
        if before is not None and now > before[1]:
            percent = max(cpu_ms - before[0], 0) // (10 * (now - before[1]))
        self._usage[key] = (cpu_ms, now)
        self._peaks[key] = max(memory, self._peaks.get(key, 0))
        mine = [gpus[part.index] for part in job.gpus if part.index < len(gpus)]
        busy = [one.utilisation for one in mine if one.utilisation is not None]
        if busy and len(busy) == len(job.gpus):
            total, samples = self._gpu.get(key, (0, 0))
            self._gpu[key] = total + sum(busy), samples + 1
        return JobSample(
            JobNumber(job.number), job.attempt, cpu_ms, percent, memory, self._peaks[key], len(usages),
            sum(busy) // len(busy) if busy else None, self._gpu_memory(job, mine),
        )  # fmt: skip

    def _gpu_memory(self, job: JobProcesses, samples: list[GpuSample]) -> int | None:
        if not samples:
            return None
        if self.simulated:
            shares = [(sample.memory_used_mib or 0) for sample in samples]
            return sum(shares)
        own = [one.memory_mib for sample in samples for one in sample.processes if one.job == job.number]
        return None if any(mib is None for mib in own) else sum(mib or 0 for mib in own)
