"""`flagplot cp`: files to and from the nodes of a job, as its user, without a shared file system."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from pathlib import Path
from typing import IO, cast

import click

from flagplot.cli.common import target_of
from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.streams import ByteStream
from flagplot.client.target import Target
from flagplot_wire.errors import Refused
from flagplot_wire.requests import OpenFile

PIECE = 256 * 1024


@click.command("cp")
@click.argument("source")
@click.argument("destination")
@click.option("-w", "--nodelist", "node", default="", metavar="NODE", help="On this node of the job (its first).")
@click.pass_context
def cp(context: click.Context, source: str, destination: str, node: str) -> None:
    """Copy a file or folder between here and a running job: flagplot cp JOB:/path HERE, or HERE JOB:/path."""
    if os.environ.get("FLAGPLOT_CONFINED") == "1":
        raise Refused("not_permitted", "this session may not touch files here", "run flagplot cp on your own machine")
    from_job, to_job = _in_job(source), _in_job(destination)
    if (from_job is None) == (to_job is None):
        raise Refused("usage", "one of the two must be in a job", "write it as JOB:/path")
    asyncio.run(_copy(target_of(context), from_job, to_job, source, destination, node))


def _in_job(text: str) -> tuple[str, str] | None:
    job, colon, path = text.partition(":")
    if not colon or not job.replace("_", "").isdecimal():
        return None
    if not path.startswith("/"):
        raise Refused("usage", f"{text!r}: the path on the node must be absolute")
    return job, path


async def _copy(
    target: Target, from_job: tuple[str, str] | None, to_job: tuple[str, str] | None, source: str, there: str, node: str
) -> None:
    connection = await Connection.open(target)
    stream = connection.streams.make()
    try:
        if from_job is not None:
            await Calls(connection).opened(OpenFile(from_job[0], stream.number, "read", from_job[1], node))
            await _unpack(stream, Path(there))
        elif to_job is not None:
            if not os.path.lexists(source):
                raise Refused("usage", f"there is no {source}")
            await Calls(connection).opened(OpenFile(to_job[0], stream.number, "write", to_job[1], node))
            await _pack(stream, Path(source))
            # The node says its end when all of it is on its disk.
            while await stream.read():
                continue
    finally:
        stream.close()
        await connection.close()


async def _pack(stream: ByteStream, source: Path) -> None:
    """Send a tar archive of a file or folder, built in a thread that waits for the stream."""
    loop = asyncio.get_running_loop()

    class Sink:
        def write(self, data: bytes) -> int:
            asyncio.run_coroutine_threadsafe(stream.write(bytes(data)), loop).result()
            return len(data)

    def work() -> None:
        with tarfile.open(fileobj=cast(IO[bytes], Sink()), mode="w|", bufsize=PIECE) as archive:
            archive.add(source, arcname=source.name or "root")

    await asyncio.to_thread(work)
    stream.finish()


async def _unpack(stream: ByteStream, there: Path) -> None:
    loop = asyncio.get_running_loop()

    class Source(io.RawIOBase):
        def __init__(self) -> None:
            self.left = b""

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            if not self.left:
                self.left = asyncio.run_coroutine_threadsafe(stream.read(), loop).result()
            data, self.left = self.left[:size], self.left[size:]
            return data

    def work() -> None:
        inside = there.is_dir()
        with tarfile.open(fileobj=cast(IO[bytes], Source()), mode="r|", bufsize=PIECE) as archive:
            for member in archive:
                _, _, rest = member.name.partition("/")
                if not inside:
                    member.name = there.name + (f"/{rest}" if rest else "")
                archive.extract(member, there if inside else there.parent, filter="data")

    try:
        await asyncio.to_thread(work)
    except tarfile.TarError as wrong:
        # An archive that never began: the node's refusal is the reason.
        await stream.read()
        raise Refused("bad_file", f"what came is no archive: {wrong}") from wrong
    stream.finish()
