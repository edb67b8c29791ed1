"""A real controller, a client that speaks the frames, and an agent without processes, for tests of the controller."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh
from msgspec import Struct

from flagplot_wire import PROTOCOL_VERSION, agentlink, replies, requests
from flagplot_wire.codec import Decoder, encode
from flagplot_wire.ids import Epoch
from flagplot_wire.job import GpuCount, JobSpec, Payload, Request
from flagplot_wire.node import Gpu, Inventory
from flagplotd.config import Config
from flagplotd.controller import Controller
from flagplotd.ssh.keys import prepare


async def until(condition: Callable[[], Any], seconds: float = 30, what: str = "the condition") -> Any:
    """Wait for a condition of this process; fails naming `what`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        await asyncio.sleep(0.01)
    return value


async def until_async(condition: Callable[[], Awaitable[Any]], seconds: float = 30, what: str = "it") -> Any:
    """Wait for a condition that must be asked for."""
    deadline = time.monotonic() + seconds
    while not (value := await condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        await asyncio.sleep(0.05)
    return value


def spec(name: str = "job", gpus: int = 0, limit: int = 60, **more: Any) -> JobSpec:
    """A small job of one CPU and 64 MiB."""
    request = Request(
        mem_per_node_mib=64, time_limit_s=limit, gpus_per_node=(GpuCount(gpus),) if gpus else (), **more.pop("ask", {})
    )
    return JobSpec(name, "/tmp", request, **more)


class Client:
    """One connection; `ask` pairs replies, pushes collect in `pushes`."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader, self.writer = reader, writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._calls = 0
        self.pushes: list[Any] = []
        self.closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def local(cls, folder: Path, hello: bool = True) -> Client:
        """Over the unix socket."""
        reader, writer = await asyncio.open_unix_connection(str(folder / "controller.sock"))
        return await cls(reader, writer)._begin(hello)

    @classmethod
    async def ssh(cls, connection: asyncssh.SSHClientConnection) -> Client:
        """Over SSH."""
        writer, reader, _ = await connection.open_session(subsystem="flagplot", encoding=None)
        return await cls(reader, writer)._begin(True)

    async def _begin(self, hello: bool) -> Client:
        self._task = asyncio.create_task(self._read())
        if hello:
            self.welcome = await self.ask(requests.Hello(PROTOCOL_VERSION, "0", "test"))
        return self

    async def _read(self) -> None:
        decoder: Decoder[Struct] = Decoder(replies.Reply | replies.Push)
        try:
            while data := await self._reader.read(65_536):
                for call, body in decoder.feed(data):
                    if call in self._waiting:
                        self._waiting.pop(call).set_result(body)
                    else:
                        self.pushes.append(body)
        finally:
            self.closed.set()

    def send(self, request: Struct) -> asyncio.Future[Any]:
        """Send without waiting."""
        self._calls += 1
        done = self._waiting[self._calls] = asyncio.get_running_loop().create_future()
        self.writer.write(encode(request, self._calls))
        return done

    async def ask(self, request: Struct) -> Any:
        """Send and wait."""
        return await asyncio.wait_for(self.send(request), 30)

    async def submit(self, job: JobSpec | None = None, key: str = "", script: str = "#!/bin/sh\ntrue\n") -> Any:
        """Submit; returns the reply."""
        return await self.ask(requests.Submit(job or spec(), Payload(script), key or os.urandom(8).hex()))

    async def job(self, number: int) -> Any:
        """A job's record."""
        return (await self.ask(requests.GetJob(str(number)))).jobs[0]

    async def wait_state(self, number: int, state: str) -> Any:
        """Wait for a job's state."""

        async def reached() -> Any:
            job = await self.job(number)
            return job if job.status.state == state else None

        return await until_async(reached, what=f"job {number} {state}")

    def events(self) -> list[Any]:
        """All events pushed so far."""
        return [event for push in self.pushes if isinstance(push, replies.EventsPushed) for event in push.events]

    async def close(self) -> None:
        """Leave."""
        self.writer.close()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=5)


def inventory(gpus: int = 2, cpus: int = 8) -> Inventory:
    """A node's hardware."""
    return Inventory(
        boot_id="boot-1",
        sockets=1,
        cores=cpus,
        threads_per_core=1,
        cpu_ids=f"0-{cpus - 1}",
        memory_mib=16_384,
        gpus=tuple(Gpu(index, f"GPU-{index}", "h100", vram_mib=80_000) for index in range(gpus)),
        simulated=True,
    )


