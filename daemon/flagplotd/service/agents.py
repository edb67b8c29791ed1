"""Agents' connections: who they are, what they report, what they are told."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import Callable, Collection

from msgspec import Struct

from flagplot_wire import PROTOCOL_VERSION, agentlink
from flagplot_wire.codec import BadFrame, Decoder, encode
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job
from flagplot_wire.steps import StepEnd
from flagplot_wire.streams import FromStreams, ServeClient, StageFile, StreamsHello
from flagplot_wire.text import clean
from flagplotd.core import stimuli as st
from flagplotd.service import clock
from flagplotd.service.cleaning import cleaned
from flagplotd.service.loop import Loop
from flagplotd.service.relay import NodeStreams
from flagplotd.service.sizes import size_of
from flagplotd.service.streams import Stream
from flagplotd.service.told import Told

log = logging.getLogger("flagplotd.agents")

HELLO_S = 20.0
READ_S = 15.0
"""For an agent to answer a read of an output file."""
NOTE_LETTERS = 500
MAX_INVENTORY = 1024 * 1024
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class AgentSettings(Struct, frozen=True):
    """What agents are told when they are accepted."""

    cluster: str = "flagplot"
    heartbeat_s: int = 5
    sample_s: int = 2
    kill_wait_s: int = 30
    policies: dict[str, str] = {}
    """By the names of `node_policy`."""


class Link:
    """One connected agent."""

    def __init__(self, stream: Stream, hello: agentlink.AgentHello) -> None:
        self.stream = stream
        self.node = hello.node
        self.version = hello.version
        self.pid = hello.pid
        self.user = hello.user
        self.heard = clock.ticks()
        self.last_seen = clock.now()
        self.streams_key = secrets.token_hex(16)
        self.streams: NodeStreams | None = None
        self.calls: dict[int, asyncio.Future[agentlink.FilePiece]] = {}
        self._unsent = bytearray()

    def send(self, body: Struct) -> None:
        """Send one frame, together with all others of this turn of the loop."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += encode(body)

    def _flush(self) -> None:
        if self._unsent:
            self.stream.write(bytes(self._unsent))
            self._unsent.clear()

    def close(self) -> None:
        """End the connection and what waits for it."""
        self._flush()
        self.stream.close()
        if self.streams is not None:
            self.streams.close()
        for call in self.calls.values():
            if not call.done():
                call.set_exception(Refused("unavailable", f"the agent of {self.node} left while it was asked"))


