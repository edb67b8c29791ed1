"""The SSH transport: pinned host keys, the subsystem `flagplot`."""

from __future__ import annotations

import asyncssh

from flagplot.client.target import Target
from flagplot_wire.errors import Refused

SUBSYSTEM = "flagplot"
CONNECT_S = 15


class SshStream:
    """A channel of an SSH connection."""

    def __init__(self, connection: asyncssh.SSHClientConnection, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._connection, self._process = connection, process

    async def read(self) -> bytes:
        """Some bytes; empty at the end."""
        try:
            return await self._process.stdout.read(65_536)
        except asyncssh.Error as wrong:
            raise OSError(str(wrong)) from wrong

    async def write(self, data: bytes) -> None:
        """Send all."""
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except asyncssh.Error as wrong:
            raise OSError(str(wrong)) from wrong

    def send(self, data: bytes) -> None:
        """Send without waiting, for what is limited otherwise."""
        self._process.stdin.write(data)

    async def close(self) -> None:
        """Let go."""
        self._connection.close()
        await self._connection.wait_closed()


async def open_ssh(target: Target) -> SshStream:
    """Connect by SSH; raises `Refused` with host_key, wrong_key or no_controller."""
    where = f"{target.host}:{target.port}"
    try:
        pinned = asyncssh.import_public_key(target.host_key)
    except asyncssh.KeyImportError as wrong:
        raise Refused("host_key", f"no host key is pinned for {where}", f"flagplot connect {target}") from wrong
    try:
        connection = await asyncssh.connect(
            target.host,
            target.port,
            username=target.user,
            known_hosts=([pinned], [], []),
            compression_algs=None,
            keepalive_interval=5,
            keepalive_count_max=3,
            login_timeout=CONNECT_S,
            connect_timeout=CONNECT_S,
            agent_forwarding=False,
            **({"client_keys": [target.key_file]} if target.key_file else {}),
        )
        process = await connection.create_process(subsystem=SUBSYSTEM, encoding=None)
    except asyncssh.HostKeyNotVerifiable as wrong:
        raise Refused(
            "host_key",
            f"the host key of {where} is not the one pinned: somebody may be in between, or it was installed anew",
            f"ask its admin for the fingerprint, then: flagplot connect {target}",
        ) from wrong
    except asyncssh.PermissionDenied as wrong:
        raise Refused(
            "wrong_key", f"{where} does not know your SSH key", "ask its admin to add your .pub file"
        ) from wrong
    except (OSError, asyncssh.Error, TimeoutError) as wrong:
        raise Refused("no_controller", f"cannot reach {where}: {wrong}", "is the controller running there?") from wrong
    return SshStream(connection, process)


async def server_key(host: str, port: int) -> asyncssh.SSHKey:
    """The host key that a server shows; raises `Refused`."""
    try:
        found = await asyncssh.get_server_host_key(host, port, config=None)
    except (OSError, asyncssh.Error) as wrong:
        raise Refused("no_controller", f"cannot reach {host}:{port}: {wrong}") from wrong
    if found is None:
        raise Refused("host_key", f"{host}:{port} shows no host key")
    return found
