"""The agent's loop: orders from the controller to the keeper, ends and samples back."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pwd
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import asyncssh
import msgspec

from flagplot_agent.config import Config
from flagplot_agent.launch.journal import Journal, write_durably
from flagplot_agent.launch.output import read_as
from flagplot_agent.launch.processes import of_attempt, table
from flagplot_agent.launch.recipe import Account, output_paths, recipe_of
from flagplot_agent.link import Link
from flagplot_agent.state import AgentState
from flagplot_agent.telemetry.sampler import JobProcesses, Sampler
from flagplot_wire import PROTOCOL_VERSION, __version__
from flagplot_wire import agentlink as al
from flagplot_wire.alloc import GpuPart
from flagplot_wire.errors import Refused
from flagplot_wire.ids import Epoch, JobNumber

log = logging.getLogger("flagplot-agent")
KEEPER_START_S = 10.0


class Agent:
    """One node's agent."""

    def __init__(self, config: Config, sampler: Sampler) -> None:
        self.config = config
        self.sampler = sampler
        self.journal = Journal(config.folder / "jobs")
        self.state = AgentState(Epoch(_stored_epoch(config.folder)))
        self.link: Link | None = None
        self.leaving = asyncio.Event()
        self.heard = time.monotonic()
        self._keeper: asyncio.StreamWriter | None = None
        self._launches: dict[tuple[int, int], dict[str, Any]] = {}
        self._reads: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Find or start the keeper, then serve the controller until told to leave."""
        self.read_journal()
        keeper = asyncio.create_task(self.keep_keeper())
        lease = asyncio.create_task(self.watch_lease())
        pause = 0.2
        while not self.leaving.is_set():
            try:
                began = time.monotonic()
                await self.serve()
            except (OSError, asyncssh.Error, Refused, EOFError, KeyError, json.JSONDecodeError) as wrong:
                log.warning("no connection to the controller: %s", wrong)
            pause = 0.2 if time.monotonic() - began > 10 else min(pause * 2, 5.0)
            try:
                await asyncio.wait_for(self.leaving.wait(), pause)
            except TimeoutError:
                continue
        keeper.cancel()
        lease.cancel()

    def read_journal(self) -> None:
        """Take up what an agent before us began."""
        for name in self.journal.names():
            number, attempt = map(int, name.split("."))
            start = self.journal.start_of(name)
            self._launches[number, attempt] = start
            end = self.journal.end_of(name)
            if end is None:
                self.state.running[number, attempt] = self.journal.pids_of(name)["started"]
            else:
                self.state.end(_end_of(number, attempt, end))
                if self.journal.acknowledged(name):
                    self.state.acknowledge(number, attempt)

    async def keep_keeper(self) -> None:
        """Hold a line to the keeper; start one where there is none."""
        while True:
            reader, writer = await self.reach_keeper()
            self._keeper = writer
            self.order(do="stay")
            self.catch_up()
            while line := await reader.readline():
                event = json.loads(line)
                number, attempt = map(int, event["name"].split("."))
                if event["event"] == "started":
                    self.state.running[number, attempt] = event["time"]
                    await self.tell_started(number, attempt)
                else:
                    await self.ended(event["name"])
            self._keeper = None
            log.error("the keeper is gone; starting another")

    async def reach_keeper(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the keeper, starting it where none answers."""
        path = self.config.folder / "keeper.sock"
        deadline = time.monotonic() + KEEPER_START_S
        started = False
        while True:
            try:
                return await asyncio.open_unix_connection(str(path), limit=1 << 20)
            except (FileNotFoundError, ConnectionRefusedError):
                if not started:
                    start_keeper(self.config.folder)
                    started = True
                elif time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)

    def catch_up(self) -> None:
        """Ends that the keeper journalled while nobody listened; starts it never got."""
        for number, attempt in list(self.state.running):
            name = f"{number}.{attempt}"
            if self.journal.end_of(name) is not None:
                self._spawn(self.ended(name))
            elif not self.journal.pids_of(name)["started"]:
                self.order(do="start", name=name, recipe=self._launches[number, attempt]["recipe"])

    def order(self, **command: Any) -> None:
        """Tell the keeper; while it is away it is told by `catch_up`."""
        if self._keeper is not None:
            self._keeper.write(json.dumps(command).encode() + b"\n")

    async def ended(self, name: str) -> None:
        """The keeper journalled an end: pass it on; it is repeated until acknowledged."""
        number, attempt = map(int, name.split("."))
        found = self.journal.end_of(name)
        if found is not None and (number, attempt) not in self.state.ended:
            end = _end_of(number, attempt, found)
            self.state.end(end)
            await self.send(al.Ended(end))

    async def send(self, body: al.FromAgent) -> None:
        """Send while connected; what must not be lost is repeated at the next hello."""
        if self.link is not None:
            try:
                await self.link.send(body)
            except (OSError, asyncssh.Error) as wrong:
                log.warning("not sent: %s", wrong)

    async def watch_lease(self) -> None:
        """Out of contact for longer than the lease: end the jobs, as the controller will believe."""
        while self.config.lease_s:
            await asyncio.sleep(1)
            if self.link is None and time.monotonic() - self.heard > self.config.lease_s:
                for number, attempt in list(self.state.running):
                    self.order(do="stop", name=f"{number}.{attempt}", kill_wait_s=10, reason="CONTROLLER UNREACHABLE")

    async def serve(self) -> None:
        """One connection's life."""
        async with Link(self.config) as link:
            await link.send(self.hello())
            tasks: list[asyncio.Task[None]] = []
            try:
                async for body in link.frames():
                    self.heard = time.monotonic()
                    if isinstance(body, al.AgentWelcome):
                        if body.refused:
                            raise Refused("refused", body.refused)
                        self.obey(body.epoch)
                        self.link = link
                        tasks = [
                            asyncio.create_task(self.heartbeats(link, body.heartbeat_s)),
                            asyncio.create_task(self.samples(link, body.sample_s)),
                        ]
                        log.info("connected to %s, epoch %s", body.cluster, body.epoch)
                    else:
                        await self.handle(body)
                    if self.leaving.is_set():
                        return
            finally:
                self.link = None
                for task in tasks:
                    task.cancel()

    def obey(self, epoch: Epoch) -> None:
        """Remember the highest epoch; an older controller is refused."""
        if not self.state.obeys(epoch):
            raise Refused(
                "old_epoch", f"the controller's epoch {epoch} is older than {self.state.epoch}, already obeyed"
            )
        if epoch > self.state.epoch:
            write_durably(self.config.folder / "epoch.json", {"epoch": epoch})
            self.state.epoch = epoch

    def hello(self) -> al.AgentHello:
        """Who we are and what we run."""
        return al.AgentHello(
            PROTOCOL_VERSION,
            __version__,
            self.config.node,
            self.sampler.inventory,
            int(time.time()),
            self.state.epoch,
            os.getpid(),
            pwd.getpwuid(os.getuid()).pw_name,
            self.state.attempts(),
            self.state.unacknowledged(),
        )

    async def heartbeats(self, link: Link, every_s: int) -> None:
        """Alive, and what runs."""
        while True:
            await asyncio.sleep(every_s)
            await link.send(al.Heartbeat(int(time.time()), self.state.attempts()))

    async def samples(self, link: Link, every_s: int) -> None:
        """Measurements, taken in a thread."""
        known = self.sampler.inventory
        while True:
            jobs = self.job_processes()
            sample = await asyncio.to_thread(self.sampler.sample, int(time.time()), jobs)
            await link.send(al.SampleReport(msgspec.structs.replace(sample, node=self.config.node)))
            if self.sampler.inventory != known:
                known = self.sampler.inventory
                await link.send(al.InventoryReport(known))
            await asyncio.sleep(every_s)

    def job_processes(self) -> list[JobProcesses]:
        """The processes of every running attempt."""
        found = []
        processes = table() if self.state.running else {}
        for number, attempt in self.state.running:
            roots = {int(pid) for pid in self.journal.pids_of(f"{number}.{attempt}")["pids"]}
            pids = of_attempt(roots, b"\0", -1, processes) if roots else set()
            gpus = [msgspec.convert(gpu, GpuPart) for gpu in self._launches[number, attempt]["gpus"]]
            found.append(JobProcesses(number, attempt, sorted(pids), gpus))
        return found

    async def handle(self, body: al.ToAgent) -> None:
        """Carry out one order."""
        match body:
            case al.Launch():
                await self.launch(body)
            case al.AckEnds():
                for attempt in body.ends:
                    self.state.acknowledge(attempt.number, attempt.attempt)
                    self.journal.acknowledge(f"{attempt.number}.{attempt.attempt}")
                self.journal.tidy(self.config.keep_attempts)
            case al.ReadFile():
                self._spawn(self.read_file(body))
            case al.Leave():
                await self.leave(body)
            case al.Stop() | al.Signal() | al.Extend() if self.state.obeys(body.epoch):
                await self.control(body)
            case _:
                log.warning("ignored %s of an older epoch", type(body).__name__)

    async def control(self, body: al.Stop | al.Signal | al.Extend) -> None:
        """Stop, signal or extend an attempt; a stop of one that is unknown is answered as lost."""
        name = f"{body.number}.{body.attempt}"
        key = (body.number, body.attempt)
        if isinstance(body, al.Signal):
            self.order(do="signal", name=name, signal=body.signal)
        elif isinstance(body, al.Extend):
            self.order(do="extend", name=name, deadline_s=body.deadline_s)
        elif key in self.state.running:
            self.order(do="stop", name=name, kill_wait_s=body.kill_wait_s, reason=body.reason)
        elif key in self.state.ended:
            await self.send(al.Ended(self.state.ended[key]))
        else:
            message = "the agent knows no such attempt"
            await self.send(al.Ended(al.AttemptEnd(body.number, body.attempt, "lost", message=message)))

    async def launch(self, launch: al.Launch) -> None:
        """Write the attempt down, then have it started; a known one is answered with what became of it."""
        key = (launch.number, launch.attempt)
        decision = self.state.decide(launch.epoch, *key)
        if decision == "answer_started":
            await self.tell_started(*key)
        elif decision == "answer_ended":
            await self.send(al.Ended(self.state.ended[key]))
        elif decision == "refuse":
            log.warning("refused start %s.%s of epoch %s", *key, launch.epoch)
        else:
            try:
                self.begin(launch)
            except Refused as refused:
                await self.fail(launch, refused.message)
            except OSError as wrong:
                await self.fail(launch, f"cannot write the attempt down: {wrong.strerror}")

    def begin(self, launch: al.Launch) -> None:
        """The durable part of a start."""
        name = f"{launch.number}.{launch.attempt}"
        account = account_of(launch)
        script = str(self.journal.path(name) / "script")
        recipe = recipe_of(launch, self.sampler.inventory, account, script, sorted(os.sched_getaffinity(0)))
        stdout, stderr, _ = output_paths(launch, self.config.node, recipe.tasks[0].rank if recipe.tasks else 0)
        start = {
            "recipe": msgspec.to_builtins(recipe),
            "stdout": stdout,
            "stderr": stderr,
            "gpus": msgspec.to_builtins(launch.allocation.nodes[launch.node_index].gpus),
        }
        self.journal.begin(name, start, launch.payload.script, account.uid)
        self._launches[launch.number, launch.attempt] = start
        self.state.running[launch.number, launch.attempt] = 0
        self.order(do="start", name=name, recipe=start["recipe"])

    async def fail(self, launch: al.Launch, message: str) -> None:
        """A start that came to nothing, where nothing could be written down."""
        end = al.AttemptEnd(launch.number, launch.attempt, "launch_failed", time=int(time.time()), message=message)
        self.state.end(end)
        await self.send(al.Ended(end))

    async def tell_started(self, number: int, attempt: int) -> None:
        """Confirm a start."""
        start = self._launches[number, attempt]
        at = self.state.running.get((number, attempt)) or int(time.time())
        notes = tuple(start["recipe"]["notes"])
        await self.send(al.Started(JobNumber(number), attempt, at, start["stdout"], start["stderr"], (), notes))

    async def read_file(self, call: al.ReadFile) -> None:
        """Answer with a piece of an output, read as the job's user."""
        start = self._launches.get((call.number, call.attempt))
        path = (start[call.stream] or start["stdout"]) if start else call.path
        if not path:
            await self.send(al.FilePiece(call.call, "", error="this node has no output of that job"))
            return
        try:
            at, size, data = await asyncio.to_thread(
                read_as, path, call.offset, call.limit, call.user, call.uid, call.gid
            )
        except (OSError, subprocess.SubprocessError) as wrong:
            await self.send(al.FilePiece(call.call, path, error=getattr(wrong, "strerror", "") or str(wrong)))
            return
        await self.send(al.FilePiece(call.call, path, at, size, data))

    async def leave(self, body: al.Leave) -> None:
        """Shut down, with or without the jobs."""
        if body.jobs == "cancel":
            for number, attempt in list(self.state.running):
                self.order(do="stop", name=f"{number}.{attempt}", kill_wait_s=5, reason="CANCELLED WITH THE CLUSTER")
            while self.state.running:
                await asyncio.sleep(0.05)
        await self.part()
        self.leaving.set()

    async def part(self) -> None:
        """We end, the jobs go on: the keeper leaves when the last of them has ended."""
        self.order(do="leave")
        if self._keeper is not None:
            await self._keeper.drain()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)


