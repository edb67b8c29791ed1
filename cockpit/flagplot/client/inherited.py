"""What a job inherits from the process that submits it, beside the environment."""

from __future__ import annotations

import resource
from pathlib import Path

import msgspec

from flagplot_wire.job import Payload

LIMITS = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "AS")
"""Limits that go along, as with Slurm; not MEMLOCK, whose small value on login hosts breaks RDMA on the nodes."""


def with_inherited(payload: Payload) -> Payload:
    """The payload with this process's umask and soft resource limits."""
    soft = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in LIMITS}
    return msgspec.structs.replace(payload, umask=own_umask(), limits=soft)


def own_umask() -> int:
    """Read without changing it, which would race with other threads' files; 0o022 where the kernel does not tell."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
