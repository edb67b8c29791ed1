"""The agent's loop: orders from the controller to the keeper, ends and samples back."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pwd
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import asyncssh
import msgspec

from flagplot_agent.access import AccessDoor
from flagplot_agent.config import Config
from flagplot_agent.guarding import guard_shares
from flagplot_agent.health.watch import Watch
from flagplot_agent.hooks.hooks import Hooks
from flagplot_agent.hooks.words import hook_job
from flagplot_agent.keeperline import KeeperLine
from flagplot_agent.launch.account import account_of
from flagplot_agent.launch.containers import contain
from flagplot_agent.launch.journal import Journal, key_of, write_durably
from flagplot_agent.launch.output import read_as
from flagplot_agent.launch.recipe import output_paths, recipe_of
from flagplot_agent.link import Link
from flagplot_agent.reaping import Reaper
from flagplot_agent.state import AgentState, Key
from flagplot_agent.steps.files import serve_file
from flagplot_agent.steps.ports import serve_port
from flagplot_agent.steps.site import NodeDoor, add_site
from flagplot_agent.steps.steps import Steps
from flagplot_agent.steps.streams import NodeStream, Streams
from flagplot_agent.telemetry.inventory import libraries
from flagplot_agent.telemetry.jobs import job_processes
from flagplot_agent.telemetry.sampler import Sampler
from flagplot_wire import PROTOCOL_VERSION, __version__
from flagplot_wire import agentlink as al
from flagplot_wire.errors import Refused
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.streams import ConnectPort, ConnectStep

log = logging.getLogger("flagplot-agent")
SILENCE_S = 40.0
"""A line may have been dead for so long before it was seen to be (keepalives of `Link`)."""
LIBRARIES_S = 3600.0
"""Programs are upgraded while agents run."""
LAST_ACKS_S = 5.0
"""For the controller to acknowledge the last ends of an agent that leaves with its jobs."""


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
        self.keeper = KeeperLine(config.folder, self.keeper_said)
        self._launches: dict[Key, dict[str, Any]] = {}
        self._begun: dict[Key, dict[str, Any]] = {}
        self._standing: dict[Key, dict[str, dict[str, Any]]] = {}
        """Stops and extensions of what runs, for a keeper that comes after this one."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.steps = Steps(self)
        self.streams = Streams(self.serve_stream)
        self.door = NodeDoor(config.folder, self.streams)
        self.door.uid_of = self.uid_of
        self.access = AccessDoor(config.folder, self.job_of)
        self.watch = Watch(config)
        self.hooks = Hooks(config.settings.hooks, self.journal, self.order_start, self.why_stopped, self.ended)

    async def run(self) -> None:
        """Find or start the keeper, then serve the controller until told to leave."""
        self.read_journal()
        await self.door.open()
        await self.access.open()
        background = [
            asyncio.create_task(self.keeper.run()),
            asyncio.create_task(self.watch_lease()),
            asyncio.create_task(guard_shares(self, self.config.vram_guard)),
        ]
        pause = 0.2
        try:
            while not self.leaving.is_set():
                began = time.monotonic()
                try:
                    await self.serve()
                except (OSError, asyncssh.Error, Refused, EOFError, KeyError, ValueError) as wrong:
                    log.warning("no connection to the controller: %s", wrong)
                pause = 0.2 if time.monotonic() - began > 10 else min(pause * 2, 5.0)
                try:
                    await asyncio.wait_for(self.leaving.wait(), pause * random.uniform(0.8, 1.0))
                except TimeoutError:
                    continue
        finally:
            # The jobs go on: the keeper leaves when the last of them has ended.
            await self.door.close()
            await self.access.close()
            await self.keeper.leave()
            for task in background:
                task.cancel()

    def read_journal(self) -> None:
        """Take up what an agent before us began."""
        for name in self.journal.names():
            key = key_of(name)
            self._launches[key] = self.journal.start_of(name)
            begun = self.journal.begun_of(name)
            if begun is not None:
                self._begun[key] = begun
            end = self.journal.end_of(name)
            if end is None or self.hooks.owed(name, self._launches[key]):
                self.state.running[key] = begun["started"] if begun else 0
            else:
                self.state.end(_end_of(key, end))
                if self.journal.acknowledged(name):
                    self.state.acknowledge(*key)

    async def keeper_said(self, event: dict[str, Any]) -> None:
        """Deal with one event of the keeper."""
        if event["event"] == "hello":
            await self.catch_up()
            return
        key = key_of(event["name"])
        if event["event"] == "ended":
            self._spawn(self.ended(event["name"]))
        elif key in self.state.running:
            self.state.running[key] = event["started"]
            self._begun[key] = event
            await self.tell_started(key)

    async def catch_up(self) -> None:
        """Ends that the keeper journalled while we did not listen; starts that it never got."""
        for key in list(self.state.running):
            name = f"{key[0]}.{key[1]}"
            if self.journal.end_of(name) is not None:
                self._spawn(self.ended(name))
                continue
            if self.journal.begun_of(name) is None:
                self.hooks.start(name, self._launches[key])
            for order in self._standing.get(key, {}).values():
                self.keeper.order(**order)

    async def ended(self, name: str) -> None:
        """The keeper journalled an end: pass it on; it is repeated until acknowledged."""
        key = key_of(name)
        await self.steps.job_ended(*key)
        found = self.journal.end_of(name)
        if found is not None and key in self.state.running:
            found = await self.hooks.after(name, self._launches[key], found)
        if found is not None and key not in self.state.ended:
            self.state.end(_end_of(key, found))
            self._begun.pop(key, None)
            self._standing.pop(key, None)
            await self.send(al.Ended(self.state.ended[key]))

    def order_start(self, name: str, recipe: dict[str, Any]) -> None:
        """Have the keeper start an attempt, and do to it what was ordered meanwhile."""
        self.keeper.order(do="start", name=name, recipe=recipe)
        for order in self._standing.get(key_of(name), {}).values():
            self.keeper.order(**order)

    def why_stopped(self, name: str) -> str | None:
        """The reason of a stop that stands against an attempt; None where it may go on."""
        stop = self._standing.get(key_of(name), {}).get("stop")
        return None if stop is None else str(stop["reason"])

    async def send(self, body: al.FromAgent) -> None:
        """Send while connected; ends are repeated until acknowledged, the rest is in the next hello."""
        if self.link is not None:
            if isinstance(body, al.Ended):
                self.state.told.add((body.end.number, body.end.attempt))
            try:
                await self.link.send(body)
            except (OSError, asyncssh.Error) as wrong:
                log.warning("not sent: %s", wrong)

    async def watch_lease(self) -> None:
        """Out of contact for longer than the lease: end the jobs, as the controller will believe."""
        while self.config.lease_s:
            await asyncio.sleep(1)
            if self.link is None and time.monotonic() - self.heard > self.config.lease_s:
                self.stop_all(10, "CANCELLED BECAUSE THE CONTROLLER IS OUT OF REACH")

    def stop_all(self, kill_wait_s: int, reason: str) -> None:
        """End every job of this node."""
        for key in list(self.state.running):
            self.stand(key, do="stop", kill_wait_s=kill_wait_s, reason=reason)

    def stand(self, key: Key, **order: Any) -> None:
        """Give an order that stays in force whichever keeper is there."""
        order["name"] = f"{key[0]}.{key[1]}"
        self._standing.setdefault(key, {})[order["do"]] = order
        self.keeper.order(**order)

    async def serve(self) -> None:
        """One connection's life."""
        async with Link(self.config) as link:
            await link.send(self.hello())
            self.state.told = set(self.state.ended)
            tasks: list[asyncio.Task[None]] = []
            try:
                async for body in link.frames():
                    if isinstance(body, al.AgentWelcome):
                        if body.refused:
                            raise Refused("refused", body.refused)
                        self.obey(body.epoch)
                        self.link = link
                        tasks = [
                            asyncio.create_task(self.heartbeats(link, body.heartbeat_s)),
                            asyncio.create_task(self.samples(link, body.sample_s)),
                            asyncio.create_task(self.watch.run(link.send)),
                            asyncio.create_task(link.serve_streams(self.streams, body.streams_key)),
                        ]
                        log.info("connected to %s, epoch %s", body.cluster, body.epoch)
                        for key in list(self.state.running):
                            await self.tell_started(key)
                    else:
                        await self.handle(body)
            finally:
                if self.link is not None:
                    self.heard = time.monotonic() - SILENCE_S
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
            for end in self.state.overdue():
                await link.send(al.Ended(end))
            for step in self.steps.overdue():
                await link.send(al.StepEnded(step))

    async def samples(self, link: Link, every_s: int) -> None:
        """Measurements, taken in a thread."""
        known = self.sampler.inventory
        look_at = time.monotonic() + LIBRARIES_S
        reaper = Reaper(self)
        while True:
            if self.config.simulate is None and time.monotonic() >= look_at:
                look_at = time.monotonic() + LIBRARIES_S
                found = await asyncio.to_thread(libraries, self.config.settings.libraries)
                self.sampler.inventory = msgspec.structs.replace(self.sampler.inventory, libraries=found)
            jobs = await asyncio.to_thread(job_processes, self.held())
            sample = await asyncio.to_thread(self.sampler.sample, int(time.time()), jobs)
            await link.send(al.SampleReport(msgspec.structs.replace(sample, node=self.config.node)))
            await reaper.take(sample)
            if self.sampler.inventory != known:
                known = self.sampler.inventory
                await link.send(al.InventoryReport(known))
            await asyncio.sleep(every_s)

    async def handle(self, body: al.ToAgent) -> None:
        """Carry out one order."""
        try:
            await self._handle(body)
        except Exception:
            # One bad order must not end the agent.
            log.exception("could not carry out %s", type(body).__name__)

    async def _handle(self, body: al.ToAgent) -> None:
        match body:
            case al.Launch():
                await self.launch(body)
            case al.TellTime():
                self.watch.told(body)
            case al.AckEnds():
                self.acknowledged(body)
            case al.ReadFile():
                self._spawn(self.read_file(body))
            case al.AckSteps():
                self.steps.acknowledged(body.ends)
            case al.StopStep() if self.state.obeys(body.epoch):
                self.steps.stop(body)
            case al.Leave():
                self._spawn(self.leave(body))
            case al.Stop() | al.Signal() | al.Extend() if self.state.obeys(body.epoch):
                await self.control(body)
            case _:
                log.warning("ignored %s of an older epoch", type(body).__name__)

    def held(self) -> dict[Key, tuple[dict[str, Any] | None, list[dict[str, Any]]]]:
        """What the keeper noted of each running attempt, and the GPUs that it holds."""
        return {key: (self._begun.get(key), self._launches[key]["gpus"]) for key in self.state.running}

    def nodes_of(self, key: Key) -> int:
        """On how many nodes a running attempt is; 0 where it was begun before that was written down."""
        return int(self._launches[key].get("nodes", 0))

    def kill_wait(self, key: Key) -> int:
        """Seconds from SIGTERM to SIGKILL of a running attempt."""
        return int(self._launches[key]["recipe"]["kill_wait_s"])

    def begun(self, key: Key) -> dict[str, Any] | None:
        """What the keeper noted of a running attempt; None while it has not started it."""
        return self._begun.get(key) if self.state.running.get(key) else None

    def uid_of(self, number: int) -> int | None:
        """The uid that a job runs as here; None where it does not run."""
        found = next((key for key in self.state.running if key[0] == number), None)
        return int(self._launches[found]["recipe"]["uid"]) if found is not None else None

    def job_of(self, uid: int) -> tuple[int, list[str]] | None:
        """The job of a uid that started last here, and the files to join its control groups by; None without one."""
        theirs = [
            (started, key)
            for key, started in self.state.running.items()
            if started and key in self._begun and self._launches[key]["recipe"]["uid"] == uid
        ]
        if not theirs:
            return None
        key = max(theirs)[1]
        return key[0], list(self._begun[key].get("joins", ()))

    async def serve_stream(self, stream: NodeStream, call: Any) -> None:
        """Connect a stream to what the controller wants it for."""
        if isinstance(call, ConnectStep):
            await self.steps.serve(stream, call)
        elif (call.number, call.attempt) not in self.state.running:
            raise Refused("not_running", f"job {call.number} does not run on {self.config.node}")
        elif isinstance(call, ConnectPort):
            await serve_port(stream, call)
        else:
            await serve_file(stream, call)

    def acknowledged(self, body: al.AckEnds) -> None:
        """The controller has these ends. The newest are kept for a while, to know a start that is repeated."""
        for attempt in body.ends:
            self.state.acknowledge(attempt.number, attempt.attempt)
            self.journal.acknowledge(f"{attempt.number}.{attempt.attempt}")
        for key in self.state.forget(self.config.keep_attempts):
            self._launches.pop(key, None)
            self.journal.remove(f"{key[0]}.{key[1]}")

    async def control(self, body: al.Stop | al.Signal | al.Extend) -> None:
        """Stop, signal or extend an attempt; a stop of one that is unknown is answered as lost."""
        key = (body.number, body.attempt)
        if isinstance(body, al.Signal):
            self.keeper.order(do="signal", name=f"{key[0]}.{key[1]}", signal=body.signal)
        elif isinstance(body, al.Extend):
            if key in self.state.running:
                self.stand(key, do="extend", deadline_s=body.deadline_s)
        elif key in self.state.running:
            self.stand(key, do="stop", kill_wait_s=body.kill_wait_s, reason=body.reason)
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
            await self.tell_started(key)
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
            except Exception as wrong:
                # Whatever it is, the controller must hear that nothing started.
                log.exception("cannot prepare %s.%s", *key)
                await self.fail(launch, f"the agent cannot prepare the job: {type(wrong).__name__}: {wrong}")

    def begin(self, launch: al.Launch) -> None:
        """The durable part of a start."""
        name = f"{launch.number}.{launch.attempt}"
        account = account_of(launch)
        check_first_line(launch.payload.script)
        script = str(self.journal.path(name) / "script")
        recipe = recipe_of(
            launch, self.sampler.inventory, account, script, sorted(os.sched_getaffinity(0)), int(time.time())
        )
        recipe = msgspec.structs.replace(recipe, pids_max=self.config.settings.pids_max)
        stdout, stderr, _ = output_paths(launch, self.config.node, recipe.tasks[0].rank if recipe.tasks else 0)
        start: dict[str, Any] = {
            "recipe": msgspec.to_builtins(recipe),
            "stdout": stdout,
            "stderr": stderr,
            "nodes": len(launch.allocation.nodes),
            "gpus": msgspec.to_builtins(launch.allocation.nodes[launch.node_index].gpus),
        }
        tasks = start["recipe"]["tasks"]
        for task in tasks:
            add_site(task["environment"], self.config)
        contain(tasks, recipe, launch, self.sampler.inventory, self.config.settings.containers.engines)
        start["recipe"]["task_prolog"] = self.hooks.task_prolog()
        if self.hooks.wanted:
            told = hook_job(launch, self.sampler.inventory, account, int(time.time()))
            start["hook_job"] = msgspec.to_builtins(told)
        self.journal.begin(name, start, launch.payload.script, account.uid)
        self._launches[launch.number, launch.attempt] = start
        self.state.running[launch.number, launch.attempt] = 0
        self.hooks.start(name, start)

    async def fail(self, launch: al.Launch, message: str) -> None:
        """A start that came to nothing, where nothing could be written down."""
        end = al.AttemptEnd(launch.number, launch.attempt, "launch_failed", time=int(time.time()), message=message)
        self.state.end(end)
        await self.send(al.Ended(end))

    async def tell_started(self, key: Key) -> None:
        """Confirm a start, once it is one."""
        begun = self._begun.get(key)
        if begun is None or not self.state.running[key]:
            return
        start = self._launches[key]
        notes = (*start["recipe"]["notes"], *begun["notes"])
        await self.send(
            al.Started(
                JobNumber(key[0]), key[1], self.state.running[key], start["stdout"], start["stderr"],
                tuple(begun["enforced"]), notes,
            )
        )  # fmt: skip

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
            why = getattr(wrong, "strerror", "") or str(wrong)
            await self.send(al.FilePiece(call.call, path, error=f"cannot read {path}: {why}"))
            return
        await self.send(al.FilePiece(call.call, path, at, size, data))

    async def leave(self, body: al.Leave) -> None:
        """Shut down, with or without the jobs; the last ends get a moment to be acknowledged."""
        if body.jobs == "cancel":
            self.stop_all(5, "CANCELLED WITH THE CLUSTER")
            while self.state.running:
                await asyncio.sleep(0.05)
            deadline = time.monotonic() + LAST_ACKS_S
            while self.state.unacknowledged() and self.link is not None and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
        self.leaving.set()
        if self.link is not None:
            self.link.close()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def check_first_line(script: str) -> None:
    """Refuse what the kernel would report as a missing interpreter."""
    if script.partition("\n")[0].endswith("\r"):
        raise Refused(
            "bad_script", "user: line 1 of the script has a DOS line break (CR LF): convert it with sed 's/\\r$//'"
        )


def _stored_epoch(folder: Path) -> int:
    try:
        return int(json.loads((folder / "epoch.json").read_text())["epoch"])
    except FileNotFoundError:
        return 0


def _end_of(key: Key, found: dict[str, Any]) -> al.AttemptEnd:
    end: al.AttemptEnd = msgspec.convert({"number": key[0], "attempt": key[1], **found}, al.AttemptEnd)
    return end
