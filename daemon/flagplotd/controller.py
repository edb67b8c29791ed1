"""A whole controller: made from a data directory, run until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import signal
import socket
from pathlib import Path

import asyncssh

from flagplot_wire import __version__
from flagplot_wire.errors import Refused
from flagplot_wire.events import Event
from flagplot_wire.ids import Epoch
from flagplot_wire.replies import Failure
from flagplotd.config import Config
from flagplotd.core.notices import Noticing
from flagplotd.core.stimuli import Boot, Tick
from flagplotd.service import clock
from flagplotd.service.agents import Agents, AgentSettings
from flagplotd.service.claims import Claims
from flagplotd.service.context import Server
from flagplotd.service.cycle import Cycle
from flagplotd.service.dispatch import Dispatch
from flagplotd.service.local import LocalSocket
from flagplotd.service.loop import Loop
from flagplotd.service.notices import Notices
from flagplotd.service.spool import Spool
from flagplotd.ssh.server import Door
from flagplotd.store import Store

log = logging.getLogger("flagplotd")

CLOSE_S = 5.0


class Controller:
    """Opens the store, boots the core, then serves. Raises `Refused` where it cannot start."""

    def __init__(self, folder: Path, config: Config, host_key: asyncssh.SSHKey, simulated: bool = False) -> None:
        self._noticing = Noticing(config.notices.webhook_on if config.notices.webhook else ())
        self._notices = Notices(config.notices, config.settings.cluster)
        self.store = Store(folder)
        try:
            loop = Loop(self.store, config.settings)
        except BaseException:
            self.store.close()
            raise
        settings = config.settings
        agents = Agents(
            loop,
            AgentSettings(settings.cluster, config.heartbeat_s, config.sample_s, settings.kill_wait_s, config.agents),
        )
        dispatch = Dispatch(loop, agents, socket.gethostname())
        cycle = Cycle(loop, config.policy)
        loop.carry_out, loop.replan, loop.durable = dispatch, cycle.want, self._notice
        self.server = Server(
            folder=folder,
            config=config,
            loop=loop,
            agents=agents,
            dispatch=dispatch,
            cycle=cycle,
            stopping=asyncio.Event(),
            claims=Claims(loop),
            spool=Spool(folder, lambda: loop.state, config.stage_max_gib << 30),
            started=clock.now(),
            simulated=simulated,
            port=config.port,
            host_key=host_key.get_fingerprint(),
        )
        self.local = LocalSocket(self.server)
        agents.serve_client = self.local.serve_on_node
        agents.serve_stage = self.server.spool.serve_node
        self.door = Door(self.server, self.local, host_key)
        self._tasks: list[asyncio.Task[None]] = []
        self._defect: BaseException | None = None

    async def run(self) -> None:
        """Serve until `stopping` is set or a signal comes; jobs go on without the controller."""
        _more_descriptors()
        running = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            running.add_signal_handler(number, self.server.stopping.set)
        try:
            await self.open()
            await self.server.stopping.wait()
            log.info("stopping")
        finally:
            await self.close()
        if self._defect is not None:
            raise self._defect

    async def open(self) -> None:
        """Boot the core, listen, and say so in `controller.json`."""
        loop = self.server.loop
        self._work("loop", loop.run())
        config = self.server.config
        kept = loop.state.partitions and not config.names_partitions
        partitions = () if kept else config.partitions
        outcome = await loop.ask(
            Boot(Epoch(loop.state.epoch + 1), __version__, partitions, config.nodes, config.records)
        )
        if isinstance(outcome.reply, Failure) and outcome.reply.code not in ("disk_full", "unavailable"):
            raise Refused("usage", f"flagplotd.toml: {outcome.reply.message}", outcome.reply.hint)
        if outcome.reply is not None:
            raise Refused(
                "disk_full",
                f"the start could not be written to {self.store.path}: {loop.problem}",
                "free some space, then start the controller again",
            )
        self._reserve()
        await self._listen()
        await self.local.open()
        self._work("cycle", self.server.cycle.run())
        self._work("ticks", self._ticks())
        self._work("notices", self._notices.run())
        self._work("spool", self.server.spool.run())
        self._write_ready_file()
        # The modules and the state at the start stay: the collector need not look through them again and again.
        gc.freeze()
        log.info(
            "flagplotd %s: cluster %s, epoch %d, %d live jobs, port %d",
            __version__,
            loop.state.settings.cluster,
            loop.state.epoch,
            len(loop.state.pending) + len(loop.state.active),
            self.server.port,
        )

    def _reserve(self) -> None:
        try:
            self.store.reserve.take()
        except OSError as wrong:
            log.warning("no room for the reserve file: %s", wrong.strerror)

    async def _listen(self) -> None:
        """A free port is the one of last time where that is still free, so that clients find it again."""
        wanted = self.server.port
        if wanted == 0:
            self.server.port = int(self.store.noted("port") or 0)
        try:
            self.server.port = await self.door.open()
        except Refused:
            if wanted or not self.server.port:
                raise
            self.server.port = 0
            self.server.port = await self.door.open()
        await self.store.note("port", str(self.server.port))

    def _work(self, name: str, work: object) -> None:
        assert asyncio.iscoroutine(work)
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.critical("the controller's %s failed", task.get_name(), exc_info=task.exception())
            self._defect = task.exception()
            self.server.stopping.set()

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.server.loop.post(Tick())
            self.server.loop.hub.push_samples()
            self.server.claims.look()
            self._notices.put(self._noticing.due(self.server.state, clock.now()))

    def _notice(self, events: list[Event]) -> None:
        self._notices.put(self._noticing.of(self.server.state, events))

    def _write_ready_file(self) -> None:
        server = self.server
        content = {
            "pid": os.getpid(),
            "port": server.port,
            "host": server.config.host,
            "started": server.started,
            "cluster": server.state.settings.cluster,
            "simulated": server.simulated,
            "epoch": int(server.state.epoch),
        }
        fresh = server.folder / "controller.json.new"
        fresh.write_text(json.dumps(content) + "\n")
        fresh.rename(server.folder / "controller.json")

    async def close(self) -> None:
        """Stop listening, finish the transaction under way, close the store."""
        (self.server.folder / "controller.json").unlink(missing_ok=True)
        await self.local.close()
        await self.server.agents.close()
        await self.door.close()
        self.server.dispatch.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=CLOSE_S)
            for task in stuck:
                log.error("the controller's %s does not end", task.get_name())
        self.server.cycle.close()
        self.store.close()
        log.info("stopped; running jobs go on")


def _more_descriptors() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
