"""Files that come with a job are put on the node before anything of it starts; those it leaves are sent after its end.

What was done is noted in the attempt's journal, as hooks do. A controller that is away is waited for; what the job's user
may not do, or names wrongly, ends the attempt (before it starts) or is told with its end.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
import time
from collections.abc import Awaitable, Callable
from typing import Any

from flagplot_agent.background import Background
from flagplot_agent.hooks.hooks import Hooks
from flagplot_agent.launch.journal import Journal
from flagplot_agent.launch.recipe import Account
from flagplot_agent.steps.files import send_file, serve_file
from flagplot_agent.steps.streams import NodeStream, Streams
from flagplot_wire.agentlink import Launch
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Transfer
from flagplot_wire.patterns import Fields, expand_pattern
from flagplot_wire.streams import ConnectFile, StageFile

log = logging.getLogger("flagplot-agent")
RETRY_S = 1.0
AGAIN = ("unavailable", "gone", "protocol")
"""Refusals that pass: the connection, the controller or its disk."""


def transfers(launch: Launch, account: Account, node: str) -> dict[str, Any]:
    """What an attempt's start notes of its transfers: the paths on this node, by their index."""
    spec = launch.spec
    if not spec.stage_in and not spec.stage_out:
        return {}
    fields = Fields(
        launch.number, spec.name, launch.user, node, launch.array_number, launch.array_index, launch.restarts,
        launch.node_index,
    )  # fmt: skip

    def here(pattern: str) -> str:
        return posixpath.join(spec.work_dir, expand_pattern(pattern, fields))

    def paths(found: tuple[Transfer, ...], inwards: bool) -> list[str]:
        return [here(one.target if inwards else one.source) for one in found]

    return {
        "stage_in": paths(spec.stage_in, True),
        "stage_out": paths(spec.stage_out, False) if launch.node_index == 0 else [],
        "stage_as": [account.name, account.uid, account.gid],
    }


class Staging:
    """The transfers of one agent's attempts. Arguments are as those of `Hooks`, which go on with a start."""

    def __init__(
        self,
        journal: Journal,
        streams: Streams,
        hooks: Hooks,
        stopped: Callable[[str], str | None],
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        self._journal = journal
        self._streams = streams
        self._hooks = hooks
        self._stopped = stopped
        self._ended = ended
        self._busy: set[str] = set()
        self._background = Background()

    def busy(self, name: str) -> bool:
        """True while files of an attempt are on their way here."""
        return name in self._busy

    def owed(self, name: str, start: dict[str, Any]) -> bool:
        """True while an attempt that ended has files to be sent."""
        return bool(start.get("stage_out")) and not self._journal.done(name, "sent")

    def start(self, name: str, start: dict[str, Any]) -> None:
        """Go on with a start, when the files are here. Calling it again does no harm."""
        if not start.get("stage_in") or self._journal.done(name, "staged"):
            self._hooks.start(name, start)
        elif name not in self._busy:
            self._busy.add(name)
            self._background.start(self._before(name, start))

    async def _before(self, name: str, start: dict[str, Any]) -> None:
        end: dict[str, Any] = {"cause": "stopped"}
        try:
            for index, path in enumerate(start["stage_in"]):
                await self._patiently(name, start, "in", index, path)
            reason = self._stopped(name)
            if reason is None:
                self._journal.note_done(name, "staged")
                self._hooks.start(name, start)
                return
            end["message"] = reason
        except Refused as refused:
            if refused.code == "stopped":
                end["message"] = refused.message
            else:
                end = {"cause": "launch_failed", "message": f"user: stage-in: {refused.message}"}
        except OSError as wrong:
            end = {"cause": "launch_failed", "message": f"stage-in: {wrong.strerror}"}
        finally:
            self._busy.discard(name)
        await self._hooks.write_end(name, {**end, "time": int(time.time())})
        await self._ended(name)

    async def after(self, name: str, start: dict[str, Any], found: dict[str, Any]) -> dict[str, Any] | None:
        """Send what the job leaves; returns its end with what went wrong, None where that is being done already."""
        if not self.owed(name, start):
            return found
        if name in self._busy:
            return None
        self._busy.add(name)
        wrong = []
        try:
            # An attempt of which nothing started has left nothing.
            left = [] if found["cause"] in ("launch_failed", "lost") else start["stage_out"]
            for index, path in enumerate(left):
                try:
                    told = await self._patiently(name, start, "out", index, path)
                except Refused as refused:
                    told = refused.message
                wrong += [f"stage-out: {told}"] if told else []
            if wrong:
                found = {**found, "message": "; ".join(filter(None, [found.get("message", ""), *wrong]))}
                self._journal.end(name, found)
            self._journal.note_done(name, "sent")
        except OSError as failed:
            log.error("the transfers after %s could not be noted: %s", name, failed)
        finally:
            self._busy.discard(name)
        return found

    async def _patiently(self, name: str, start: dict[str, Any], direction: Any, index: int, path: str) -> str:
        """One transfer, again while the controller is away; returns what is to be told of it; raises `Refused`."""
        told = ""
        while True:
            reason = self._stopped(name)
            if reason is not None and direction == "in":
                raise Refused("stopped", reason)
            once = asyncio.create_task(self._once(name, start, direction, index, path))
            while direction == "in" and not once.done() and self._stopped(name) is None:
                await asyncio.wait((once,), timeout=RETRY_S)
            if direction == "in" and not once.done():
                once.cancel()
                await asyncio.gather(once, return_exceptions=True)
                continue
            try:
                return await once
            except Refused as refused:
                if refused.code not in AGAIN:
                    raise
                if refused.message != told:
                    told = refused.message
                    log.warning("job %s, stage-%s of %s: %s; trying again", name, direction, path, told)
                await asyncio.sleep(RETRY_S)

    async def _once(self, name: str, start: dict[str, Any], direction: Any, index: int, path: str) -> str:
        number, attempt = (int(part) for part in name.split("."))
        user, uid, gid = start["stage_as"]
        job = JobNumber(number)
        stream: NodeStream = self._streams.begin(lambda one: StageFile(one, job, attempt, direction, index))
        call = ConnectFile(stream.number, job, attempt, user, uid, gid, "write" if direction == "in" else "read", path)
        try:
            if direction == "in":
                await serve_file(stream, call, "")
                stream.finish()
                return ""
            return await send_file(stream, call)
        finally:
            self._streams.forget(stream)
