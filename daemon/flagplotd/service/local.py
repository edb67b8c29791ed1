"""The unix socket: commands on the controller's own host, known by the kernel's peer credentials."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

from flagplot_wire.streams import MAX_STREAMS, ServeClient, StreamEnd
from flagplotd.core.apply import holds
from flagplotd.core.state import Who
from flagplotd.service.context import Server
from flagplotd.service.identity import who_is_uid
from flagplotd.service.relay import NodeClient, NodeStreams
from flagplotd.service.session import Session
from flagplotd.service.streams import SocketStream

log = logging.getLogger("flagplotd.local")

MAX_PATH = 107
"""Bytes of a unix socket's path, by the kernel."""
_CREDENTIALS = struct.Struct("3i")


class LocalSocket:
    """Listens on `controller.sock` in the data directory."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.path = server.folder / "controller.sock"
        self._listening: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin to listen; where the path is too long for a socket, say so and go on without."""
        if len(str(self.path).encode()) > MAX_PATH:
            log.warning("%s is too long for a unix socket: commands here use SSH", self.path)
            return
        self.path.unlink(missing_ok=True)
        self._listening = await asyncio.start_unix_server(self._connected, self.path)
        self.path.chmod(0o666)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        _, uid, gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        who = who_is_uid(uid, gid, self._server.config, self._server.folder)
        self._follow(Session(self._server, SocketStream(reader, writer), who))

    def _follow(self, session: Session) -> None:
        task = asyncio.create_task(session.serve())
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)

    async def pair(self, who: Who) -> socket.socket:
        """A connected socket for a child process; its other end is served as `who`."""
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        self._follow(Session(self._server, SocketStream(reader, writer), who))
        return theirs

    def serve_on_node(self, node: NodeStreams, wish: ServeClient) -> None:
        """A process of a job on a node is served as the job's user, without further roles: its agent vouches."""
        state = self._server.state
        job = state.jobs.get(wish.number)
        if (
            job is None
            or not holds(job)
            or job.status.allocation is None
            or node.node not in job.status.allocation.names
        ):
            node.send(StreamEnd(wish.stream, "not_permitted", f"job {wish.number} does not run on {node.node}"))
            return
        if wish.stream % 2 == 0 or wish.stream in node.takers or len(node.takers) >= MAX_STREAMS:
            node.send(StreamEnd(wish.stream, "unavailable", f"{node.node} has too many connections open"))
            return
        self._follow(Session(self._server, NodeClient(node, wish.stream), Who(job.user, job.uid, job.gid)))

    async def close(self) -> None:
        """Stop listening and end the connections."""
        if self._listening is not None:
            self._listening.close()
            self.path.unlink(missing_ok=True)
        for task in self._sessions:
            task.cancel()
