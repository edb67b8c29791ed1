"""How a job is held to its part of GPU memory: the strongest way that this node has, and its name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from msgspec import Struct

from flagplot_agent.guard import Policy
from flagplot_wire.alloc import GpuPart
from flagplot_wire.node import Gpu

Way = Literal["whole", "MIG", "dmem limit", "MPS", "guard", "none"]
ORDER: tuple[Way, ...] = ("none", "guard", "MPS", "dmem limit", "MIG", "whole")
"""The weakest first: it is what a job with several GPUs is told."""
MIB = 2**20
_PCI_LETTERS = len("0000:03:00.0")
"""The kernel writes a PCI domain with four digits, NVML with eight."""


class Has(Struct, frozen=True):
    """What a node has to hold jobs by: regions of the kernel's dmem controller by name, and CUDA MPS."""

    regions: frozenset[str] = frozenset()
    mps: bool = False


class Hold(Struct, frozen=True):
    """What follows for one attempt. `dmem` are bytes by region, `mps` the index of the GPU whose MPS serves it (None:
    none does), `mps_environment` what its processes get besides the folder of that MPS."""

    way: Way = "whole"
    dmem: dict[str, int] = {}
    mps: int | None = None
    mps_environment: dict[str, str] = {}


def hold(parts: Collection[GpuPart], gpus: Mapping[int, Gpu], has: Has) -> Hold:
    """How an attempt that holds `parts` of this node's `gpus` (by index) is held to its memory.

    A dmem limit is the kernel's: nothing of the job gets round it. MPS serves a job that holds a share of one GPU and no
    other, since a process has one MPS at most; its limit is the CUDA library's, so that the guard watches too.
    """
    ways = {part.index: _way(part, gpus.get(part.index), has, len(parts) == 1) for part in parts}
    weakest: Way = min(ways.values(), key=ORDER.index, default="whole")
    dmem: dict[str, int] = {}
    mps, environment = None, dict[str, str]()
    for part in parts:
        gpu = gpus.get(part.index)
        if gpu is None:
            continue
        if ways[part.index] == "dmem limit":
            dmem |= dict.fromkeys(regions_of(gpu, has.regions), share_mib(part, gpu) * MIB)
        elif ways[part.index] == "MPS":
            mps = part.index
            environment = {
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(100 * part.shards // part.of, 1)),
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={share_mib(part, gpu)}M",
            }
    return Hold(weakest, dmem, mps, environment)


def _way(part: GpuPart, gpu: Gpu | None, has: Has, alone: bool) -> Way:
    if part.whole:
        return "MIG" if gpu is not None and gpu.mig else "whole"
    if gpu is None or gpu.vram_mib is None or gpu.simulated:
        return "none"
    if regions_of(gpu, has.regions) and not gpu.mig:
        return "dmem limit"
    return "MPS" if has.mps and alone else "guard"


def share_mib(part: GpuPart, gpu: Gpu) -> int:
    """The GPU memory that belongs to a share; 0 where the driver does not tell the card's."""
    return (gpu.vram_mib or 0) * part.shards // part.of


def regions_of(gpu: Gpu, regions: Collection[str]) -> list[str]:
    """The dmem regions that are a GPU's own memory, such as `drm/0000:03:00.0/vram0`."""
    address = gpu.pci.lower()[-_PCI_LETTERS:]
    if len(address) < _PCI_LETTERS:
        return []
    return sorted(one for one in regions if address in one.split("/") and "vram" in one.rpartition("/")[2])


def words(way: Way, policy: Policy) -> str:
    """What `show job` says; empty where the job shares no GPU."""
    guard = {
        "warn": "guard, warns",
        "kill-youngest": "guard, kills the youngest",
        "kill-after": f"guard, kills after {policy.after_ms // 1000} s",
    }[policy.act]
    return {
        "whole": "", "MIG": "VRAM: MIG", "dmem limit": "VRAM: dmem limit", "MPS": f"VRAM: MPS and {guard}",
        "guard": f"VRAM: {guard}", "none": "",
    }[way]  # fmt: skip


def regions_in(capacity: str) -> frozenset[str]:
    """The regions that the text of `dmem.capacity` names, one a line: `drm/0000:03:00.0/vram0 8514437120`."""
    return frozenset(line.rpartition(" ")[0] for line in capacity.splitlines() if line.rpartition(" ")[2].isdecimal())


def held_to(parts: Collection[GpuPart], gpus: Collection[Gpu], has: Has, policy: Policy) -> dict[str, Any]:
    """What a recipe carries of it: `vram` (words), `vram_otherwise` (where the kernel or MPS fail), `dmem`, `mps`."""
    by_index = {gpu.index: gpu for gpu in gpus}
    found = hold(parts, by_index, has)
    recipe: dict[str, Any] = {"vram": words(found.way, policy), "vram_otherwise": words("guard", policy)}
    if found.dmem:
        recipe["dmem"] = found.dmem
    if found.mps is not None:
        uuid = by_index[found.mps].uuid
        recipe["mps"] = {"gpu": found.mps, "uuid": uuid, "environment": found.mps_environment}
    return recipe
