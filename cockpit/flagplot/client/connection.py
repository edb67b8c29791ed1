"""A connection to a controller: frames over a unix socket, an SSH channel or an inherited socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Protocol

from flagplot.client.streams import Streams
from flagplot.client.target import Target
from flagplot_wire import PROTOCOL_VERSION, __version__, replies, requests
from flagplot_wire.codec import BadBody, Decoder, UnknownKind, encode
from flagplot_wire.errors import Refused
from flagplot_wire.streams import StreamCredit, StreamData, StreamEnd

ANSWER_S = 60.0
START_HINT = "start it with `flagplot up`, or choose another cluster with --data-dir or --cluster"


class Stream(Protocol):
    """What carries the bytes."""

    async def read(self) -> bytes:
        """Some bytes; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Send all."""

    def send(self, data: bytes) -> None:
        """Send without waiting, for what is limited otherwise."""

    async def close(self) -> None:
        """Let go."""


class SocketStream:
    """A unix socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        """Some bytes; empty at the end."""
        return await self._reader.read(65_536)

    async def write(self, data: bytes) -> None:
        """Send all."""
        self._writer.write(data)
        await self._writer.drain()

    def send(self, data: bytes) -> None:
        """Send without waiting, for what is limited otherwise."""
        self._writer.write(data)

    async def close(self) -> None:
        """Let go."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            # The other side was first: closed is what was wanted.
            return


class Connection:
    """One connection, after hello. `welcome` tells who we are; `closed` is set when it is over."""

    def __init__(self, stream: Stream, on_push: Callable[[Any], None] | None = None) -> None:
        self._stream = stream
        self._on_push = on_push
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._calls = 0
        self._reader: asyncio.Task[None] | None = None
        self.welcome: replies.Welcome | None = None
        self.closed = asyncio.Event()
        self.problem = ""
        self.streams = Streams(lambda body: self._stream.send(encode(body)))

    @classmethod
    async def open(cls, target: Target, on_push: Callable[[Any], None] | None = None) -> Connection:
        """Connect and say hello; raises `Refused` (no_controller, host_key, wrong_key, wrong_version)."""
        connection = cls(await open_stream(target), on_push)
        connection._reader = asyncio.create_task(connection._read())
        try:
            welcome = await connection.ask(requests.Hello(PROTOCOL_VERSION, __version__, "flagplot"))
        except BaseException:
            await connection.close()
            raise
        if not isinstance(welcome, replies.Welcome):
            await connection.close()
            raise Refused("protocol", "the controller did not answer hello with a welcome")
        connection.welcome = welcome
        return connection

    async def ask(self, request: requests.AnyRequest) -> replies.Reply:
        """Send and wait for the reply; a failure is raised as `Refused`."""
        if self.closed.is_set():
            raise Refused("no_controller", self.problem or "the connection to the controller is lost", START_HINT)
        self._calls += 1
        call = self._calls
        done: asyncio.Future[replies.Reply] = asyncio.get_running_loop().create_future()
        self._waiting[call] = done
        try:
            await self._stream.write(encode(request, call))
            reply = await asyncio.wait_for(done, ANSWER_S)
        except TimeoutError as late:
            raise Refused("no_controller", f"the controller did not answer within {ANSWER_S:.0f} s") from late
        except OSError as wrong:
            raise Refused("no_controller", f"the connection to the controller is lost: {wrong}", START_HINT) from wrong
        finally:
            self._waiting.pop(call, None)
        if isinstance(reply, replies.Failure):
            raise Refused(reply.code, reply.message, reply.hint)
        return reply

    async def tell(self, request: requests.AnyRequest) -> None:
        """Send a request that is answered by pushes alone (`Subscribe`)."""
        try:
            await self._stream.write(encode(request))
        except OSError as wrong:
            raise Refused("no_controller", f"the connection to the controller is lost: {wrong}", START_HINT) from wrong

    async def _read(self) -> None:
        decoder: Decoder[Any] = Decoder(replies.Reply | replies.Push, trusted=True)
        try:
            while data := await self._stream.read():
                for call, body in decoder.feed(data):
                    self._take(call, body)
            self.problem = "the controller closed the connection"
        except (OSError, Refused, EOFError) as wrong:
            self.problem = f"the connection to the controller is lost: {wrong}"
        finally:
            self.closed.set()
            self.streams.lost(Refused("no_controller", self.problem or "the connection was closed", START_HINT))
            for done in self._waiting.values():
                if not done.done():
                    done.set_exception(
                        Refused("no_controller", self.problem or "the connection was closed", START_HINT)
                    )

    def _take(self, call: int, body: Any) -> None:
        if call == 0 and isinstance(body, replies.Failure):
            raise Refused(body.code, body.message, body.hint)
        if isinstance(body, (StreamData, StreamCredit, StreamEnd)):
            self.streams.take(body)
            return
        if call == 0:
            # A push of a kind this version does not know is for a newer one.
            if self._on_push is not None and not isinstance(body, UnknownKind):
                if isinstance(body, BadBody):
                    raise body
                self._on_push(body)
            return
        done = self._waiting.get(call)
        if done is None or done.done():
            return
        if isinstance(body, Refused):
            done.set_exception(body)
        else:
            done.set_result(body)

    async def close(self) -> None:
        """Close; waiting calls are refused."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self.closed.set()
        await self._stream.close()


async def open_stream(target: Target) -> Stream:
    """The bytes to and from a target."""
    if target.kind == "fd":
        # The descriptor is duplicated, so that a second connection attempt finds it still there.
        inherited = socket.socket(fileno=socket.dup(target.fd))
        return SocketStream(*await asyncio.open_unix_connection(sock=inherited))
    if target.kind == "node":
        try:
            reader, writer = await asyncio.open_unix_connection(target.socket)
        except OSError as wrong:
            raise Refused(
                "no_controller", f"cannot reach {target.socket}: {wrong}", "is this node's agent up?"
            ) from wrong
        writer.write(f"job {target.job}\n".encode())
        return SocketStream(reader, writer)
    if target.kind == "ssh":
        from flagplot.client.ssh import open_ssh

        return await open_ssh(target)
    assert target.data_dir is not None
    path = target.data_dir / "controller.sock"
    try:
        return SocketStream(*await asyncio.open_unix_connection(str(path)))
    except (FileNotFoundError, ConnectionRefusedError) as wrong:
        raise Refused("no_controller", f"no controller is running in {target.data_dir}", START_HINT) from wrong
    except PermissionError as wrong:
        raise Refused("wrong_key", f"{path} belongs to somebody else", "ask its admin for an SSH key") from wrong
    except OSError as wrong:
        raise Refused("no_controller", f"cannot reach {path}: {wrong}", START_HINT) from wrong
