"""A client's connection: requests answered as they come, and one subscription."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from msgspec import Struct

from flagplot_wire.codec import BadFrame, Decoder, encode
from flagplot_wire.errors import Refused
from flagplot_wire.replies import Failure
from flagplot_wire.requests import AnyRequest, Hello, Subscribe
from flagplot_wire.streams import StreamCredit, StreamData, StreamEnd
from flagplotd.core.state import Who
from flagplotd.service.context import Asking, Server
from flagplotd.service.handlers import HANDLERS
from flagplotd.service.relay import ClientStreams
from flagplotd.service.streams import Stream
from flagplotd.service.subscribers import Subscription, catch_up, snapshot

log = logging.getLogger("flagplotd.session")

MAX_OPEN = 256
"""Requests of one connection at work; more are read when some are answered."""
HELLO_S = 20.0


class Session:
    """Serves one client whose identity is `who`."""

    def __init__(self, server: Server, stream: Stream, who: Who) -> None:
        self._server = server
        self._stream = stream
        self._streams = ClientStreams(lambda body: stream.write(encode(body)))
        self._asking = Asking(server, who, self._streams)
        self._decoder: Decoder[Struct] = Decoder(AnyRequest)
        self._open = asyncio.Semaphore(MAX_OPEN)
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None
        self._pump: asyncio.Task[None] | None = None
        self._greeted = False

    async def serve(self) -> None:
        """Until the client leaves or sends what is no frame."""
        try:
            while True:
                wait = None if self._greeted else HELLO_S
                async with asyncio.timeout(wait):
                    data = await self._stream.read()
                if not data:
                    return
                for call, body in self._decoder.feed(data):
                    await self._take(call, body)
        except TimeoutError:
            log.info("a client said nothing for %s s", HELLO_S)
        except Refused as refused:
            self._fail(0, refused)
            await self._stream.drain()
        finally:
            self._end()

    def _end(self) -> None:
        for task in (*self._tasks, *([self._pump] if self._pump else [])):
            task.cancel()
        if self._subscription is not None:
            self._server.loop.hub.subscriptions.discard(self._subscription)
        self._streams.close()
        self._server.claims.leave(self._asking)
        self._stream.close()

    async def _take(self, call: int, body: Struct | Refused) -> None:
        if isinstance(body, Refused):
            self._fail(call, body)
            return
        if not self._greeted and not isinstance(body, Hello):
            raise BadFrame("the first frame of a client must be its hello")
        if isinstance(body, (StreamData, StreamCredit, StreamEnd)):
            self._streams.take(body)
            return
        if isinstance(body, Subscribe):
            await self._subscribe(body)
            return
        await self._open.acquire()
        task = asyncio.create_task(self._answer(call, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if isinstance(body, Hello):
            await task

    async def _answer(self, call: int, body: Struct) -> None:
        try:
            reply = await HANDLERS[type(body)](self._asking, body)
            self._stream.write(encode(reply, call))
            self._greeted = self._greeted or isinstance(body, Hello)
            await self._stream.drain()
        except Refused as refused:
            self._fail(call, refused)
        except Exception:
            log.exception("a defect: %s failed", type(body).__name__)
            self._fail(call, Refused("internal", "the controller met a defect and did nothing", "see its log"))
        finally:
            self._open.release()

    def _fail(self, call: int, refused: Refused) -> None:
        self._stream.write(encode(Failure(refused.code, refused.message, refused.hint), call))

    async def _subscribe(self, request: Subscribe) -> None:
        hub = self._server.loop.hub
        if self._subscription is not None:
            hub.subscriptions.discard(self._subscription)
        if self._pump is not None:
            self._pump.cancel()
        subscription = Subscription(request.telemetry)
        self._subscription = subscription
        self._pump = asyncio.create_task(self._feed(subscription, request))

    async def _feed(self, subscription: Subscription, request: Subscribe) -> None:
        """Send the beginning, then what is pushed; begin afresh when the client fell too far behind."""
        try:
            await self._send_all(await self._beginning(subscription, request))
            while True:
                frame = subscription.take()
                if frame is not None:
                    self._stream.write(frame)
                    await self._stream.drain()
                elif subscription.stale:
                    log.info("a subscriber of %s fell behind: a fresh snapshot", self._asking.who.user)
                    await self._send_all(await self._beginning(subscription, Subscribe()))
                else:
                    await subscription.ready.wait()
        except Exception:
            log.exception("a subscription ended")
            self._stream.close()

    async def _beginning(self, subscription: Subscription, request: Subscribe) -> Iterator[Struct]:
        loop = self._server.loop
        await loop.settled()
        subscription.clear()
        subscription.stale = False
        loop.hub.subscriptions.add(subscription)
        samples = loop.hub.samples.values() if subscription.telemetry else ()
        if loop.hub.progress is not None:
            subscription.offer(encode(loop.hub.progress))
        if request.epoch == loop.state.epoch and request.after >= 0:
            missed = loop.hub.missed(request.after, loop.state.seq)
            if missed is not None:
                return catch_up(loop.state, missed, request.after, samples)
        return snapshot(loop.state, samples)

    async def _send_all(self, parts: Iterator[Struct]) -> None:
        for part in parts:
            self._stream.write(encode(part))
            await self._stream.drain()
            await asyncio.sleep(0)
