"""The agent's line to the controller: dials, speaks frames, dials again."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

import asyncssh

from flagplot_agent.config import Config
from flagplot_agent.steps.streams import Streams
from flagplot_wire.agentlink import Ended, FromAgent, Started, ToAgent
from flagplot_wire.codec import Decoder, encode
from flagplot_wire.errors import Refused

log = logging.getLogger("flagplot-agent")
CIPHERS = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com"]
"""The cheapest first: the last one costs three times as much for each of our short frames."""
WAITS: dict[type, float] = {Started: 0.02, Ended: 0.002}
"""Seconds that a frame may wait for others: the start of a very short job for its end, an end for those of others."""
LOGIN = "agent"
SUBSYSTEM = "flagplot-agent"


class Link:
    """One connection; `async with Link(config) as link`, then `send` and `frames`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._connection: asyncssh.SSHClientConnection | None = None
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
        self._unsent = bytearray()
        self._flushing: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Link:
        host, port = address(self._config)
        host_key = asyncssh.read_public_key(str(self._config.host_key))
        self._connection = await asyncssh.connect(
            host,
            port,
            username=LOGIN,
            client_keys=[str(self._config.key)],
            known_hosts=([host_key], [], []),
            agent_path=None,
            config=None,
            compression_algs=None,
            encryption_algs=CIPHERS,
            keepalive_interval=10,
            keepalive_count_max=3,
            login_timeout=20,
            connect_timeout=10,
        )
        self._process = await self._connection.create_process(subsystem=SUBSYSTEM, encoding=None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        if self._connection is not None:
            self._connection.abort() if error else self._connection.close()
            await self._connection.wait_closed()

    async def send(self, body: FromAgent) -> None:
        """Send one frame; confirmations of starts and ends may wait a moment for others to go with them."""
        assert self._process is not None
        self._unsent += encode(body)
        wait = WAITS.get(type(body), 0.0)
        if wait:
            self._flush_within(wait)
            return
        self._flush()
        await self._process.stdin.drain()

    def _flush_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._flushing is not None:
            if self._flushing.when() <= loop.time() + seconds:
                return
            self._flushing.cancel()
        self._flushing = loop.call_later(seconds, self._flush)

    @property
    def own_address(self) -> str:
        """The address of this node by which it reaches the controller."""
        assert self._connection is not None
        return str(self._connection.get_extra_info("sockname")[0])

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if self._process is not None and not self._process.is_closing():
            self._process.stdin.write(bytes(self._unsent))
        self._unsent.clear()

    async def serve_streams(self, streams: Streams, key: str) -> None:
        """Carry streams on a second channel, where the controller knows of them."""
        assert self._connection is not None
        if key:
            await streams.run(self._connection, self._config.node, key)

    async def frames(self) -> AsyncIterator[list[ToAgent]]:
        """Frames, as many as came together, until the controller closes. One of an unknown kind is skipped; raises
        `BadFrame` on garbage."""
        assert self._process is not None
        decoder: Decoder[Any] = Decoder(ToAgent, trusted=True)
        while data := await self._process.stdout.read(65_536):
            found = [body for _, body in decoder.feed(data)]
            for body in found:
                if isinstance(body, Refused):
                    log.warning("ignored a frame of the controller: %s", body.message)
            yield [body for body in found if not isinstance(body, Refused)]

    def close(self) -> None:
        """End the connection; `frames` ends."""
        self._flush()
        if self._connection is not None:
            self._connection.close()


def address(config: Config) -> tuple[str, int]:
    """Where the controller listens now; raises `Refused` while it is not running."""
    if config.controller_file is not None and config.controller_file.exists():
        found = json.loads(config.controller_file.read_text())
        return str(found.get("host") or config.host), int(found["port"])
    if config.port == 0:
        raise Refused("no_controller", f"the controller is not running: there is no {config.controller_file}")
    return config.host, config.port
