"""A slow, plain planner: everything a cluster holds as intervals, tried out moment by moment and node by node.

It follows a plan job by job: where the plan starts a job, or promises it a start, the place is checked and taken over; where it
does not, no place may exist; a promised start must be the earliest there is. So choices between equal places are the
plan's, and everything else is the oracle's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from msgspec import structs

from flagplot_wire import constraint
from flagplot_wire.hostlist import natural_key
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Job, Request
from flagplot_wire.node import Gpu, Inventory, Node
from flagplot_wire.policy import Reservation
from flagplotd.core.limits import limit_chain, scopes
from flagplotd.core.reservations import covered, whole
from flagplotd.core.state import State

REPEATS, FAR = 32, 1 << 60
"""Times that a reservation repeats, the last of them without an end."""
ENDLESS = 315_360_000
"""Seconds of a job without a limit."""


@dataclass(frozen=True)
class Use:
    """From `start` to `end` so much of a node (or seats of a license) is taken; all of it where `shut`. `whose` is the
    reservation whose own jobs do not mind."""

    place: str
    start: int
    end: int
    cpus: int = 0
    memory_mib: int = 0
    gpus: tuple[tuple[int, int], ...] = ()
    shut: bool = False
    whose: str = ""


@dataclass
class Room:
    """The least that is free over a stretch of time."""

    cpus: int
    memory_mib: int
    shards: list[int]


@dataclass
class Oracle:
    """The state at `now`, before a plan is followed. `reservations` are K; `default_time_s` is for jobs without a limit."""

    state: State
    now: int
    default_time_s: int = 3_600
    uses: list[Use] = field(default_factory=list)
    counted: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = [node for node in self.state.nodes.values() if node.inventory is not None]
        self.nodes = {node.name: node for node in sorted(found, key=lambda node: natural_key(node.name))}
        self.free_cpus = {name: mask_of(self.hardware(name).cpu_ids) for name in self.nodes}
        for number in sorted(self.state.active):
            self._running(self.state.jobs[number])
        for key, usage in self.state.usage.items():
            self._used(key, usage.gpu_seconds // 60)
        for reservation in self.state.reservations.values():
            for time in range(REPEATS if reservation.repeat_s else 1):
                start = reservation.start + time * reservation.repeat_s
                end = start + reservation.end - reservation.start
                self.uses += self._reserved(reservation, start, FAR if time == REPEATS - 1 else end)

    def hardware(self, name: str) -> Inventory:
        inventory = self.nodes[name].inventory
        assert inventory is not None
        return inventory

    def _running(self, job: Job) -> None:
        end = max(job.limit_ends or job.status.start_time + self.default_time_s, self.now + 1)
        allocation = job.status.allocation
        assert allocation is not None
        for part in allocation.nodes:
            gpus = tuple((gpu.index, gpu.shards) for gpu in part.gpus)
            self.uses.append(Use(part.node, 0, end, part.cpus, part.memory_mib, gpus))
            self.free_cpus[part.node] &= ~mask_of(part.cpu_ids)
        for wanted in job.spec.request.licenses:
            self.uses.append(Use(f"license {wanted.name}", 0, end, wanted.count))
        left = max(job.limit_ends - self.now, 0) if job.time_limit_s else 0
        self._count(job, totals(job.spec.request, left))

    def _reserved(self, reservation: Reservation, start: int, end: int) -> Iterator[Use]:
        for name, count in reservation.licenses:
            yield Use(f"license {name}", start, end, count, whose=reservation.name)
        for name in sorted(covered(self.state, reservation) & self.nodes.keys()):
            if whole(reservation):
                yield Use(name, start, end, shut=True, whose=reservation.name)
            else:
                yield from self._reserved_part(reservation, name, start, end)

    def _reserved_part(self, reservation: Reservation, name: str, start: int, end: int) -> Iterator[Use]:
        """Cores and the GPUs that its own jobs hold, else those that nobody else holds then, the last first. What its
        own jobs hold is theirs."""
        mine, others = list[tuple[int, Use]](), set[int]()
        for number in sorted(self.state.use[name].jobs if name in self.state.use else ()):
            job = self.state.jobs[number]
            for use in (use for use in self._parts_of(job) if use.place == name):
                if job.spec.reservation == reservation.name:
                    mine.append((use.end, use))
                elif use.end > start:
                    others.update(gpu for gpu, _ in use.gpus)
        until = {gpu: when for when, use in sorted(mine, key=lambda one: one[0]) for gpu, _ in use.gpus}
        left = (reservation.cores or 0) * max(self.hardware(name).threads_per_core, 1)
        for when, use in sorted(mine, key=lambda one: one[0]):
            yield Use(name, max(when, start), max(when, end), min(left, use.cpus), whose=reservation.name)
            left -= min(left, use.cpus)
        yield Use(name, start, end, left, whose=reservation.name)
        cards = [gpu for gpu in self.hardware(name).gpus if not gpu.fault]
        cards.sort(key=lambda gpu: (gpu.index not in until, gpu.index in others, -gpu.index))
        for gpu in cards[: reservation.gpus or 0]:
            since = max(until.get(gpu.index, start), start)
            yield Use(name, since, max(since, end), gpus=((gpu.index, gpu.shards),), whose=reservation.name)

    def _parts_of(self, job: Job) -> Iterator[Use]:
        end = max(job.limit_ends or job.status.start_time + self.default_time_s, self.now + 1)
        for part in job.status.allocation.nodes if job.status.allocation is not None else ():
            gpus = tuple((gpu.index, gpu.shards) for gpu in part.gpus)
            yield Use(part.node, 0, end, part.cpus, part.memory_mib, gpus)

    def _count(self, job: Job, counted: Counter[str]) -> None:
        for key in scopes(self.state, job.user, job.spec):
            self.counted.setdefault(key, Counter()).update(counted)

    def _used(self, key: str, minutes: int) -> None:
        """GPU minutes of somebody's jobs up to now count for the person in the account and for all accounts above."""
        name, scopes_of = key.partition("@")[2], [f"user:{key}"]
        while name in self.state.accounts:
            scopes_of.append(f"account:{name}")
            name = self.state.accounts[name].parent
        for scope in scopes_of:
            self.counted.setdefault(scope, Counter()).update(gpu_minutes=minutes)

    def over_limit(self, job: Job) -> bool:
        """Whether one more start exceeds a limit."""
        wanted = totals(job.spec.request)
        for _, key, limits in limit_chain(self.state, job.user, job.spec):
            used = self.counted.get(key, Counter())
            for name, count in wanted.items():
                most = getattr(limits, name)
                if most is not None and count and used[name] + count > most:
                    return True
        return False

    def room(self, job: Job, place: str, start: int, end: int, total: Room) -> Room | None:
        """The least that is free of `total` from `start` to `end`; None where the place is closed to the job."""
        mine = [use for use in self.uses if use.place == place and (not use.whose or use.whose != job.spec.reservation)]
        least = Room(total.cpus, total.memory_mib, list(total.shards))
        for moment in {start, *(use.start for use in mine if start < use.start < end)}:
            there = [use for use in mine if use.start <= moment < use.end]
            if any(use.shut for use in there):
                return None
            taken = Counter(dict.fromkeys(range(len(total.shards)), 0))
            for use in there:
                taken.update(dict(use.gpus))
            least.cpus = min(least.cpus, total.cpus - sum(use.cpus for use in there))
            least.memory_mib = min(least.memory_mib, total.memory_mib - sum(use.memory_mib for use in there))
            least.shards = [min(least.shards[gpu], total.shards[gpu] - taken[gpu]) for gpu in range(len(total.shards))]
        return least

    def empty(self, name: str, sound: bool = True) -> Room:
        """All that a node has; of GPUs with a fault nothing where `sound`."""
        shards = [0 if gpu.fault and sound else gpu.shards for gpu in self.hardware(name).gpus]
        return Room(self.nodes[name].cpus, self.hardware(name).memory_mib, shards)

    def may_use(self, job: Job, name: str) -> bool:
        """Whether the request names, or leaves, a node."""
        request, partition = job.spec.request, self.state.partitions[job.spec.partition]
        own = self.state.reservations.get(job.spec.reservation)
        inside = own is None or own.flex or name in covered(self.state, own)
        named = not request.nodelist or name in request.nodelist
        features = constraint.matches(constraint.parse(request.constraint), self.hardware(name).features)
        return partition.has(name) and inside and named and name not in request.exclude and features

    def fits(self, job: Job, name: str, start: int) -> bool:
        """Whether a part fits on a node that is up from `start` for the whole time limit."""
        node = self.nodes[name]
        if not node.responding or node.drain is not None or not self.may_use(job, name):
            return False
        room = self.room(job, name, start, start + limit_of(job.spec.request), self.empty(name))
        if room is None or not suffices(job.spec.request, node, room):
            return False
        return start > self.now or self._near(job.spec.request, name, room)

    def _near(self, request: Request, name: str, room: Room) -> bool:
        """Whether some choice of GPUs has the CPUs beside it that are asked for (`near_gpus` alone)."""
        cards = self.hardware(name).gpus
        if not request.near_gpus or not (request.gpus_per_node or request.shards or request.vram_mib):
            return True
        count = sum(gpu.count for gpu in request.gpus_per_node) or 1
        for chosen in combinations(range(len(cards)), count):
            only = Room(
                room.cpus, room.memory_mib, [free if gpu in chosen else 0 for gpu, free in enumerate(room.shards)]
            )
            near = (self.free_cpus[name] & beside(self.hardware(name), chosen)).bit_count()
            if near >= request.cpus_per_task and suffices(request, self.nodes[name], only):
                return True
        return False

    def seats_free(self, job: Job, start: int) -> bool:
        """Whether all licenses are free from `start` for the whole time limit."""
        for name, count in seats_of(job.spec.request).items():
            total = Room(dict(self.state.settings.licenses).get(name, 0), 0, [])
            room = self.room(job, f"license {name}", start, start + limit_of(job.spec.request), total)
            if room is None or room.cpus < count:
                return False
        return True

    def times_allow(self, job: Job, start: int) -> bool:
        """Whether a job's own reservation is open for it from `start` on."""
        own = self.state.reservations.get(job.spec.reservation)
        if own is None or own.flex:
            return own is None or own.repeat_s > 0 or start < own.end
        return own.start <= start <= own.end - limit_of(job.spec.request)

    def can_start(self, job: Job, start: int, switches: bool) -> bool:
        """Whether any place exists; `switches`: the most of switches still counts."""
        if not self.times_allow(job, start) or not self.seats_free(job, start):
            return False
        fitting = [name for name in self.nodes if self.fits(job, name, start)]
        return self.hangs_together(job.spec.request, fitting, switches)

    def hangs_together(self, request: Request, fitting: list[str], switches: bool) -> bool:
        """Whether as many as are asked for can be chosen of these nodes."""
        least = request.nodes_min
        if len(fitting) < least or least == 1:
            return len(fitting) >= least
        if request.contiguous:
            names = list(self.nodes)
            runs = (names[at : at + least] for at in range(len(names) - least + 1))
            return any(set(run) <= set(fitting) for run in runs)
        leaves = Counter(leaf for leaf in map(self.leaf, fitting) if leaf)
        if not request.switches or not switches or not any(map(self.leaf, self.nodes)):
            return True
        return sum(count for _, count in leaves.most_common(request.switches)) >= least

    def leaf(self, name: str) -> str:
        """The leaf switch of a node."""
        tree = self.state.settings.switches
        if any(not one.block for one in tree):
            return next((one.name for one in tree if name in one.nodes and not one.block), "")
        return self.hardware(name).switch

    def able(self, job: Job, up: bool) -> bool:
        """Whether enough nodes could hold a part if they were empty; with `up` those alone that are in order."""
        count = 0
        for name, node in self.nodes.items():
            there = not up or (node.responding and node.drain is None)
            count += there and self.may_use(job, name) and suffices(job.spec.request, node, self.empty(name, sound=up))
        return count >= job.spec.request.nodes_min

    def moments(self, since: int) -> list[int]:
        """Moments from `since` on at which something changes for the better."""
        return sorted({since, *(use.end for use in self.uses if since < use.end < FAR)})

    def earliest(self, job: Job, switches: bool) -> int | None:
        """The first moment after now at which the job could start (None: there is none)."""
        own = self.state.reservations.get(job.spec.reservation)
        since = max(self.now + 1, 0 if own is None or own.flex else own.start)
        return next((moment for moment in self.moments(since) if self.can_start(job, moment, switches)), None)

    def take(self, job: Job, start: int, parts: Iterable[tuple[str, dict[int, int]]], switches: bool) -> None:
        """Check a place from `start` on and take it."""
        request, parts = job.spec.request, list(parts)
        names = [name for name, _ in parts]
        assert len(set(names)) == len(names), (job.number, names)
        assert request.nodes_min <= len(names) <= max(request.nodes_max, request.nodes_min), (job.number, names)
        assert self.times_allow(job, start) and self.seats_free(job, start), (job.number, start)
        assert self.hangs_together(structs.replace(request, nodes_min=len(names)), names, switches), (job.number, names)
        for name, gpus in parts:
            assert self.fits(job, name, start), (job.number, name, start)
            room = self.room(job, name, start, start + limit_of(request), self.empty(name))
            assert room is not None
            chosen = Room(room.cpus, room.memory_mib, [0] * len(room.shards))
            for gpu, shards in gpus.items():
                assert 0 < shards <= room.shards[gpu], (job.number, name, gpus, room)
                chosen.shards[gpu] = shards
            check_gpus(request, self.hardware(name).gpus, gpus)
        for name, gpus in parts:
            cpus, memory_mib = cpus_of(request, self.nodes[name]), memory_of(request, self.nodes[name])
            self.uses.append(Use(name, start, start + limit_of(request), cpus, memory_mib, tuple(gpus.items())))
        for license_, count in seats_of(request).items():
            self.uses.append(Use(f"license {license_}", start, start + limit_of(request), count))

    def start(self, job: Job, parts: list[tuple[str, dict[int, int], int]], switches: bool) -> None:
        """Check and take a start at `now`, of parts with their GPUs and a mask of CPUs."""
        for name, gpus, cpus in parts:
            assert not cpus & ~self.free_cpus[name], (job.number, name, "CPUs are taken")
            assert cpus.bit_count() == cpus_of(job.spec.request, self.nodes[name]), (job.number, name)
            if job.spec.request.near_gpus and gpus:
                assert not cpus & ~beside(self.hardware(name), gpus), (job.number, name, "CPUs are far")
        self.take(job, self.now, [(name, gpus) for name, gpus, _ in parts], switches)
        for name, _, cpus in parts:
            self.free_cpus[name] &= ~cpus
        self._count(job, totals(job.spec.request))