class FakeAgent:
    """Speaks the agents' frames and runs nothing: a test says when an attempt ends."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.launches: list[agentlink.Launch] = []
        self.stops: list[agentlink.Stop] = []
        self.acknowledged: list[agentlink.Attempt] = []
        self.running: dict[int, int] = {}
        self.unacknowledged: list[agentlink.AttemptEnd] = []
        self.output = bytes(range(256)) * 4
        self.welcome: agentlink.AgentWelcome | None = None
        self.closed = asyncio.Event()
        self.epoch = 0
        self.obey_stops = True
        self._writer: Any = None
        self._connection: asyncssh.SSHClientConnection | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, port: int, folder: Path, key: Path | None = None, beat: float = 1.0) -> FakeAgent:
        """Dial in; returns when the controller's welcome is here."""
        self.closed.clear()
        self._connection = await dial(port, key or folder / "keys" / "agent_ed25519", folder, "agent")
        writer, reader, _ = await self._connection.open_session(subsystem="flagplot-agent", encoding=None)
        self._writer = writer
        running = tuple(agentlink.Attempt(number, attempt) for number, attempt in self.running.items())
        self.send(
            agentlink.AgentHello(
                PROTOCOL_VERSION, "0", self.node, inventory(), int(time.time()), Epoch(self.epoch), os.getpid(),
                "root", running, tuple(self.unacknowledged),
            )
        )  # fmt: skip
        welcomed = asyncio.get_running_loop().create_future()
        self._tasks = [asyncio.create_task(self._read(reader, welcomed)), asyncio.create_task(self._beat(beat))]
        self.welcome = await asyncio.wait_for(welcomed, 20)
        self.epoch = self.epoch if self.welcome.refused else self.welcome.epoch
        return self

    def send(self, body: Struct) -> None:
        """One frame."""
        self._writer.write(encode(body))

    async def _beat(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            running = tuple(agentlink.Attempt(number, attempt) for number, attempt in self.running.items())
            self.send(agentlink.Heartbeat(int(time.time()), running))

    async def _read(self, reader: Any, welcomed: asyncio.Future[Any]) -> None:
        decoder: Decoder[Struct] = Decoder(agentlink.ToAgent)
        try:
            while data := await reader.read(65_536):
                for _, body in decoder.feed(data):
                    if isinstance(body, agentlink.AgentWelcome):
                        welcomed.set_result(body)
                    else:
                        self._take(body)
        finally:
            self.closed.set()

    def _take(self, body: Any) -> None:
        match body:
            case agentlink.Launch():
                known = any(old.number == body.number and old.attempt == body.attempt for old in self.launches)
                self.launches.append(body)
                if not known:
                    self.running[body.number] = body.attempt
                self.send(agentlink.Started(body.number, body.attempt, int(time.time()), "/tmp/out"))
            case agentlink.Stop():
                self.stops.append(body)
                if self.obey_stops and self.running.get(body.number) == body.attempt:
                    self.end(body.number, cause="stopped", signal=15)
            case agentlink.AckEnds():
                self.acknowledged.extend(body.ends)
                gone = {(end.number, end.attempt) for end in body.ends}
                self.unacknowledged = [end for end in self.unacknowledged if (end.number, end.attempt) not in gone]
            case agentlink.ReadFile():
                start, found = body.offset, -1
                if body.search:
                    found = start = self.output.rfind(body.search.encode())
                piece = self.output[start : start + body.limit] if start >= 0 else b""
                size, searched = len(self.output), max(found, 0) if body.search else -1
                self.send(agentlink.FilePiece(body.call, "/tmp/out", max(start, 0), size, piece, "", found, searched))

    def end(self, number: int, cause: Any = "exited", exit_code: int = 0, signal: int = 0, send: bool = True) -> None:
        """An attempt ends now."""
        attempt = self.running.pop(number)
        end = agentlink.AttemptEnd(number, attempt, cause, exit_code, signal, int(time.time()))
        self.unacknowledged.append(end)
        if send:
            self.send(agentlink.Ended(end))

    async def launched(self, number: int) -> agentlink.Launch:
        """Wait for a launch."""

        def found() -> agentlink.Launch | None:
            return next((launch for launch in self.launches if launch.number == number), None)

        return await until(found, what=f"the launch of {number} on {self.node}")

    async def leave(self) -> None:
        """Cut the connection."""
        for task in self._tasks:
            task.cancel()
        if self._connection is not None:
            self._connection.abort()
            await self._connection.wait_closed()


async def dial(port: int, key: Path, folder: Path, login: str = "anyone") -> asyncssh.SSHClientConnection:
    """An SSH connection that checks the host key."""
    host = (folder / "keys" / "host_ed25519.pub").read_text()
    return await asyncssh.connect(
        "127.0.0.1",
        port,
        username=login,
        client_keys=[str(key)],
        known_hosts=asyncssh.import_known_hosts(f"[127.0.0.1]:{port} {host}"),
        agent_path=None,
        config=None,
    )


async def start_inside(folder: Path, config: Config | None = None) -> Controller:
    """A controller in this process, ready and compiled."""
    controller = Controller(folder, config or Config(), prepare(folder))
    await controller.open()
    await asyncio.wait_for(controller.server.cycle.compiled.wait(), 150)
    return controller


class OutsideController:
    """A controller in a process of its own, that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    async def start(self, *args: str) -> OutsideController:
        """Start and wait until it is ready."""
        ready = self.folder / "controller.json"
        ready.unlink(missing_ok=True)
        self.folder.mkdir(exist_ok=True)
        with (self.folder.parent / "controller.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flagplotd.main", "run", "--data-dir", str(self.folder), *args],
                stdout=log,
                stderr=log,
            )
        import json

        await until(ready.exists, 60, "controller.json")
        self.port = json.loads(ready.read_text())["port"]
        return self

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(30)
