"""What is known of each node at one glance: state, what is held, by whom, what is free. Pure.

A number that could not be had is None and shown as `?`; it is never taken for zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from flagplot.client.mirror import Mirror
from flagplot.language import later
from flagplot.view.bookings import by_node, holder, next_change
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import natural_key
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import expand_indices
from flagplot_wire.job import Job, State
from flagplot_wire.node import Gpu, Node, NodeState, node_state
from flagplot_wire.policy import Reservation
from flagplot_wire.telemetry import GpuProcess, GpuSample, NodeSample
from flagplot_wire.text import clean


@dataclass(frozen=True, slots=True)
class NodeLook:
    """How a node's state is shown: glyph, word, the role that colours both, and a short word."""

    glyph: str
    word: str
    role: str
    short: str


LOOKS: dict[str, NodeLook] = {
    "IDLE": NodeLook("○", "idle", "state-idle", "idle"),
    "PLANNED": NodeLook("◇", "planned", "state-planned", "plan"),
    "RESERVED": NodeLook("◈", "reserved", "state-planned", "resv"),
    "MAINT": NodeLook("▣", "maintenance", "state-drained", "maint"),
    "MIXED": NodeLook("◑", "mixed", "state-mixed", "mix"),
    "ALLOCATED": NodeLook("●", "allocated", "state-allocated", "alloc"),
    "COMPLETING": NodeLook("◌", "completing", "state-completing", "comp"),
    "DRAINING": NodeLook("▽", "draining", "state-draining", "drng"),
    "DRAINED": NodeLook("▼", "drained", "state-drained", "drain"),
    "DOWN": NodeLook("✗", "down", "state-down", "down"),
    "UNKNOWN": NodeLook("?", "unknown", "state-unknown", "unk"),
}
"""In the order of the legend. PLANNED is an idle node that a planned start waits for; RESERVED and MAINT are idle nodes
that a reservation holds now."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one job holds of a GPU."""

    job: JobNumber
    display_id: str
    user: str
    shards: int


@dataclass(frozen=True, slots=True)
class GpuFact:
    """One GPU: its shards, who holds them (largest first), the latest sample (None: there is none)."""

    gpu: Gpu
    shares: tuple[Share, ...]
    sample: GpuSample | None

    @property
    def used(self) -> int:
        """Shards held."""
        return sum(share.shards for share in self.shares)

    @property
    def free(self) -> int:
        """Shards that a job could have; 0 where a fault keeps new jobs away."""
        return 0 if self.gpu.fault else max(0, self.gpu.shards - self.used)

    @property
    def idle(self) -> bool:
        """Held, and measured to do nothing."""
        return self.used > 0 and self.sample is not None and self.sample.utilisation == 0

    @property
    def outsiders(self) -> tuple[GpuProcess, ...]:
        """Processes on it that no job owns."""
        return tuple(process for process in self.sample.processes if not process.job) if self.sample else ()

    @property
    def trouble(self) -> str:
        """The fault, as the inventory or the sample tells it (cleaned; empty: none)."""
        return clean(self.gpu.fault or (self.sample.fault if self.sample else ""))


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A node with what is held on it. `cpus` and `memory_mib` are None while its inventory is unknown."""

    node: Node
    look: str
    cpus: int | None
    cpus_used: int
    memory_mib: int | None
    memory_used_mib: int
    gpus: tuple[GpuFact, ...]
    jobs: tuple[Job, ...]
    sample: NodeSample | None
    gpus_held: float
    """GPUs held, shares as fractions."""
    gpus_free: int
    """Whole GPUs that a job could have now; 0 on a node that takes no jobs."""
    reserved: tuple[Reservation, ...] = ()
    """Its reservations, by their start."""
    held_for: Reservation | None = None
    """The one that holds the whole node now."""

    @property
    def name(self) -> str:
        """The node's name, cleaned."""
        return clean(self.node.name)

    @property
    def appearance(self) -> NodeLook:
        """Glyph, word and role of its state."""
        return LOOKS[self.look]

    @property
    def known(self) -> bool:
        """True when its inventory is known."""
        return self.node.inventory is not None

    @property
    def serves(self) -> bool:
        """True when new jobs may start on it."""
        return serving(self.node)

    @property
    def reason(self) -> str:
        """Why it is out of service, in words (cleaned; empty: it is not)."""
        if self.node.drain is not None:
            return clean(self.node.drain.words) or "no reason given"
        if self.node.inventory is None:
            return "never reported"
        return "" if self.node.responding else clean(self.node.down_reason) or "not responding"

    @property
    def gpu_type(self) -> str:
        """The GPU types, joined by `+`; `-` for none, `?` for unknown."""
        if not self.known:
            return "?"
        return "+".join(sorted({clean(fact.gpu.type) for fact in self.gpus})) or "-"


