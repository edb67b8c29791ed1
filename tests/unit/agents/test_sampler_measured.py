"""What the agent adds to the end of an attempt: its memory's peak and the mean utilisation of its GPUs."""

from __future__ import annotations

import os
from pathlib import Path

from flagplot_agent.telemetry.sampler import JobProcesses, Sampler
from flagplot_wire.alloc import GpuPart
from flagplot_wire.node import Gpu, Inventory

KEY = (41, 1)


def make() -> Sampler:
    cards = tuple(Gpu(index, f"GPU-{index}", "h100", vram_mib=80_000) for index in range(2))
    return Sampler(Inventory("boot", 1, 4, 1, "0-3", 8_000, gpus=cards, simulated=True), Path("/nowhere"))


def test_the_mean_of_all_samples_and_the_peak_of_memory() -> None:
    sampler, job = make(), JobProcesses(*KEY, [os.getpid()], [GpuPart(0, 8, 8), GpuPart(1, 8, 8)])
    busy = []
    for now in (1_000, 1_030, 1_060):
        sample = sampler.sample(now, [job])
        busy.append(sum(gpu.utilisation or 0 for gpu in sample.gpus))
    found = sampler.measured(KEY, {"cause": "exited", "memory_peak_mib": 1, "cpu_ms": 7})
    assert found["gpu_percent"] == sum(busy) // 3 > 0
    assert found["memory_peak_mib"] > 10 and found["cpu_ms"] == 7
    assert sampler.measured(KEY, {"memory_peak_mib": 1 << 20})["memory_peak_mib"] == 1 << 20


def test_an_attempt_that_was_never_sampled_is_not_measured() -> None:
    sampler = make()
    assert "gpu_percent" not in sampler.measured(KEY, {"cause": "exited"})
    sampler.sample(1_000, [JobProcesses(*KEY, [os.getpid()])])
    assert "gpu_percent" not in sampler.measured(KEY, {"cause": "exited"}), "it holds no GPU"
    sampler.sample(1_030, [])
    assert sampler.measured(KEY, {})["memory_peak_mib"] == 0, "what has ended is forgotten"
