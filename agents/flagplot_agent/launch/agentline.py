"""The keeper's socket: orders of the agent come in, starts and ends go out. Standard library only.

Messages are JSON, one object a line. An agent that was away reads in the journal what it missed.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
from pathlib import Path
from typing import Any


class AgentLine:
    """Everyone connected to the keeper (one agent, or none), on the keeper's selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.selector = selector
        self.server: socket.socket | None = None
        self.clients: dict[socket.socket, bytes] = {}
        """Connection → what came of a line that is not yet whole."""

    def listen(self, path: Path) -> None:
        """Open the socket, for its owner alone."""
        self.server = socket.socket(socket.AF_UNIX)
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        self.server.bind(str(path))
        os.umask(before)
        self.server.listen()
        self.server.setblocking(False)
        self.selector.register(self.server, selectors.EVENT_READ)

    def hear(self, ready: socket.socket) -> list[bytes]:
        """The whole lines that a ready socket brings; a new connection brings none yet."""
        if ready is self.server:
            client, _ = ready.accept()
            client.setblocking(False)
            self.clients[client] = b""
            self.selector.register(client, selectors.EVENT_READ)
            return []
        try:
            data = ready.recv(1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.drop(ready)
            return []
        *lines, self.clients[ready] = (self.clients[ready] + data).split(b"\n")
        return lines

    def tell(self, event: dict[str, Any]) -> None:
        """Tell everyone connected."""
        line = json.dumps(event).encode() + b"\n"
        for client in list(self.clients):
            try:
                client.sendall(line)
            except OSError:
                # It reads the journal when it comes back.
                self.drop(client)

    def drop(self, client: socket.socket) -> None:
        """Forget a connection."""
        self.selector.unregister(client)
        del self.clients[client]
        client.close()
