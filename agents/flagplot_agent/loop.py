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
from flagplot_agent.attempts import Attempts
from flagplot_agent.background import Background
from flagplot_agent.config import Config
from flagplot_agent.guarding import guard_shares
from flagplot_agent.health.watch import Watch
from flagplot_agent.hooks.hooks import Hooks
from flagplot_agent.keeperline import KeeperLine
from flagplot_agent.launch.hierarchies import dmem_capacity
from flagplot_agent.launch.journal import Journal, key_of, name_of, write_durably
from flagplot_agent.launch.output import read_as
from flagplot_agent.link import Link
from flagplot_agent.mps import Mps, installed
from flagplot_agent.policies import Policies
from flagplot_agent.reaping import Reaper
from flagplot_agent.rebooting import Rebooter
from flagplot_agent.staging import Staging
from flagplot_agent.starts import Starts
from flagplot_agent.state import AgentState, Key
from flagplot_agent.steps.files import serve_file
from flagplot_agent.steps.ports import serve_port
from flagplot_agent.steps.site import NodeDoor
from flagplot_agent.steps.steps import Steps
from flagplot_agent.steps.streams import NodeStream, Streams
from flagplot_agent.telemetry.inventory import libraries
from flagplot_agent.telemetry.jobs import job_processes
from flagplot_agent.telemetry.sampler import Sampler
from flagplot_agent.vram import Has, regions_in
from flagplot_wire import PROTOCOL_VERSION, __version__
from flagplot_wire import agentlink as al
from flagplot_wire.errors import Refused
from flagplot_wire.ids import Epoch
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
        self.attempts = Attempts(self.journal, self.state)
        self.link: Link | None = None
        self.leaving = asyncio.Event()
        self.heard = time.monotonic()
        self.keeper = KeeperLine(config.folder, self.keeper_said)
        self.background = Background()
        self.starts = Starts(self)
        self.steps = Steps(self)
        self.streams = Streams(self.serve_stream)
        self.door = NodeDoor(config.folder, self.streams, self.attempts.uid_of)
        self.access = AccessDoor(config.folder, self.attempts.job_of)
        self.policies = Policies(config)
        self.watch = Watch(config, self.policies)
        self.rebooter = Rebooter(config.settings.reboot, config.folder, self.reboot_failed)
        self.mps = Mps(config.folder)
        self.has = Has(regions_in(dmem_capacity()), config.settings.gpus.mps and installed())
        self.hooks = Hooks(config.settings.hooks, self.journal, self.starts.order, self.why_stopped, self.ended)
        self.staging = Staging(self.journal, self.streams, self.hooks, self.why_stopped, self.ended)

    async def run(self) -> None:
        """Find or start the keeper, then serve the controller until told to leave."""
        self.attempts.read_journal(lambda name, start: self.hooks.owed(name, start) or self.staging.owed(name, start))
        for key in self.state.running:
            self.mps.taken_up(name_of(key), self.attempts.start_of(key)["recipe"])
        self.background.start(self.mps.sweep())
        await self.door.open()
        await self.access.open()
        self.background.start(self.keeper.run(), self.watch_lease(), guard_shares(self))
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
            self.background.cancel()

    async def keeper_said(self, event: dict[str, Any]) -> None:
        """Deal with one event of the keeper."""
        if event["event"] == "hello":
            await self.catch_up()
            return
        key = key_of(event["name"])
        if event["event"] == "ended":
            self.background.start(self.ended(event["name"], event.get("end"), event.get("begun")))
        elif key in self.state.running:
            self.attempts.started(key, event)
            await self.tell_started(key)

    async def catch_up(self) -> None:
        """Ends that the keeper journalled while we did not listen; starts that it never got."""
        for key in list(self.state.running):
            name = name_of(key)
            if self.journal.end_of(name) is not None:
                self.background.start(self.ended(name))
                continue
            if self.journal.begun_of(name) is None:
                self.staging.start(name, self.attempts.start_of(key))
            for order in self.attempts.standing(key):
                self.keeper.order(**order)

    async def ended(self, name: str, found: dict[str, Any] | None = None, begun: dict[str, Any] | None = None) -> None:
        """The keeper journalled an end (`found`): pass it on; it is repeated until acknowledged. `begun` is what was
        noted of a start that nobody was told of."""
        key = key_of(name)
        if begun is not None and key in self.state.running:
            self.attempts.started(key, begun)
        await self.steps.job_ended(*key)
        found = found or self.journal.end_of(name)
        if found is not None and key in self.state.running:
            found = await self.staging.after(name, self.attempts.start_of(key), found)
        if found is not None and key in self.state.running:
            found = await self.hooks.after(name, self.attempts.start_of(key), found)
        if found is not None and key not in self.state.ended:
            recipe = self.attempts.start_of(key)["recipe"]
            if recipe.get("mps"):
                self.background.start(self.mps.end(name, recipe))
            started = self.attempts.confirmation(key) if begun is not None else None
            await self.send(al.Ended(self.attempts.ended(key, self.sampler.measured(key, found)), started))

    def why_stopped(self, name: str) -> str | None:
        """The reason of a stop that stands against an attempt; None where it may go on."""
        return self.attempts.why_stopped(key_of(name))

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
        order["name"] = name_of(key)
        self.attempts.stand(key, order)
        self.keeper.order(**order)

    async def serve(self) -> None:
        """One connection's life."""
        async with Link(self.config) as link:
            await link.send(self.hello())
            self.state.told = set(self.state.ended)
            background = Background()
            try:
                async for bodies in link.frames():
                    for body in bodies:
                        if isinstance(body, al.AgentWelcome):
                            await self.welcomed(link, body, background)
                        else:
                            await self.handle(body)
                    await self.starts.settle()
            finally:
                if self.link is not None:
                    self.heard = time.monotonic() - SILENCE_S
                self.link = None
                background.cancel()

    async def welcomed(self, link: Link, body: al.AgentWelcome, background: Background) -> None:
        """The controller accepts us; `background` is for what lasts as long as the connection."""
        if body.refused:
            raise Refused("refused", body.refused)
        self.obey(body.epoch)
        self.policies.told(body)
        self.link = link
        background.start(
            self.heartbeats(link, body.heartbeat_s),
            self.samples(link, body.sample_s),
            self.watch.run(link.send),
            link.serve_streams(self.streams, body.streams_key),
        )
        log.info("connected to %s, epoch %s", body.cluster, body.epoch)
        for key in list(self.state.running):
            await self.tell_started(key)

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
            jobs = await asyncio.to_thread(job_processes, self.attempts.held())
            sample = await asyncio.to_thread(self.sampler.sample, int(time.time()), jobs)
            await link.send(al.SampleReport(msgspec.structs.replace(sample, node=self.config.node)))
            await reaper.take(sample)
            if self.sampler.inventory != known:
                known = self.sampler.inventory
                await link.send(al.InventoryReport(known))
            await asyncio.sleep(every_s)

    async def handle(self, body: al.ToAgent) -> None:
        """Carry out one order. Starts wait for each other, and nothing that comes after them overtakes them."""
        try:
            if not isinstance(body, al.Launch):
                await self.starts.settle()
            await self._handle(body)
        except Exception:
            # One bad order must not end the agent.
            log.exception("could not carry out %s", type(body).__name__)

    async def _handle(self, body: al.ToAgent) -> None:
        match body:
            case al.Launch():
                await self.starts.take(body)
            case al.TellTime():
                self.watch.told(body)
            case al.AckEnds():
                ends = [(one.number, one.attempt) for one in body.ends]
                self.attempts.acknowledged(ends, self.config.keep_attempts)
            case al.ReadFile():
                self.background.start(self.read_file(body))
            case al.AckSteps():
                self.steps.acknowledged(body.ends)
            case al.StopStep() if self.state.obeys(body.epoch):
                self.steps.stop(body)
            case al.Leave():
                self.background.start(self.leave(body))
            case al.Reboot() if self.state.obeys(body.epoch):
                if self.state.running:
                    await self.reboot_failed("jobs run on it")
                else:
                    self.background.start(self.rebooter.reboot(body.reason))
            case al.Stop() | al.Signal() | al.Extend() if self.state.obeys(body.epoch):
                await self.control(body)
            case _:
                log.warning("ignored %s of an older epoch", type(body).__name__)

    async def reboot_failed(self, message: str) -> None:
        """The machine is still there: the controller tells people why."""
        log.error("did not reboot: %s", message)
        await self.send(al.RebootFailed(message))

    async def serve_stream(self, stream: NodeStream, call: Any) -> None:
        """Connect a stream to what the controller wants it for."""
        if isinstance(call, ConnectStep):
            await self.steps.serve(stream, call)
        elif (call.number, call.attempt) not in self.state.running:
            raise Refused("not_running", f"job {call.number} does not run on {self.config.node}")
        elif isinstance(call, ConnectPort):
            await serve_port(stream, call)
        else:
            await serve_file(stream, call, self.link.own_address if self.link is not None else "127.0.0.1")

    async def control(self, body: al.Stop | al.Signal | al.Extend) -> None:
        """Stop, signal or extend an attempt; a stop of one that is unknown is answered as lost."""
        key = (body.number, body.attempt)
        if isinstance(body, al.Signal):
            self.keeper.order(do="signal", name=name_of(key), signal=body.signal)
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

    async def tell_started(self, key: Key) -> None:
        """Confirm a start, once it is one."""
        told = self.attempts.confirmation(key)
        if told is not None:
            await self.send(told)

    async def read_file(self, call: al.ReadFile) -> None:
        """Answer with a piece of an output, read as the job's user."""
        known = self.attempts.output_of((call.number, call.attempt), call.stream)
        path = call.path if known is None else known
        if not path:
            await self.send(al.FilePiece(call.call, "", error="this node has no output of that job"))
            return
        try:
            read = await asyncio.to_thread(
                read_as, path, call.offset, call.limit, call.user, call.uid, call.gid, call.search.encode()
            )
        except (OSError, subprocess.SubprocessError) as wrong:
            why = getattr(wrong, "strerror", "") or str(wrong)
            await self.send(al.FilePiece(call.call, path, error=f"cannot read {path}: {why}"))
            return
        at, size, data, found, searched = read
        await self.send(al.FilePiece(call.call, path, at, size, data, found=found, searched=searched))

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


def _stored_epoch(folder: Path) -> int:
    try:
        return int(json.loads((folder / "epoch.json").read_text())["epoch"])
    except FileNotFoundError:
        return 0