def serving(node: Node) -> bool:
    """True when new jobs may start on a node."""
    return node.inventory is not None and node.responding and node.drain is None


@lru_cache(maxsize=4_096)
def count_cpus(cpu_ids: str) -> int | None:
    """How many CPUs a kernel list names; None when it is no list."""
    try:
        return len(expand_indices(cpu_ids)) if cpu_ids else 0
    except Refused:
        return None


Booking = tuple[tuple[Reservation, ...], Reservation | None]
"""A node's reservations, and the one that holds the whole node now."""


@dataclass(slots=True)
class Fleet:
    """Facts of all nodes, made anew only for nodes whose parts changed."""

    facts: dict[str, NodeFact] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """Node names in natural order."""
    shape: int = 0
    """Grows when nodes come or go or their hardware changes: then a map must be laid out anew."""
    changes: int = 0
    """Grows with every update that found something."""
    _ids: dict[str, int] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _version: tuple[int, int] = (-1, -1)
    _planned: frozenset[str] = frozenset()
    _seen: int = -1
    _plans: int = -1
    _reservations: tuple[Reservation, ...] = ()
    _booked: dict[str, Booking] = field(default_factory=dict)
    _until: int = 0

    def update(self, mirror: Mirror, now: int = 0) -> bool:
        """Take the mirror's state at `now` (epoch seconds); False when nothing moved since the last time."""
        seen = (id(mirror), mirror.version)
        if seen == self._version and now < self._until:
            return False
        touched = mirror.touched_nodes.since(self._seen) if seen[0] == self._version[0] else None
        self._version, self._seen = seen, mirror.touched_nodes.end
        planned = self._planned
        if touched is None or mirror.plans != self._plans:
            self._plans = mirror.plans
            planned = frozenset(name for one in mirror.forecasts.values() if one.start for name in one.nodes)
        before, after = self.facts, dict(self.facts) if touched is None else self.facts
        names = dict.fromkeys([*mirror.nodes, *before] if touched is None else touched | (planned ^ self._planned))
        booked = self._bookings(mirror, now)
        names |= dict.fromkeys(
            name for name in booked.keys() | self._booked.keys() if booked.get(name) != self._booked.get(name)
        )
        joined = reshaped = False
        for name in names:
            old, node = before.get(name), mirror.nodes.get(name)
            if node is None:
                joined |= after.pop(name, None) is not None
                continue
            after[name] = fact = self._fact(mirror, node, old, name in planned, booked.get(name, ((), None)))
            joined |= old is None
            reshaped |= old is None or old.node.inventory is not fact.node.inventory
        self.facts, self._planned, self._booked = after, planned, booked
        self.changes += 1
        if joined:
            self.order = sorted(self.facts, key=natural_key)
        self.shape += joined or reshaped
        return True

    def _bookings(self, mirror: Mirror, now: int) -> dict[str, Booking]:
        """Node → its reservations and the one that holds it now; made anew when one changes, begins or ends."""
        there = tuple(mirror.reservations.values())
        if there == self._reservations and now < self._until:
            return self._booked
        self._reservations, self._until = there, next_change(mirror, now)
        return {name: (some, holder(some, now)) for name, some in by_node(mirror).items()}

    def _fact(self, mirror: Mirror, node: Node, old: NodeFact | None, planned: bool, booking: Booking) -> NodeFact:
        name = node.name
        jobs = tuple(mirror.jobs[number] for number in sorted(mirror.held.get(name, ())) if number in mirror.jobs)
        sample = mirror.samples.get(name)
        same_plan = planned == (name in self._planned)
        if old is not None and old.node is node and old.sample is sample and same_plan:
            same = _same(old.jobs, jobs) and booking == (old.reserved, old.held_for)
            return old if same else fact_of(node, jobs, sample, planned, booking)
        return fact_of(node, jobs, sample, planned, booking)

    def key(self, name: str) -> int:
        """A number that stands for a node's name as long as this object lives."""
        if name not in self._ids:
            self._ids[name] = len(self._names)
            self._names.append(name)
        return self._ids[name]

    def name(self, key: int) -> str:
        """The name behind a number."""
        return self._names[key]

    def counts(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """How many nodes have each look, in the order of the legend."""
        found = dict.fromkeys(LOOKS, 0)
        for name in self.facts if names is None else names:
            found[self.facts[name].look] += 1
        return found


def _same(before: tuple[Job, ...], now: tuple[Job, ...]) -> bool:
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))


