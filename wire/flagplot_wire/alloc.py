"""What a job holds while it runs: node by node, cores, memory and GPUs."""

from __future__ import annotations

from msgspec import Struct


class GpuPart(Struct, frozen=True, gc=False):
    """A GPU, or a share of one, on a node: `shards` of its `of` equal shards; whole when they are equal."""

    index: int
    shards: int
    of: int
    type: str = ""
    uuid: str = ""

    @property
    def whole(self) -> bool:
        """True when the job holds the GPU alone."""
        return self.shards == self.of


class NodeAlloc(Struct, frozen=True, gc=False):
    """One node's part of an allocation.

    `cpu_ids` is a CPU list as the kernel writes it (`0-3,8`); `cpus` counts its members; `tasks` is how many
    of the job's tasks run here, the first of them with rank `first_rank`.
    """

    node: str
    cpus: int
    cpu_ids: str
    memory_mib: int
    gpus: tuple[GpuPart, ...] = ()
    tasks: int = 1
    first_rank: int = 0


class Allocation(Struct, frozen=True, gc=False):
    """What one attempt of a job holds; the batch script runs on the first node."""

    nodes: tuple[NodeAlloc, ...]

    @property
    def names(self) -> list[str]:
        """The node names, in rank order."""
        return [part.node for part in self.nodes]

    @property
    def cpus(self) -> int:
        """All CPUs held."""
        return sum(part.cpus for part in self.nodes)

    @property
    def gpu_millis(self) -> int:
        """All GPUs held, in thousandths of one."""
        return sum(1_000 * gpu.shards // gpu.of for part in self.nodes for gpu in part.gpus)

    @property
    def memory_mib(self) -> int:
        """All memory held, in MiB."""
        return sum(part.memory_mib for part in self.nodes)
