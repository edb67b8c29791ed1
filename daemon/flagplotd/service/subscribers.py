"""Who follows the cluster live: events in order, forecasts, samples; a slow reader costs bounded memory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from flagplot_wire.codec import BadFrame, encode
from flagplot_wire.events import Event
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.node import NodeGroup
from flagplot_wire.replies import EventsPushed, ForecastsPushed, SamplesPushed, SnapshotPart
from flagplot_wire.telemetry import NodeSample
from flagplotd.core.state import Settings, State
from flagplotd.service.sizes import pieces

log = logging.getLogger("flagplotd.subscribers")

RING = 20_000
"""Events kept for clients that come back."""
QUEUE_BYTES = 8 * 1024 * 1024
"""Pushes waiting for one subscriber; beyond that it gets a fresh snapshot instead."""
JOBS_PER_PART = 500
EVENTS_PER_PUSH = 500


class Subscription:
    """One follower's waiting frames. `stale` asks for a fresh snapshot in their place."""

    def __init__(self, telemetry: bool) -> None:
        self.telemetry = telemetry
        self.stale = False
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self.ready = asyncio.Event()

    def offer(self, frame: bytes) -> None:
        """Add a frame, or give up on what waits when it is too much."""
        if self.stale:
            return
        self._frames.append(frame)
        self._bytes += len(frame)
        if self._bytes > QUEUE_BYTES:
            self.give_up()
        self.ready.set()

    def give_up(self) -> None:
        """Drop what waits; a fresh snapshot comes in its place."""
        self.clear()
        self.stale = True
        self.ready.set()

    def clear(self) -> None:
        """Forget what waits."""
        self._frames.clear()
        self._bytes = 0

    def take(self) -> bytes | None:
        """The next frame; None when there is none."""
        if not self._frames:
            self.ready.clear()
            return None
        frame = self._frames.popleft()
        self._bytes -= len(frame)
        return frame


class Hub:
    """All subscriptions, the ring of late events and the latest samples."""

    def __init__(self) -> None:
        self.subscriptions: set[Subscription] = set()
        self.ring: deque[Event] = deque(maxlen=RING)
        self.samples: dict[str, NodeSample] = {}
        self.progress: Struct | None = None
        self._fresh: set[str] = set()

    def push(self, body: Struct, telemetry: bool = False) -> None:
        """Send one push to everybody (`telemetry`: to those who want samples)."""
        if not self.subscriptions:
            return
        try:
            frame = encode(body)
        except BadFrame:
            log.exception("a push is too large: subscribers get a fresh snapshot")
            for subscription in self.subscriptions:
                subscription.give_up()
            return
        for subscription in self.subscriptions:
            if subscription.telemetry or not telemetry:
                subscription.offer(frame)

    def publish(self, events: Sequence[Event]) -> None:
        """Durable events go to everybody."""
        self.ring.extend(events)
        if self.subscriptions:
            for part in pieces(events, EVENTS_PER_PUSH):
                self.push(EventsPushed(part))

    def sampled(self, sample: NodeSample) -> None:
        """A node's latest sample; it goes out with the next `push_samples`."""
        self.samples[sample.node] = sample
        self._fresh.add(sample.node)

    def push_samples(self) -> None:
        """Send the samples that are new since the last call."""
        fresh = tuple(self.samples[name] for name in sorted(self._fresh) if name in self.samples)
        self._fresh.clear()
        for some in pieces(fresh, JOBS_PER_PART):
            self.push(SamplesPushed(some), telemetry=True)

    def missed(self, after: int, seq: int) -> list[Event] | None:
        """The events after `after` up to `seq`, or None when some are no longer here."""
        if after == seq:
            return []
        if after > seq or not self.ring or self.ring[0].seq > after + 1:
            return None
        return list(islice(self.ring, after + 1 - self.ring[0].seq, None))


def snapshot(state: State, samples: Iterable[NodeSample]) -> Iterator[SnapshotPart]:
    """The state of this moment in parts: the records are taken at once, the parts are made one by one.
    What runs comes first, for it stands on top of a queue."""
    forecasts = list(state.forecasts.values())
    first = [state.jobs[number] for number in sorted(state.active)]
    others = [job for number, job in state.jobs.items() if number not in state.active]
    nodes, partitions = tuple(state.nodes.values()), tuple(state.partitions.values())
    kept, seq, epoch = tuple(samples), state.seq, state.epoch
    groups, reservations = groups_of(state.settings), tuple(state.reservations.values())

    def parts() -> Iterator[SnapshotPart]:
        yield SnapshotPart(seq, epoch, first=True, partitions=partitions, groups=groups, reservations=reservations)
        for some_jobs in pieces(first, JOBS_PER_PART):
            yield SnapshotPart(seq, epoch, jobs=some_jobs)
        for some_nodes in pieces(nodes, JOBS_PER_PART):
            yield SnapshotPart(seq, epoch, nodes=some_nodes)
        for some_samples in pieces(kept, JOBS_PER_PART):
            yield SnapshotPart(seq, epoch, samples=some_samples)
        for some_jobs in pieces(others, JOBS_PER_PART):
            yield SnapshotPart(seq, epoch, jobs=some_jobs)
        for some in pieces(forecasts, JOBS_PER_PART):
            yield SnapshotPart(seq, epoch, forecasts=some)
        yield SnapshotPart(seq, epoch, last=True)

    return parts()


def catch_up(state: State, events: list[Event], after: int, samples: Iterable[NodeSample]) -> Iterator[Struct]:
    """For a client that comes back: the missed events, then what is not journalled."""
    forecasts, kept, epoch = tuple(state.forecasts.values()), tuple(samples), state.epoch
    groups = groups_of(state.settings)

    def parts() -> Iterator[Struct]:
        yield SnapshotPart(after, epoch, last=True, groups=groups)
        for part in pieces(events, EVENTS_PER_PUSH):
            yield EventsPushed(part)
        for some in pieces(forecasts, JOBS_PER_PART):
            yield ForecastsPushed(some)
        for some_samples in pieces(kept, JOBS_PER_PART):
            yield SamplesPushed(some_samples)

    return parts()


def groups_of(settings: Settings) -> tuple[NodeGroup, ...]:
    """What the configuration puts nodes together by: leaf switches, blocks, racks."""
    leaves = [NodeGroup("block" if one.block else "switch", one.name, compress_hosts(one.nodes))
              for one in settings.switches if one.nodes]  # fmt: skip
    return (*leaves, *(NodeGroup("rack", name, compress_hosts(nodes)) for name, nodes in settings.racks))
