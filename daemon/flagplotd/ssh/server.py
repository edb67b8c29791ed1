"""The SSH server: public keys only, people and agents told apart, strangers held off."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import cast

import asyncssh

from flagplot_wire.errors import Refused
from flagplotd.core.state import Who
from flagplotd.service import clock
from flagplotd.service.context import Server
from flagplotd.service.identity import who_is_user
from flagplotd.service.local import LocalSocket
from flagplotd.service.session import Session
from flagplotd.ssh.app import Process, run_app
from flagplotd.ssh.keys import Grant, KeyFile

log = logging.getLogger("flagplotd.ssh")

AGENT_LOGIN = "agent"
CLOSE_S = 3.0
"""For connections to end by themselves when the controller stops."""
MAX_STRANGERS = 200
MAX_STRANGERS_EACH = 64
"""Connections not yet authenticated, in all and for one address."""
MAX_TRIES = 20
"""Keys tried on one connection."""
MAX_FAILURES = 60
MAX_FAILURES_LOOPBACK = 600
FAILURE_WINDOW_S = 60.0
"""Failed keys of one address within the window; beyond that it must wait. Loopback is shared by all users here."""

ALGORITHMS = {
    "kex_algs": ["mlkem768x25519-sha256", "curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256"],
    "encryption_algs": ["chacha20-poly1305@openssh.com", "aes256-gcm@openssh.com", "aes128-gcm@openssh.com"],
    "mac_algs": ["hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com"],
    "signature_algs": [
        "ssh-ed25519",
        "sk-ssh-ed25519@openssh.com",
        "ecdsa-sha2-nistp256",
        "sk-ecdsa-sha2-nistp256@openssh.com",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "rsa-sha2-512",
        "rsa-sha2-256",
    ],
}


class ProcessStream:
    """A stream over an SSH channel."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def read(self) -> bytes:
        """Some bytes; empty at the end."""
        while True:
            try:
                return await self._process.stdin.read(65_536)
            except (asyncssh.TerminalSizeChanged, asyncssh.BreakReceived, asyncssh.SignalReceived):
                continue
            except (OSError, asyncssh.Error):
                return b""

    def write(self, data: bytes) -> None:
        """Send without waiting."""
        if not self._process.is_closing():
            self._process.stdout.write(data)

    async def drain(self) -> None:
        """Wait until the other side keeps up; a broken channel shows at the next read."""
        try:
            await self._process.stdout.drain()
        except (OSError, asyncssh.Error):
            self._process.close()

    def close(self) -> None:
        """End the channel."""
        self._process.close()


class Guard:
    """Counts strangers and failures by address."""

    def __init__(self) -> None:
        self._strangers: dict[str, int] = {}
        self._failures: dict[str, deque[float]] = {}

    def admit(self, address: str) -> bool:
        """Count one more stranger; False when there are too many or it failed too often lately."""
        kept = self._failures.get(address)
        while kept and kept[0] < clock.ticks() - FAILURE_WINDOW_S:
            kept.popleft()
        if kept is not None and not kept:
            del self._failures[address]
        most = MAX_FAILURES_LOOPBACK if address in ("127.0.0.1", "::1") else MAX_FAILURES
        if kept and len(kept) >= most:
            return False
        mine = self._strangers.get(address, 0)
        if mine >= MAX_STRANGERS_EACH or sum(self._strangers.values()) >= MAX_STRANGERS:
            return False
        self._strangers[address] = mine + 1
        return True

    def known(self, address: str) -> None:
        """One stranger less: it logged in, or left."""
        left = self._strangers.get(address, 0) - 1
        if left > 0:
            self._strangers[address] = left
        else:
            self._strangers.pop(address, None)

    def failed(self, address: str) -> None:
        """A key was refused."""
        self._failures.setdefault(address, deque(maxlen=MAX_FAILURES_LOOPBACK)).append(clock.ticks())