class Agents:
    """All agents. Orders for a node whose agent is away are dropped: the core gives them again when it joins."""

    def __init__(self, loop: Loop, settings: AgentSettings) -> None:
        self._loop = loop
        self._settings = settings
        self._calls = itertools.count(1)
        self.serve_client: Callable[[NodeStreams, ServeClient], None] = lambda _node, _wish: None
        self.serve_stage: Callable[[NodeStreams, StageFile], None] = lambda _node, _wish: None
        self.links: dict[str, Link] = {}
        self.told = Told()
        self.last_seen: dict[str, int] = {}
        self._pids: dict[str, int] = {}

    def send(self, node: str, body: Struct) -> bool:
        """Send a frame to a node's agent; False when it is not connected."""
        link = self.links.get(node)
        if link is None:
            return False
        link.send(body)
        return True

    async def serve(self, stream: Stream, allowed: Collection[str]) -> None:
        """Serve one agent until it leaves. `allowed` are the node names its key may use (`*`: any)."""
        decoder: Decoder[Struct] = Decoder(agentlink.FromAgent)
        link: Link | None = None
        try:
            async with asyncio.timeout(HELLO_S):
                hello, rest = await self._hello(stream, decoder)
            if hello is None:
                return
            refused = self._why_not(hello, allowed)
            if refused:
                log.warning("refused an agent for %r: %s", clean(hello.node), refused)
                stream.write(encode(self._welcome(refused)))
                await stream.drain()
                return
            link = await self._accept(stream, hello)
            await self._listen(link, decoder, rest)
        except (Refused, TimeoutError) as wrong:
            log.warning("an agent's connection ended: %s", wrong or "it said nothing in time")
        finally:
            if link is not None:
                self._leave(link)
            stream.close()

    async def serve_streams(self, stream: Stream) -> None:
        """Serve the second channel of an agent, which carries its streams; its key ties it to the first one."""
        decoder: Decoder[Struct] = Decoder(FromStreams)
        try:
            async with asyncio.timeout(HELLO_S):
                frames: list[tuple[int, Struct | Refused]] = []
                while not frames and (data := await stream.read()):
                    frames = decoder.feed(data)
            hello = frames[0][1] if frames else None
            link = self.links.get(hello.node) if isinstance(hello, StreamsHello) else None
            if link is None or not isinstance(hello, StreamsHello) or hello.key != link.streams_key:
                log.warning("refused a channel for streams that no agent was told to open")
                return
            if link.streams is not None:
                link.streams.close()
            link.streams = NodeStreams(link.node, stream, self)
            await link.streams.run(decoder, frames[1:])
        except (Refused, TimeoutError) as wrong:
            log.warning("a channel for streams ended: %s", wrong or "it said nothing in time")
        finally:
            stream.close()

    async def _hello(
        self, stream: Stream, decoder: Decoder[Struct]
    ) -> tuple[agentlink.AgentHello | None, list[tuple[int, Struct | Refused]]]:
        while data := await stream.read():
            frames = decoder.feed(data)
            if frames:
                first = frames[0][1]
                if not isinstance(first, agentlink.AgentHello):
                    raise BadFrame("the first frame of an agent must be its hello")
                return first, frames[1:]
        return None, []

    def _why_not(self, hello: agentlink.AgentHello, allowed: Collection[str]) -> str:
        node = hello.node
        if hello.protocol != PROTOCOL_VERSION:
            return (
                f"the agent speaks protocol {hello.protocol}, the controller {PROTOCOL_VERSION}: update the older one"
            )
        if not NODE_NAME.fullmatch(node):
            return f"{clean(node)[:80]!r} is no node name: use letters, digits, '.', '-' and '_'"
        if size_of(hello.inventory) > MAX_INVENTORY:
            return "its inventory is larger than 1 MiB"
        if "*" not in allowed and node not in allowed:
            return f"this key may not speak for node {node}, only for {', '.join(sorted(allowed)) or 'none'}"
        if hello.epoch > self._loop.state.epoch:
            return (
                f"the agent has obeyed a later controller (epoch {hello.epoch}) than this one "
                f"({self._loop.state.epoch}): this store is an old copy"
            )
        old = self.links.get(node)
        if old is not None and clock.ticks() - old.heard < 1.5 * self._settings.heartbeat_s:
            return f"another agent speaks for node {node} already (pid {old.pid})"
        return ""

    def _welcome(self, refused: str = "", streams_key: str = "") -> agentlink.AgentWelcome:
        own = self._settings
        return agentlink.AgentWelcome(
            self._loop.state.epoch,
            own.cluster,
            own.heartbeat_s,
            own.sample_s,
            own.kill_wait_s,
            refused,
            streams_key,
            **own.policies,
        )

    async def _accept(self, stream: Stream, hello: agentlink.AgentHello) -> Link:
        old = self.links.get(hello.node)
        if old is not None:
            old.close()
        link = Link(stream, hello)
        self.links[hello.node] = link
        link.send(self._welcome(streams_key=link.streams_key))
        joined = st.AgentJoined(
            hello.node,
            cleaned(hello.inventory),
            clean(hello.version)[:64],
            hello.running,
            tuple(cleaned(end) for end in hello.ended),
        )
        outcome = await self._loop.ask(joined)
        if outcome.reply is not None:
            self._leave(link)
            raise Refused("unavailable", f"the arrival of {hello.node} could not be written down")
        self._steps_of_another(link)
        log.info("node %s joined (agent %s, pid %d)", link.node, link.version, link.pid)
        return link

    def _steps_of_another(self, link: Link) -> None:
        """Steps end with their agent: one that comes in its place cannot tell how."""
        before, self._pids[link.node] = self._pids.get(link.node, link.pid), link.pid
        if before == link.pid:
            return
        for step in [one for running in self._loop.state.steps.values() for one in running.values()]:
            if any(part.node == link.node for part in step.parts):
                why = f"the agent of {link.node} was restarted"
                end = StepEnd(step.number, step.attempt, step.step, link.node, "lost", 1, message=why)
                self._loop.post(st.StepPartEnded(link.node, end))

    def _leave(self, link: Link) -> None:
        link.close()
        if self.links.get(link.node) is link:
            del self.links[link.node]
            self.last_seen[link.node] = link.last_seen
            self._loop.post(st.AgentLost(link.node))
            log.warning("node %s left", link.node)

    async def _listen(self, link: Link, decoder: Decoder[Struct], frames: list[tuple[int, Struct | Refused]]) -> None:
        silence = 3.0 * self._settings.heartbeat_s
        while True:
            for _, body in frames:
                if isinstance(body, Refused):
                    log.warning("node %s: %s", link.node, body.message)
                else:
                    self._take(link, body)
            await link.stream.drain()
            try:
                async with asyncio.timeout(silence):
                    data = await link.stream.read()
            except TimeoutError:
                raise Refused("unavailable", f"node {link.node} was silent for {silence:.0f} s") from None
            if not data:
                return
            link.heard, link.last_seen = clock.ticks(), clock.now()
            frames = decoder.feed(data)

    def _take(self, link: Link, body: Struct) -> None:
        match body:
            case agentlink.Heartbeat():
                self._loop.post(st.Reported(link.node, body.running))
            case agentlink.SampleReport():
                if body.sample.node == link.node and size_of(body.sample) <= MAX_INVENTORY:
                    self._loop.hub.sampled(cleaned(body.sample))
            case agentlink.InventoryReport() if size_of(body.inventory) <= MAX_INVENTORY:
                self._loop.post(st.InventoryChanged(link.node, cleaned(body.inventory)))
            case agentlink.HealthReport() if size_of(body) <= MAX_INVENTORY:
                self._loop.post(st.Checked(link.node, cleaned(body).reasons, body.resume))
            case agentlink.RebootFailed():
                self._loop.post(st.RebootFailed(link.node, clean(body.message)[:NOTE_LETTERS]))
            case agentlink.AskTime():
                link.send(agentlink.TellTime(body.call, clock.now()))
            case agentlink.Started():
                self.told.started(link.node, body)
                self._loop.post(st.AttemptStarted(link.node, body.number, body.attempt, body.time))
            case agentlink.JobNoted():
                message = clean(body.message)[:NOTE_LETTERS]
                self._loop.post(st.AttemptNoted(link.node, body.number, body.attempt, message))
            case agentlink.StepEnded():
                self._loop.post(st.StepPartEnded(link.node, cleaned(body.end)))
            case agentlink.Ended():
                if body.started is not None:
                    self.told.started(link.node, body.started)
                self._loop.post(st.AttemptEnded(link.node, cleaned(body.end)))
            case agentlink.FilePiece():
                call = link.calls.pop(body.call, None)
                if call is not None and not call.done():
                    call.set_result(body)

    async def read_file(
        self, node: str, job: Job, stream: str, offset: int, limit: int, search: str = ""
    ) -> agentlink.FilePiece:
        """A piece of a job's output from its node, or that around a text searched for; raises `Refused`."""
        link = self.links.get(node)
        if link is None:
            raise Refused("unavailable", f"node {node}, which has the output, is not connected", "try again later")
        stdout, stderr = self.told.paths(job.number, job.status.attempt)
        call = next(self._calls)
        answer: asyncio.Future[agentlink.FilePiece] = asyncio.get_running_loop().create_future()
        link.calls[call] = answer
        link.send(
            agentlink.ReadFile(
                call=call,
                number=job.number,
                attempt=job.status.attempt,
                stream="stderr" if stream == "stderr" else "stdout",
                path=stderr if stream == "stderr" else stdout,
                user=job.user,
                uid=job.uid,
                gid=job.gid,
                offset=offset,
                limit=limit,
                search=search,
            )
        )
        try:
            async with asyncio.timeout(READ_S):
                piece = await answer
        except TimeoutError:
            raise Refused("unavailable", f"node {node} did not answer within {READ_S:.0f} s", "try again") from None
        finally:
            link.calls.pop(call, None)
        if piece.error:
            raise Refused("no_output", clean(piece.error))
        return piece

    async def close(self) -> None:
        """Say goodbye to all agents; they keep their jobs and dial again."""
        for link in list(self.links.values()):
            link.close()
        self.links.clear()