def account_of(launch: al.Launch) -> Account:
    """Who the job runs as here: the submitter by name; an ordinary agent runs as itself."""
    own = pwd.getpwuid(os.getuid())
    if own.pw_uid != 0:
        return Account(own.pw_name, own.pw_uid, own.pw_gid, own.pw_dir, own.pw_shell or "/bin/sh")
    try:
        found = pwd.getpwnam(launch.user)
    except KeyError as missing:
        raise Refused("no_user", f"user: there is no user {launch.user} on this node") from missing
    if found.pw_uid != launch.uid:
        raise Refused("no_user", f"user: {launch.user} has uid {found.pw_uid} here, and {launch.uid} at the controller")
    return Account(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir, found.pw_shell or "/bin/sh")


def start_keeper(folder: Path) -> None:
    """Start a keeper in a session of its own; it outlives us."""
    with open(folder / "keeper.log", "ab") as out:
        subprocess.Popen(
            [sys.executable, "-m", "flagplot_agent.launch.keeper", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd="/",
            start_new_session=True,
            close_fds=True,
        )


def _stored_epoch(folder: Path) -> int:
    try:
        return int(json.loads((folder / "epoch.json").read_text())["epoch"])
    except FileNotFoundError:
        return 0


def _end_of(number: int, attempt: int, found: dict[str, Any]) -> al.AttemptEnd:
    end: al.AttemptEnd = msgspec.convert({"number": number, "attempt": attempt, **found}, al.AttemptEnd)
    return end