def fact_of(
    node: Node,
    jobs: tuple[Job, ...],
    sample: NodeSample | None,
    planned: bool = False,
    booking: Booking = ((), None),
) -> NodeFact:
    """The facts of one node from its parts."""
    shares: dict[int, list[Share]] = {}
    cpus_used = memory_used = completing = 0
    for job in jobs:
        completing += job.status.state == State.COMPLETING
        for part in job.status.allocation.nodes if job.status.allocation else ():
            if part.node != node.name:
                continue
            cpus_used += part.cpus
            memory_used += part.memory_mib
            for held in part.gpus:
                share = Share(job.number, job.display_id, job.user, held.shards)
                shares.setdefault(held.index, []).append(share)
    inventory = node.inventory
    samples = {one.index: one for one in sample.gpus} if sample else {}
    gpus = tuple(
        GpuFact(
            gpu,
            tuple(sorted(shares.get(gpu.index, ()), key=lambda share: (-share.shards, share.job))),
            samples.get(gpu.index),
        )
        for gpu in (inventory.gpus if inventory else ())
    )
    state = node_state(
        node,
        cpus_used=cpus_used,
        gpus_used=sum(bool(fact.used) for fact in gpus),
        jobs=len(jobs),
        completing=completing,
    )
    look = state.value
    if state == NodeState.IDLE and booking[1] is not None:
        look = "MAINT" if booking[1].maintenance else "RESERVED"
    elif state == NodeState.IDLE and planned:
        look = "PLANNED"
    return NodeFact(
        node,
        look,
        count_cpus(inventory.cpu_ids) if inventory else None,
        cpus_used,
        inventory.memory_mib if inventory else None,
        memory_used,
        gpus,
        jobs,
        sample,
        sum(min(1.0, fact.used / fact.gpu.shards) for fact in gpus),
        sum(fact.free == fact.gpu.shards for fact in gpus) if serving(node) else 0,
        *booking,
    )


GROUPINGS = (later("switch"), later("partition"), later("rack"), later("type"), "none")


def group(mirror: Mirror, fleet: Fleet, names: list[str], by: str) -> list[tuple[str, list[str]]]:
    """Nodes in groups with titles; a node of several partitions stands in the first of them."""
    if by == "none":
        return [("", names)] if names else []
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(_group_of(mirror, fleet.facts[name], by), []).append(name)
    return sorted(found.items(), key=lambda item: (item[0].startswith("no "), natural_key(item[0])))


def _group_of(mirror: Mirror, fact: NodeFact, by: str) -> str:
    if by in ("switch", "rack"):
        return clean(place_of(mirror, fact, by)) or f"no {by}"
    if by == "type":
        return {"-": "no GPU", "?": "no inventory"}.get(fact.gpu_type, fact.gpu_type)
    owners = [partition for partition in mirror.partitions.values() if partition.has(fact.node.name)]
    small = sorted(owners, key=lambda partition: (partition.all_nodes, len(partition.nodes)))
    return clean(small[0].name) if small else "no partition"


def place_of(mirror: Mirror, fact: NodeFact, kind: str) -> str:
    """The `switch` or `rack` of a node: as the site configured it, else the switch that its agent told."""
    configured = mirror.places.get(kind, {}).get(fact.node.name, "")
    told = fact.node.inventory.switch if kind == "switch" and fact.node.inventory else ""
    return configured or told


def groupings_of(mirror: Mirror, fleet: Fleet) -> list[str]:
    """The groupings that tell something of this cluster: without switches or racks there is nothing to group by."""
    told = {by: any(place_of(mirror, fact, by) for fact in fleet.facts.values()) for by in ("switch", "rack")}
    return [by for by in GROUPINGS if told.get(by, True)]


def partitions_of(mirror: Mirror, name: str) -> list[str]:
    """The partitions of a node, in the order of the configuration."""
    return [partition.name for partition in mirror.partitions.values() if partition.has(name)]
