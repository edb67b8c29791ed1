"""`flagplot ssh-config` and the proxy behind it: plain ssh, and what is built on it, into running jobs.

The proxy is an SSH server that speaks over standard input and output to the `ssh` that started it, and to nobody
else. A session is a step in the job, a forwarded port one of `flagplot forward`. So the node needs no SSH server,
and who may enter is decided by the controller alone.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh
import click

from flagplot.cli.common import target_of
from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.steps import StepClient
from flagplot.client.target import Target, config_dir
from flagplot_wire.errors import Refused
from flagplot_wire.requests import OpenPort
from flagplot_wire.steps import StepSpec

ALIAS = "flagplot-job"
HOST = re.compile(r"(?:flagplot-)?(\d+(?:_\d+)?)(?:\.([A-Za-z0-9][A-Za-z0-9._-]*))?", re.ASCII)
SFTP_SERVERS = "/usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/lib/ssh/sftp-server"
PASSED = ("TERM", "LANG", "COLORTERM")


@click.command("ssh-config")
@click.pass_context
def command(context: click.Context) -> None:
    """Print a block for ~/.ssh/config: then `ssh flagplot-41`, and VS Code's Remote-SSH, lead into job 41.

    flagplot-41.NODE is another node of the job than its first.
    """
    target = target_of(context)
    words = [sys.executable, "-P", "-m", "flagplot"]
    if target.kind == "local":
        words += ["--data-dir", str(target.data_dir)]
    elif target.kind == "ssh":
        words += ["--cluster", target.name]
    else:
        raise Refused("usage", "this session has no way to the controller that another program could use",
                      "run flagplot ssh-config on your own machine, after flagplot connect")  # fmt: skip
    places = os.environ.get("PYTHONPATH", "")
    proxy = shlex.join([*(["env", f"PYTHONPATH={places}"] if places else []), *words, "ssh-proxy"])
    known = host_key()[1]
    print(
        f"Host flagplot-*\n    ProxyCommand {proxy.replace('%', '%%')} %n\n    User job\n    HostKeyAlias {ALIAS}\n"
        f'    UserKnownHostsFile "{known}"\n    StrictHostKeyChecking yes\n    PreferredAuthentications none\n'
        f"    ControlMaster no"
    )


def host_key() -> tuple[asyncssh.SSHKey, Path]:
    """The proxy's key, made at first, and the file of known hosts that names it."""
    folder = config_dir()
    path, known = folder / "ssh_proxy_ed25519", folder / "ssh_proxy_known_hosts"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = asyncssh.generate_private_key("ssh-ed25519")
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        key.write_private_key(str(fresh))
        fresh.replace(path)
    key = asyncssh.read_private_key(str(path))
    known.write_text(f"{ALIAS} {key.export_public_key().decode().strip()}\n")
    return key, known


@click.command("ssh-proxy")
@click.argument("host")
@click.pass_context
def proxy(context: click.Context, host: str) -> None:
    """Speak SSH on standard input and output, for one job: what `flagplot ssh-config` has ssh call."""
    found = HOST.fullmatch(host)
    if found is None:
        raise Refused("usage", f"{host!r} names no job: write flagplot-41, or flagplot-41.NODE")
    asyncio.run(_proxy(target_of(context), found[1], found[2] or ""))


async def _proxy(target: Target, job: str, node: str) -> None:
    connection = await Connection.open(target)
    ours, theirs = socket.socketpair()
    try:
        reply = await Calls(connection).job(job)
        if not reply.jobs or str(reply.jobs[0].status.state) != "RUNNING":
            raise Refused("not_running", f"job {job} is not running: there is nothing to enter")
        allocation = reply.jobs[0].status.allocation
        name = node or (allocation.names[0] if allocation is not None else "")
        key, _ = host_key()
        # First: the server is there only once the handshake has gone through it.
        carrying = asyncio.create_task(_carry(theirs))
        server = await asyncssh.run_server(
            ours,
            server_factory=lambda: _Server(connection, job, node, name),
            server_host_keys=[key],
            encoding=None,
            line_editor=False,
        )
        await asyncio.wait(
            [
                carrying,
                asyncio.create_task(server.wait_closed()),
                asyncio.create_task(connection.closed.wait()),
            ],
            return_when=asyncio.FIRST_COMPLETED,
        )
        server.abort()
    finally:
        await connection.close()


async def _carry(theirs: socket.socket) -> None:
    """Standard input and output to the server's socket and back."""
    from flagplot.cli.forward import standard_streams

    reader, writer = await standard_streams()
    inner_reader, inner_writer = await asyncio.open_connection(sock=theirs)

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()

    await asyncio.wait(
        [asyncio.create_task(copy(reader, inner_writer)), asyncio.create_task(copy(inner_reader, writer))],
        return_when=asyncio.FIRST_COMPLETED,
    )


