"""Who used what, how well jobs used what they held, and what limits leave (`sreport(1)`, `seff(1)`)."""

from __future__ import annotations

from msgspec import Struct

from flagplot_wire.ids import JobNumber


class UsedBy(Struct, frozen=True, omit_defaults=True):
    """What the jobs of a user in an account (empty: none) held within a time: `jobs` of them, CPU-seconds, GPU-seconds.

    A share of a GPU counts as the part that it is.
    """

    user: str
    account: str
    jobs: int = 0
    cpu_s: int = 0
    gpu_s: int = 0


class Efficiency(Struct, frozen=True, omit_defaults=True):
    """What an ended job held for `held_s` seconds, and what its last attempt used of it (None: not measured).

    `gpu_millis` is in thousandths of a GPU; `cpu_ms` is the CPU time of its tasks and steps, `memory_peak_mib` the
    most at one moment, summed over its nodes; `gpu_percent` is the mean utilisation of its GPUs.
    """

    number: JobNumber
    display_id: str
    name: str
    state: str
    end_time: int
    held_s: int
    cpus: int
    memory_mib: int
    gpu_millis: int = 0
    cpu_ms: int | None = None
    memory_peak_mib: int | None = None
    gpu_percent: int | None = None


class Quota(Struct, frozen=True, omit_defaults=True):
    """One limit that holds for a user: whose it is in words, its name in `Limits`, what is in use, and the most.

    `scope` is whose jobs count: `user:ada@lab`, `account:lab`, `qos:high`, `qos:high:user:ada`, `qos:high:account:lab`.
    """

    whose: str
    limit: str
    used: int
    most: int
    scope: str = ""
