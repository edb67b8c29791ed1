"""Which GPU device files a job may not open. Pure: what the kernel and the driver list is handed in."""

from __future__ import annotations

import re
from collections.abc import Collection

from flagplot_wire.node import Gpu

NVIDIA_MAJOR = 195
"""The device number of /dev/nvidiaN is this, N."""


def denied_devices(gpus: Collection[Gpu], held: Collection[int]) -> list[str]:
    """The devices (`c 195:3`) of GPUs that are not in `held`, without those that a held one needs too.

    MIG devices of one card share its file and are kept apart by their capability files.
    """
    own = {device for gpu in gpus if gpu.index in held for device in devices_of(gpu)}
    others = dict.fromkeys(device for gpu in gpus if gpu.index not in held for device in devices_of(gpu))
    return [device for device in others if device not in own]


def devices_of(gpu: Gpu) -> list[str]:
    """The device files that a job needs to use a GPU; none where it is simulated or its number is not known."""
    if gpu.simulated or gpu.minor is None:
        return []
    return [f"c {NVIDIA_MAJOR}:{gpu.minor}", *gpu.capabilities]


def mig_capabilities(majors: str, minors: str, minor: int, instance: int, compute: int) -> tuple[str, ...]:
    """The capability files of a MIG device, as `c 236:21`; none where the driver does not list them.

    `majors` is the text of /proc/devices, `minors` of /proc/driver/nvidia-caps/mig-minors, whose lines are
    `gpu0/gi1/access 12` and `gpu0/gi1/ci0/access 13`, gpuN being /dev/nvidiaN (NVIDIA's MIG User Guide,
    "Device Nodes and Capabilities").
    """
    major = re.search(r"^\s*(\d+) nvidia-caps$", majors, re.MULTILINE)
    if major is None:
        return ()
    known = dict(line.split() for line in minors.splitlines() if len(line.split()) == 2)
    names = (f"gpu{minor}/gi{instance}/access", f"gpu{minor}/gi{instance}/ci{compute}/access")
    return tuple(f"c {major[1]}:{known[name]}" for name in names if known.get(name, "").isdecimal())