class _Server(asyncssh.SSHServer):
    """Lets in whoever holds the other end of our standard input; forwards ports into the job."""

    def __init__(self, connection: Connection, job: str, node: str, name: str) -> None:
        self._connection, self._job, self._node, self._name = connection, job, node, name

    def begin_auth(self, username: str) -> bool:
        """The controller knows already who this is."""
        return False

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        """A session in the job."""
        return _Session(partial(_session, self._connection, self._job, self._node), None, 3, False)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Any:
        """A port of the job, whatever name it is given from inside."""
        if dest_host not in ("localhost", "127.0.0.1", "::1", self._name):
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "only ports of the job itself")

        async def forwarded(reader: Any, writer: Any) -> None:
            stream = self._connection.streams.make()
            try:
                await Calls(self._connection).opened(OpenPort(self._job, stream.number, dest_port, self._node))
                await stream.join(reader, writer)
            except (Refused, OSError, asyncssh.Error):
                # Whoever forwards sees the port closed.
                stream.close()
                writer.close()

        return forwarded


class _Session(asyncssh.SSHServerProcess[bytes]):
    """Every subsystem is the node's: the library would serve sftp by itself, from this machine's files, or refuse it."""

    def subsystem_requested(self, subsystem: str) -> bool:
        """The node decides."""
        return True

    def session_started(self) -> None:
        """Begin, as for a command."""
        if self.subsystem != "sftp":
            super().session_started()
            return
        reader = asyncssh.SSHReader(self, self.channel)
        writers = [asyncssh.SSHWriter(self, self.channel, kind) for kind in (None, asyncssh.EXTENDED_DATA_STDERR)]
        beginning = self._start_process(reader, *writers)
        assert asyncio.iscoroutine(beginning)
        self.channel.get_connection().create_task(beginning)


async def _session(connection: Connection, job: str, node: str, process: asyncssh.SSHServerProcess[bytes]) -> None:
    """One session: a shell, a command, or sftp, as a step."""

    def output(error: bool, rank: int, data: bytes) -> None:
        if not process.is_closing():
            (process.stderr if error else process.stdout).write(data)

    def told(text: str) -> None:
        if not process.is_closing() and " ended with " not in text:
            process.stderr.write(f"flagplot: {text}\r\n".encode())

    step = StepClient(connection, output, told)
    try:
        await step.start(job, _spec(process, node))
    except Refused as refused:
        told(refused.message)
        process.exit(255)
        return
    feeding = asyncio.create_task(_feed(process, step))
    try:
        code = await step.run()
        await process.stdout.drain()
    finally:
        feeding.cancel()
    process.exit(code)


def _spec(process: asyncssh.SSHServerProcess[bytes], node: str) -> StepSpec:
    columns, rows, _, _ = process.term_size or (80, 24, 0, 0)
    kept = {str(name): str(value) for name, value in process.env.items() if str(name) in PASSED}
    argv: tuple[str, ...] = ()
    if process.subsystem == "sftp":
        tries = f'for one in {SFTP_SERVERS} $(command -v sftp-server); do [ -x "$one" ] && exec "$one"; done'
        why = "flagplot: this node has no sftp-server (openssh-sftp-server): use scp -O, or flagplot cp"
        argv = ("/bin/sh", "-c", f"{tries}; echo '{why}' >&2; exit 127")
    elif process.subsystem:
        argv = ("/bin/sh", "-c", "echo there is no such subsystem >&2; exit 127")
    elif process.command is not None:
        argv = ("/bin/sh", "-c", 'exec "${SHELL:-/bin/sh}" -c "$0"', process.command)
    if process.term_type:
        kept["TERM"] = process.term_type
    return StepSpec(
        "ssh", argv, kept, tasks=1, nodes=1, nodelist=(node,) if node else (), pty=bool(process.term_type),
        rows=rows or 24, columns=columns or 80, kind="shell", keep_left=True,
    )  # fmt: skip


async def _feed(process: asyncssh.SSHServerProcess[bytes], step: StepClient) -> None:
    while True:
        try:
            data = await process.stdin.read(32_768)
        except asyncssh.TerminalSizeChanged as size:
            step.command(do="resize", rows=size.height, columns=size.width)
            continue
        except asyncssh.SignalReceived as got:
            step.command(do="signal", signal=got.signal)
            continue
        except asyncssh.BreakReceived:
            step.command(do="signal", signal="INT")
            continue
        except (OSError, asyncssh.Error):
            step.command(do="end")
            return
        await step.write(data)
        if not data:
            await process.wait_closed()
            step.command(do="end")
            return
