"""A step as its client sees it: input to the tasks, their output back, signals, and the exit code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.streams import ByteStream
from flagplot_wire.errors import Refused
from flagplot_wire.requests import StartStep, WatchStep
from flagplot_wire.step_messages import Reader, message, rank_of
from flagplot_wire.steps import Step, StepSpec

Output = Callable[[bool, int, bytes], None]
"""Takes (is it standard error, rank, bytes)."""


class StepClient:
    """One step that this client started. `output` takes what the tasks write, `told` what went wrong."""

    def __init__(self, connection: Connection, output: Output, told: Callable[[str], None]) -> None:
        self._connection = connection
        self._output = output
        self._told = told
        self._streams: list[ByteStream] = []
        self._first = 0
        self.step: Step | None = None
        self.exit_code = 0
        self.kill_on_bad_exit = False
        self._ending = False
        self._commands: set[asyncio.Future[None]] = set()

    async def start(self, job: str, spec: StepSpec, as_owner: bool = False) -> Step:
        """Start it; raises `Refused`."""
        self.kill_on_bad_exit = spec.kill_on_bad_exit
        return await self._connect(lambda first: StartStep(job, spec, first, as_owner))

    async def watch(self, job: str, step: int, stdin: bool = False) -> Step:
        """Watch a running step instead (-1: the last one), with `stdin` also to write to it; raises `Refused`."""
        return await self._connect(lambda first: WatchStep(job, step, first, stdin))

    async def _connect(self, ask: Callable[[int], StartStep | WatchStep]) -> Step:
        streams = self._connection.streams
        self._first = streams.reserve()
        try:
            reply = await Calls(self._connection).start_step(ask(self._first))
        except BaseException:
            streams.release(self._first)
            raise
        self.step = reply.step
        self._streams = [streams.at(self._first + place) for place in range(len(reply.step.parts))]
        return reply.step

    async def run(self) -> int:
        """Until every task has ended; returns the highest exit code of the tasks."""
        assert self.step is not None
        try:
            await asyncio.gather(
                *(self._hear(part.node, one) for part, one in zip(self.step.parts, self._streams, strict=True))
            )
        finally:
            for stream in self._streams:
                stream.close()
            self._connection.streams.release(self._first)
        return self.exit_code

    async def _hear(self, node: str, stream: ByteStream) -> None:
        reader = Reader()
        ended = False
        try:
            while not ended and (data := await stream.read()):
                for kind, content in reader.feed(data):
                    ended |= self._take(node, kind, content)
        except Refused as refused:
            self._told(f"{node}: {refused.message}")
        if not ended:
            self._failed(node, 1)

    def _take(self, node: str, kind: bytes, content: bytes) -> bool:
        if kind in (b"o", b"e"):
            self._output(kind == b"e", *rank_of(content))
            return False
        if kind != b"n":
            return False
        news: dict[str, Any] = json.loads(content)
        match news["event"]:
            case "exited" if news["code"]:
                self._failed(node, int(news["code"]), news["rank"], news["signal"], news.get("memory", False))
            case "failed":
                self._told(f"{node}: {news['message']}")
            case "ended":
                if not (self._ending and self.exit_code and news["cause"] == "cancelled"):
                    self.exit_code = max(self.exit_code, int(news["exit_code"]))
                return True
        return False

    def _failed(self, node: str, code: int, rank: int | None = None, number: int = 0, memory: bool = False) -> None:
        if not (self._ending and self.exit_code):
            self.exit_code = max(self.exit_code, code)
        if rank is not None and not self._ending:
            how = f"signal {number}" if number else f"exit code {code}"
            why = ": out of memory, the job's limit there was reached (--mem)" if memory else ""
            self._told(f"task {rank} on {node} ended with {how}{why}")
        if self.kill_on_bad_exit and not self._ending and len(self._streams) > 1:
            self.command(do="end")

    async def write(self, data: bytes) -> None:
        """Input for the tasks; empty bytes are its end."""
        for stream in self._streams:
            try:
                await stream.write(message(b"i", data))
            except Refused:
                # Its tasks have ended: the others still read.
                continue

    def command(self, **what: Any) -> None:
        """Tell every node: `do="signal"`, `"end"` or `"resize"`. Small enough never to wait long."""
        if what["do"] == "end":
            self._ending = True
        for stream in self._streams:
            task = asyncio.ensure_future(_quietly(stream, message(b"c", json.dumps(what).encode())))
            self._commands.add(task)
            task.add_done_callback(self._commands.discard)


async def _quietly(stream: ByteStream, data: bytes) -> None:
    try:
        await stream.write(data)
    except Refused:
        return