def limit_of(request: Request) -> int:
    """Seconds that a job may run."""
    return request.time_limit_s or ENDLESS


def seats_of(request: Request) -> Counter[str]:
    """How many of each license a job takes."""
    found = Counter[str]()
    for wanted in request.licenses:
        found[wanted.name] += wanted.count
    return found


def cpus_of(request: Request, node: Node) -> int:
    """CPUs of a part, of one task."""
    return node.cpus if request.exclusive else request.cpus_per_task


def memory_of(request: Request, node: Node) -> int:
    """MiB of a part: none given is in proportion to the CPUs that are asked for."""
    assert node.inventory is not None
    if request.mem_per_node_mib is None:
        return request.cpus_per_task * node.inventory.memory_mib // node.cpus
    return request.mem_per_node_mib or node.inventory.memory_mib


def totals(request: Request, left_s: int | None = None) -> Counter[str]:
    """What a job counts for in limits; `left_s` is what is left of a running one's time."""
    nodes, shared = request.nodes_min, bool(request.shards or request.vram_mib)
    gpus = nodes * sum(gpu.count for gpu in request.gpus_per_node) or int(shared)
    seconds = (request.time_limit_s or 1 << 40) if left_s is None else left_s
    return Counter(
        jobs=1, nodes=nodes, cpus=nodes * request.cpus_per_task, gpus=gpus, memory_mib=nodes * (request.mem_per_node_mib or 0),
        gpu_minutes=-(-gpus * seconds // 60),
    )  # fmt: skip


def share(request: Request, gpu: Gpu) -> int | None:
    """Shards of a GPU that a share of it takes; None where it cannot have it."""
    if request.share_type and gpu.type != request.share_type:
        return None
    if not request.vram_mib:
        return request.shards
    return -(-request.vram_mib * gpu.shards // gpu.vram_mib) if gpu.vram_mib else None


def suffices(request: Request, node: Node, room: Room) -> bool:
    """Whether a part fits into what is free of a node."""
    assert node.inventory is not None
    cards = list(zip(node.inventory.gpus, room.shards, strict=True))
    if (
        cpus_of(request, node) > room.cpus
        or request.cpus_per_task > room.cpus
        or memory_of(request, node) > room.memory_mib
    ):
        return False
    if request.shards or request.vram_mib:
        asked = [(share(request, gpu), free) for gpu, free in cards]
        return any(shards is not None and shards <= free for shards, free in asked)
    idle = Counter(gpu.type for gpu, free in cards if free == gpu.shards)
    typed = Counter[str]()
    for wanted in request.gpus_per_node:
        typed[wanted.type] += wanted.count
    return idle.total() >= typed.total() and all(idle[kind] >= count for kind, count in typed.items() if kind)


def check_gpus(request: Request, cards: tuple[Gpu, ...], gpus: dict[int, int]) -> None:
    """The GPUs are as many, whole or shared, and of the types, as the request says."""
    if request.shards or request.vram_mib:
        ((gpu, shards),) = gpus.items()
        assert shards == share(request, cards[gpu]), (request, gpus)
        return
    assert all(shards == cards[gpu].shards for gpu, shards in gpus.items()), (request, gpus)
    kinds = Counter(cards[gpu].type for gpu in gpus)
    assert kinds.total() == sum(wanted.count for wanted in request.gpus_per_node), (request, gpus)
    for kind in {wanted.type for wanted in request.gpus_per_node if wanted.type}:
        assert kinds[kind] >= sum(wanted.count for wanted in request.gpus_per_node if wanted.type == kind), (
            request,
            gpus,
        )


def beside(inventory: Inventory, gpus: Iterable[int]) -> int:
    """The CPUs of the NUMA domains that GPUs hang on, as a mask; all where a node does not tell its domains."""
    domains = {inventory.gpus[gpu].numa or 0 for gpu in gpus}
    if not inventory.numa:
        return mask_of(inventory.cpu_ids)
    found = 0
    for numa in inventory.numa:
        found |= mask_of(numa.cpu_ids) if numa.index in domains else 0
    return found
