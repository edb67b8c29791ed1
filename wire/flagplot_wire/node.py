"""Nodes, GPUs and partitions, and the state words that `sinfo` uses for them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from flagplot_wire.policy import PreemptMode


class NodeState(StrEnum):
    """A node's state in one word; how it follows from the record is `node_state`."""

    IDLE = "IDLE"
    MIXED = "MIXED"
    ALLOCATED = "ALLOCATED"
    COMPLETING = "COMPLETING"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    DOWN = "DOWN"
    UNKNOWN = "UNKNOWN"


class NumaNode(Struct, frozen=True, gc=False):
    """A NUMA node: its CPUs as a kernel list (`0-15,32-47`) and its memory in MiB."""

    index: int
    cpu_ids: str
    memory_mib: int


class Gpu(Struct, frozen=True, omit_defaults=True, gc=False):
    """One GPU (or MIG device) of a node.

    `index` counts from 0 within the node; `minor` is N of /dev/nvidiaN where known. `vram_mib` is None where
    the driver does not tell. `fault` says why no new job may have it (empty: healthy). `capabilities` are the device
    numbers (`c 236:21`) that open a MIG device, beside its card's own. `links` are the GPUs that fast links (NVLink) join
    it with.
    """

    index: int
    uuid: str
    type: str
    name: str = ""
    vram_mib: int | None = None
    numa: int | None = None
    pci: str = ""
    minor: int | None = None
    shards: int = 8
    mig: bool = False
    simulated: bool = False
    fault: str = ""
    capabilities: tuple[str, ...] = ()
    links: tuple[int, ...] = ()


class Inventory(Struct, frozen=True, omit_defaults=True, gc=False):
    """What an agent found on its machine. `cpu_ids` are the CPUs jobs may use; counts are of the whole node.

    `libraries` are (name, version) of what programs depend on, sorted by name.
    """

    boot_id: str
    sockets: int
    cores: int
    threads_per_core: int
    cpu_ids: str
    memory_mib: int
    numa: tuple[NumaNode, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    features: tuple[str, ...] = ()
    switch: str = ""
    address: str = ""
    kernel: str = ""
    os: str = ""
    driver: str = ""
    cpu_model: str = ""
    simulated: bool = False
    notes: tuple[str, ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()


class Drain(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why, by whom and since when (epoch seconds) a node takes no new jobs.

    `health`: the node's own checks made it, and they alone may take it back. `reboot`: the node reboots when it holds no
    jobs (`asked`), or was told to at `ordered` (epoch seconds); with a new boot the drain ends, unless it `stays`.
    """

    reason: str
    who: str
    since: int
    health: bool = False
    reboot: Literal["", "asked", "ordered"] = ""
    ordered: int = 0
    stays: bool = False

    @property
    def words(self) -> str:
        """The reason, with what becomes of the node."""
        return {"": "", "asked": "to reboot: ", "ordered": "rebooting: "}[self.reboot] + self.reason


class Node(Struct, frozen=True, omit_defaults=True, gc=False):
    """A node as the controller knows it.

    `responding` is False while its agent is not connected (`since` tells from when); `ever_seen` is False for
    a node that is configured but never reported, whose `inventory` is None. `last_boot` is the boot id that
    the controller last accepted. Of the nodes that suffice jobs get those of the lowest `weight`.
    """

    name: str
    inventory: Inventory | None = None
    responding: bool = False
    since: int = 0
    drain: Drain | None = None
    down_reason: str = ""
    agent_version: str = ""
    weight: int = 1

    @property
    def cpus(self) -> int:
        """CPUs that jobs may use; 0 while unknown."""
        from flagplot_wire.indices import expand_indices

        return len(expand_indices(self.inventory.cpu_ids)) if self.inventory else 0


class NodeGroup(Struct, frozen=True, gc=False):
    """Nodes (a host list) that the site's configuration puts together: on a leaf switch, in a block or in a rack."""

    kind: Literal["switch", "block", "rack"]
    name: str
    nodes: str


class Partition(Struct, frozen=True, omit_defaults=True, gc=False):
    """A partition: which nodes, whose limits. Times are seconds; 0 is "no limit". `qos` adds that QoS's limits.
    `added_by` is who made it while the controller ran (empty: it comes from the configuration)."""

    name: str
    nodes: tuple[str, ...] = ()
    all_nodes: bool = False
    default: bool = False
    up: bool = True
    max_time_s: int = 0
    default_time_s: int = 0
    max_nodes: int = 0
    priority_tier: int = 1
    allow_users: tuple[str, ...] = ()
    comment: str = ""
    allow_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    qos: str = ""
    preempt_mode: PreemptMode = ""
    grace_s: int = 0
    added_by: str = ""

    def has(self, node: str) -> bool:
        """True when the node belongs to this partition."""
        return self.all_nodes or node in self.nodes


def node_state(node: Node, *, cpus_used: int, gpus_used: int, jobs: int, completing: int = 0) -> NodeState:
    """The node's state word. `cpus_used` and `gpus_used` (whole or shared) are held by its `jobs`.

    Unreachable wins over drained, drained over busy (as `sinfo`, which shows DOWN* and DRAIN first).
    """
    if node.inventory is None:
        return NodeState.UNKNOWN
    if not node.responding:
        return NodeState.DOWN
    if node.drain is not None:
        return NodeState.DRAINING if jobs else NodeState.DRAINED
    if not jobs:
        return NodeState.IDLE
    if completing == jobs:
        return NodeState.COMPLETING
    gpus = len(node.inventory.gpus)
    if cpus_used >= node.cpus or (gpus and gpus_used >= gpus):
        return NodeState.ALLOCATED
    return NodeState.MIXED
