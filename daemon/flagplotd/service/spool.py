"""Files on their way into jobs and out of them, kept in the controller's folder until the job is forgotten.

One tar archive for each transfer: `stage/NUMBER/in-0.tar`. It is written beside its place, made durable and moved there,
so that what is there is whole, whenever the controller was killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal

from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.streams import End, StageFile, StreamEnd, StreamFrame
from flagplotd.core.apply import holds
from flagplotd.core.state import State
from flagplotd.service.relay import ClientStreams, NodeStreams

log = logging.getLogger("flagplotd.spool")
PIECE = 256 * 1024
FREE = 1 << 30
"""Bytes that stay free on the disk, for the store."""
SWEEP_S = 60
Direction = Literal["in", "out"]


class LocalEnd:
    """The controller's own end of a client's stream, in the place of a relay to a node."""

    def __init__(self, client: ClientStreams, number: int) -> None:
        self._client, self._number = client, number
        self.end_of = End(number, client.send, asyncio.Event())
        client.take_over(number, self)

    def from_client(self, frame: StreamFrame) -> None:
        """A frame of the client."""
        self.end_of.arrived(frame)

    def left(self) -> None:
        """The client is gone."""
        self.end_of.lost(Refused("gone", "the client left"))

    def end(self, why: Refused) -> None:
        """End it towards the client."""
        self.end_of.close(why)

    def forget(self) -> None:
        """It is done with."""
        self._client.relays.pop(self._number, None)


class Spool:
    """All of them. `state` is asked for what runs where; `most` are the bytes of all of a job's transfers one way."""

    def __init__(self, folder: Path, state: Callable[[], State], most: int) -> None:
        self._folder = folder / "stage"
        self._state = state
        self._most = most
        self._work: set[asyncio.Task[None]] = set()

    def path(self, number: JobNumber, direction: Direction, index: int) -> Path:
        """Where a transfer is."""
        return self._folder / str(number) / f"{direction}-{index}.tar"

    def have(self, number: JobNumber, direction: Direction, count: int) -> tuple[int, ...]:
        """Which of `count` transfers are here."""
        return tuple(index for index in range(count) if self.path(number, direction, index).exists())

    def start(
        self, end: End, number: JobNumber, direction: Direction, index: int, sending: bool, done: Callable[[], None]
    ) -> None:
        """Send a transfer, or take one, over a stream; its refusal ends the stream."""
        work = (
            self._send(end, self.path(number, direction, index))
            if sending
            else self._take(end, number, direction, index)
        )

        async def carried() -> None:
            try:
                await work
            except Refused as refused:
                end.close(refused)
            except OSError as wrong:
                log.warning("a transfer of job %s failed: %s", number, wrong)
                end.close(Refused("disk_full", f"the controller's disk: {wrong.strerror}", "try again later"))
            finally:
                done()

        task = asyncio.create_task(carried())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _take(self, end: End, number: JobNumber, direction: Direction, index: int) -> None:
        place = self.path(number, direction, index)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = place.with_suffix(f".{id(end)}")
        try:
            with fresh.open("wb") as file:
                size = sum(one.stat().st_size for one in place.parent.glob(f"{direction}-*.tar") if one != place)
                while data := await end.read():
                    size += len(data)
                    self._room(size)
                    await asyncio.to_thread(file.write, data)
                await asyncio.to_thread(_made_durable, file.fileno())
            fresh.rename(place)
            await asyncio.to_thread(_folder_durable, place.parent)
        finally:
            fresh.unlink(missing_ok=True)
        end.finish()

    def _room(self, size: int) -> None:
        if size > self._most:
            raise Refused("too_large", f"a job's transfers one way are {self._most >> 20} MiB at most",
                          "stage_max_gib in flagplotd.toml says so; flagplot cp takes any size while the job runs")  # fmt: skip
        if shutil.disk_usage(self._folder).free < FREE:
            raise Refused("disk_full", "the controller's disk is almost full", "tell it to the cluster's operators")

    async def _send(self, end: End, place: Path) -> None:
        if not place.exists():
            raise Refused("not_found", f"the controller does not have {place.name.removesuffix('.tar')} of this job")
        with place.open("rb") as file:
            while data := await asyncio.to_thread(file.read, PIECE):
                await end.write(data)
        end.finish()
        while await end.read():
            continue

    def serve_node(self, node: NodeStreams, wish: StageFile) -> None:
        """A node wants a transfer of an attempt that runs there, or brings one."""
        job = self._state().jobs.get(wish.number)
        there = job is not None and holds(job) and job.status.attempt == wish.attempt
        allocation = job.status.allocation if job is not None else None
        if not there or job is None or allocation is None or node.node not in allocation.names:
            node.send(StreamEnd(wish.stream, "not_permitted", f"job {wish.number} does not run on {node.node}"))
            return
        known = job.spec.stage_in if wish.direction == "in" else job.spec.stage_out
        if wish.stream % 2 == 0 or wish.stream in node.takers or not 0 <= wish.index < len(known):
            node.send(StreamEnd(wish.stream, "bad_request", "there is no such transfer"))
            return
        end = End(wish.stream, node.send, asyncio.Event())
        node.takers[wish.stream] = end.arrived
        number = (job.array_number or job.number) if wish.direction == "in" else job.number
        self.start(end, number, wish.direction, wish.index, wish.direction == "in",
                   lambda: _forget(node, wish.stream))  # fmt: skip

    async def run(self) -> None:
        """Remove what belongs to jobs that are forgotten, and what a killed controller left half-way."""
        await asyncio.to_thread(self._begin)
        while True:
            await asyncio.to_thread(self._sweep, {str(number) for number in self._state().jobs})
            await asyncio.sleep(SWEEP_S)

    def _begin(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for left in self._folder.glob("*/*"):
            if left.suffix != ".tar":
                left.unlink(missing_ok=True)

    def _sweep(self, known: Collection[str]) -> None:
        for one in self._folder.iterdir():
            if one.name not in known:
                shutil.rmtree(one, ignore_errors=True)


def _forget(node: NodeStreams, number: int) -> None:
    node.takers.pop(number, None)


def _made_durable(descriptor: int) -> None:
    os.fsync(descriptor)


def _folder_durable(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
