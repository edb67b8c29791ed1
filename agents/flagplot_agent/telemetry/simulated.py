"""Simulated hardware: what a TOML file describes. Everything made here says that it is simulated."""

from __future__ import annotations

import math
import tomllib
import zlib
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from flagplot_wire.errors import Refused
from flagplot_wire.node import Gpu, Inventory, NumaNode
from flagplot_wire.telemetry import GpuSample


class SimulatedGpus(Struct, forbid_unknown_fields=True):
    """`count` GPUs of one type."""

    type: str
    count: int
    vram_mib: int
    name: str = ""
    shards: int = 8


class Simulation(Struct, forbid_unknown_fields=True):
    """A simulated node. `memory_mib` is the whole node's. An empty `kernel` or `os` is the real machine's."""

    sockets: int = 2
    cores: int = 64
    threads: int = 1
    memory_mib: int = 1_048_576
    switch: str = ""
    features: list[str] = []
    gpus: list[SimulatedGpus] = []
    kernel: str = ""
    os: str = ""
    driver: str = "simulated"
    libraries: dict[str, str] = {}


def read_simulation(path: Path) -> Simulation:
    """Read the file; raises `Refused` naming what is wrong in it."""
    try:
        return convert(tomllib.loads(path.read_text()), Simulation)
    except OSError as wrong:
        raise Refused("usage", f"cannot read {path}: {wrong.strerror}") from wrong
    except (tomllib.TOMLDecodeError, ValidationError) as wrong:
        raise Refused("usage", f"{path}: {wrong}") from wrong


def inventory_of(node: str, simulation: Simulation, boot_id: str, kernel: str, os_name: str) -> Inventory:
    """The inventory that a simulation describes; GPU ids are the same on every start."""
    cpus = simulation.cores * simulation.threads
    sockets = max(simulation.sockets, 1)
    numa = tuple(
        NumaNode(
            index, f"{cpus * index // sockets}-{cpus * (index + 1) // sockets - 1}", simulation.memory_mib // sockets
        )
        for index in range(sockets)
    )
    total = sum(kind.count for kind in simulation.gpus)
    gpus: list[Gpu] = []
    for kind in simulation.gpus:
        for _ in range(kind.count):
            index = len(gpus)
            digest = zlib.crc32(f"{node}/{index}".encode())
            gpus.append(
                Gpu(
                    index,
                    f"GPU-{digest:08x}-5157-4a7e-9000-{index:012x}",
                    kind.type,
                    kind.name or f"simulated {kind.type}",
                    kind.vram_mib,
                    index * sockets // max(total, 1),
                    f"0000:{16 + index:02x}:00.0",
                    index,
                    kind.shards,
                    simulated=True,
                )
            )
    return Inventory(
        boot_id, sockets, simulation.cores, simulation.threads, f"0-{cpus - 1}", simulation.memory_mib, numa,
        tuple(gpus), tuple(simulation.features), simulation.switch, "127.0.0.1", simulation.kernel or kernel,
        simulation.os or os_name, simulation.driver, "simulated", True,
        ("CPUs, memory and GPUs are simulated; jobs are real processes",), tuple(sorted(simulation.libraries.items())),
    )  # fmt: skip


def sample_gpu(node: str, gpu: Gpu, held: int, now: int) -> GpuSample:
    """A plausible reading of a GPU of which `held` shards are in use: it moves smoothly with time."""
    seed = zlib.crc32(gpu.uuid.encode())
    wave = math.sin(now / 17 + seed % 97) + math.sin(now / 41 + seed % 31)
    total = gpu.vram_mib or 0
    if not held:
        return GpuSample(gpu.index, 0, 0, total, 31 + seed % 5, 55 + seed % 11, 700)
    share = held / gpu.shards
    busy = min(max(int(100 * share * (0.82 + 0.09 * wave)), 1), 100)
    used = min(int(total * share * (0.71 + 0.04 * wave)), total)
    return GpuSample(gpu.index, busy, used, total, 38 + busy * 3 // 8 + seed % 4, 90 + busy * 5, 700)