class Door:
    """Accepts connections and sends each session where its key allows."""

    def __init__(self, server: Server, local: LocalSocket, host_key: asyncssh.SSHKey) -> None:
        self.server = server
        self.local = local
        self.guard = Guard()
        self.users = KeyFile(server.folder / "keys" / "users")
        self.agents = KeyFile(server.folder / "keys" / "agents")
        self._host_key = host_key
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self.connections: set[asyncssh.SSHServerConnection] = set()

    async def open(self) -> int:
        """Listen; returns the port. Raises `Refused` when it is taken."""
        host, port = self.server.config.host, self.server.port
        try:
            self._acceptor = await asyncssh.create_server(
                lambda: _Connection(self),
                host,
                port,
                server_host_keys=[self._host_key],
                process_factory=self._session,
                encoding=None,
                line_editor=False,
                password_auth=False,
                kbdint_auth=False,
                host_based_auth=False,
                gss_host=None,
                allow_scp=False,
                agent_forwarding=False,
                x11_forwarding=False,
                compression_algs=None,
                login_timeout=20,
                keepalive_interval=15,
                keepalive_count_max=3,
                server_version="Flagplot",
                **ALGORITHMS,
            )
        except OSError as wrong:
            raise Refused(
                "unavailable",
                f"cannot listen on {host} port {port}: {wrong.strerror or wrong}",
                "choose another with --port, or 0 for a free one",
            ) from wrong
        return int(self._acceptor.get_port())

    async def _session(self, process: Process) -> None:
        connection = cast(_Connection, process.channel.get_connection().get_owner())
        grant = connection.grant
        try:
            if grant is None:
                process.exit(1)
            elif connection.is_agent:
                if process.subsystem == "flagplot-streams":
                    await self.server.agents.serve_streams(ProcessStream(process))
                elif process.subsystem != "flagplot-agent":
                    process.stderr.write(b"flagplot: this key is an agent's and opens nothing else\r\n")
                    process.exit(2)
                else:
                    await self.server.agents.serve(ProcessStream(process), grant.nodes)
            else:
                await self._person(process, who_is_user(grant.user, grant.roles, self.server.config))
        except (OSError, asyncssh.Error) as wrong:
            log.warning("a session ended: %s", wrong)
            process.close()

    async def _person(self, process: Process, who: Who) -> None:
        if process.subsystem == "flagplot":
            await Session(self.server, ProcessStream(process), who).serve()
        elif process.subsystem is not None:
            process.stderr.write(b"flagplot: there is no such subsystem; there is: flagplot\r\n")
            process.exit(2)
        else:
            await run_app(process, self.local, who)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._acceptor is not None:
            self._acceptor.close()
        left = list(self.connections)
        for connection in left:
            connection.close()
        if left:
            await asyncio.wait([asyncio.create_task(one.wait_closed()) for one in left], timeout=CLOSE_S)
        for connection in list(self.connections):
            connection.abort()


class _Connection(asyncssh.SSHServer):
    """One TCP connection; `grant` is set once its key is known."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._connection: asyncssh.SSHServerConnection | None = None
        self._address = ""
        self._stranger = False
        self._tries = 0
        self._candidate: Grant | None = None
        self.grant: Grant | None = None
        self.is_agent = False

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Hold off addresses that try too much."""
        self._connection = conn
        self._address = str((conn.get_extra_info("peername") or ("?",))[0])
        self._stranger = self._door.guard.admit(self._address)
        self._door.connections.add(conn)
        if not self._stranger:
            log.warning("held off a connection from %s", self._address)
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if self._connection is not None:
            self._door.connections.discard(self._connection)
        if self._stranger:
            self._stranger = False
            self._door.guard.known(self._address)

    def begin_auth(self, username: str) -> bool:
        """Everybody must authenticate."""
        return True

    def public_key_auth_supported(self) -> bool:
        """The only way in."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Is the key known? (asyncssh checks the signature afterwards.)"""
        file = self._door.agents if username == AGENT_LOGIN else self._door.users
        grant = file.find(key)
        for problem in file.problems:
            log.warning("%s", problem)
        file.problems.clear()
        if grant is None or (username != AGENT_LOGIN and not grant.user):
            self._tries += 1
            self._door.guard.failed(self._address)
            log.info("refused key %s from %s", key.get_fingerprint(), self._address)
            if self._tries >= MAX_TRIES and self._connection is not None:
                self._connection.abort()
            return False
        self._candidate, self.is_agent = grant, username == AGENT_LOGIN
        return True

    def auth_completed(self) -> None:
        """The signature holds."""
        self.grant = self._candidate
        if self._stranger:
            self._stranger = False
            self._door.guard.known(self._address)
