"""A step's socket to its client, on the selector of the tasks' parent. Standard library only."""

from __future__ import annotations

import selectors
import socket
import sys
from collections import deque
from collections.abc import Callable

from flagplot_wire import step_messages
from flagplot_wire.errors import Refused

HELD = 256 * 1024
"""Bytes of output that may wait for the client; then the tasks wait too."""


class ClientLine:
    """Messages go out in order as the client takes them, and come in while there is `room` for its input.

    `hear` gets a kind and a content, `relieved` is called when little waits any more, `gone` once the client is.
    """

    def __init__(
        self,
        client: socket.socket,
        selector: selectors.BaseSelector,
        room: Callable[[], bool],
        hear: Callable[[bytes, bytes], None],
        relieved: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        self._client: socket.socket | None = client
        self._selector = selector
        self._room, self._hear, self._relieved, self._gone = room, hear, relieved, gone
        self._reader = step_messages.Reader()
        self._out: deque[bytes] = deque()
        self._held = 0
        client.setblocking(False)
        self.watch()

    @property
    def here(self) -> bool:
        """True until the client is gone."""
        return self._client is not None

    @property
    def waits(self) -> bool:
        """True while something is to be sent."""
        return bool(self._out)

    @property
    def full(self) -> bool:
        """True while no more may wait for the client."""
        return self._held >= HELD

    def tell(self, data: bytes) -> None:
        """Queue a message."""
        if self._client is not None:
            self._out.append(data)
            self._held += len(data)
            self.watch()

    def watch(self) -> None:
        """Hear the client; write to it while something waits."""
        if self._client is None:
            return
        wanted = selectors.EVENT_READ if self._room() else 0
        wanted |= selectors.EVENT_WRITE if self._out else 0
        known = self._selector.get_map().get(self._client)
        if known is not None and known.events != wanted:
            self._selector.unregister(self._client)
            known = None
        if known is None and wanted:
            self._selector.register(self._client, wanted, self._talk)

    def close(self) -> None:
        """End the connection, and forget what waits."""
        if self._client is None:
            return
        if self._client in self._selector.get_map():
            self._selector.unregister(self._client)
        self._client.close()
        self._client = None
        self._out.clear()
        self._held = 0

    def _lost(self) -> None:
        self.close()
        self._gone()

    def _talk(self) -> None:
        """Send what waits, take what came."""
        if self._client is None:
            return
        try:
            while self._out:
                sent = self._client.send(self._out[0])
                self._held -= sent
                if sent < len(self._out[0]):
                    self._out[0] = self._out[0][sent:]
                else:
                    self._out.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._lost()
            return
        try:
            data = self._client.recv(65_536) if self._room() else None
        except BlockingIOError:
            data = None
        except OSError:
            data = b""
        if data == b"":
            self._lost()
            return
        try:
            for kind, content in self._reader.feed(data or b""):
                self._hear(kind, content)
        except (Refused, ValueError, KeyError, TypeError) as wrong:
            print(f"the client speaks something else: {wrong!r}", file=sys.stderr)
            self._lost()
            return
        if self._held < HELD // 2:
            self._relieved()
        self.watch()
