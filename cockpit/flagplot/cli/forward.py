"""`flagplot forward`: local ports that lead to a job's node, through the controller."""

from __future__ import annotations

import asyncio
import sys

import click
import msgspec

from flagplot.cli.common import target_of
from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.target import Target
from flagplot_wire.errors import Refused
from flagplot_wire.requests import OpenPort
from flagplot_wire.text import clean


@click.command("forward")
@click.argument("job")
@click.argument("ports", nargs=-1, required=True, metavar="PORT[:PORT]...")
@click.option("-w", "--nodelist", "node", default="", metavar="NODE", help="To this node of the job (its first).")
@click.option("--stdio", is_flag=True, help="Carry one connection on standard input and output.")
@click.option("--as-owner", is_flag=True, help="Operators: reach into another person's job.")
@click.pass_context
def command(context: click.Context, job: str, ports: tuple[str, ...], node: str, stdio: bool, as_owner: bool) -> None:
    """Forward local ports to a job: 8888, or 9000:8888 for local port 9000. Until Ctrl-C.

    Only ports that a process of the job's user listens on are reached; the local side listens on loopback alone.
    """
    pairs = [_pair(text) for text in ports]
    asyncio.run(_forward(target_of(context), job, pairs, node, stdio, as_owner))


def _pair(text: str) -> tuple[int, int]:
    local, _, remote = text.partition(":")
    numbers = [int(one) if one.isdecimal() and len(one) < 6 else 0 for one in (local, remote or local)]
    if not all(0 < one < 65_536 for one in numbers):
        raise Refused("usage", f"{text!r} is no port: write 8888, or LOCAL:REMOTE such as 9000:8888")
    return numbers[0], numbers[1]


async def _forward(
    target: Target, job: str, pairs: list[tuple[int, int]], node: str, stdio: bool, as_owner: bool
) -> None:
    connection = await Connection.open(target)
    calls = Calls(connection)
    try:
        # Refuse what can never work before anybody connects.
        found = await calls.job(job)
        if found.jobs and str(found.jobs[0].status.state) != "RUNNING":
            raise Refused("not_running", f"job {job} is {str(found.jobs[0].status.state).lower()}, not running")
        if stdio:
            await _one(connection, OpenPort(job, 0, pairs[0][1], node, as_owner), *await standard_streams())
            return
        servers = [await _listen(connection, job, one, node, as_owner) for one in pairs]
        await connection.closed.wait()
        for server in servers:
            server.close()
        raise Refused("no_controller", connection.problem or "the connection to the controller is lost")
    finally:
        await connection.close()


async def _listen(connection: Connection, job: str, pair: tuple[int, int], node: str, as_owner: bool) -> asyncio.Server:
    local, remote = pair

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _one(connection, OpenPort(job, 0, remote, node, as_owner), reader, writer)
        except (Refused, OSError) as wrong:
            print(f"flagplot: port {remote}: {clean(str(wrong))}", file=sys.stderr)
            writer.close()

    try:
        server = await asyncio.start_server(connected, "127.0.0.1", local)
    except OSError as wrong:
        raise Refused(
            "unavailable", f"cannot listen on port {local}: {wrong.strerror}", "choose another: LOCAL:REMOTE"
        ) from wrong
    print(f"http://127.0.0.1:{local}/ leads to port {remote} of job {clean(job)}", flush=True)
    return server


async def _one(
    connection: Connection, request: OpenPort, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    stream = connection.streams.make()
    try:
        await Calls(connection).opened(msgspec.structs.replace(request, stream=stream.number))
        await stream.join(reader, writer)
    finally:
        stream.close()


async def standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Standard input and output (pipes or sockets) as streams."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
