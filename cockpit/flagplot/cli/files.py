"""`flagplot cp` and `flagplot bcast`: files to and from the nodes of a job, as its user, without a shared file system."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, cast

import click

from flagplot.cli.common import ask, target_of
from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.streams import ByteStream
from flagplot.client.target import Target
from flagplot_wire.errors import Refused
from flagplot_wire.requests import OpenFile
from flagplot_wire.text import clean

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


@click.command("bcast")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("destination")
@click.option("--jobid", metavar="JOB", help="To the nodes of this job; else of the job that we are in.")
@click.option("-f", "--force", is_flag=True, help="Replace a file that is there.")
@click.option("-p", "--preserve", is_flag=True, help="Give it the permissions that it has here.")
@click.pass_context
def bcast(context: click.Context, file: Path, destination: str, jobid: str | None, force: bool, preserve: bool) -> None:
    """Send a file to the same place on every node of a job, as sbcast; checksums are compared at the end."""
    if os.environ.get("FLAGPLOT_CONFINED") == "1":
        raise Refused("not_permitted", "this session may not read files here", "run flagplot bcast on your own machine")
    job = jobid or os.environ.get("FLAGPLOT_JOB_ID")
    if not job:
        raise Refused("usage", "no job was named, and we are in none", "use --jobid")
    if not destination.startswith("/"):
        raise Refused("usage", f"{destination!r}: the path on the nodes must be absolute")
    found = ask(context, lambda calls: calls.job(job)).jobs
    allocation = found[0].status.allocation if found else None
    if allocation is None:
        raise Refused("not_running", f"job {job} holds no nodes")
    try:
        mode = file.stat().st_mode & 0o777 if preserve else 0o755 if os.access(file, os.X_OK) else 0o644
        pieces = _pieces(file)
        first = next(pieces, b"")
    except OSError as wrong:
        raise Refused("usage", f"cannot read {file}: {wrong.strerror}") from wrong
    asyncio.run(_send_all(target_of(context), job, allocation.names, chain((first,), pieces), destination, mode, force))


def _pieces(file: Path) -> Iterator[bytes]:
    with open(file, "rb") as source:
        while data := source.read(PIECE):
            yield data


async def _send_all(
    target: Target,
    job: str,
    nodes: list[str],
    content: Iterable[bytes],
    path: str,
    mode: int,
    force: bool,
) -> None:
    connection = await Connection.open(target)
    try:
        streams = [connection.streams.make() for _ in nodes]
        for node, stream in zip(nodes, streams, strict=True):
            await Calls(connection).opened(OpenFile(job, stream.number, "put", path, node, mode, force))
        summed = hashlib.sha256()
        wrong: dict[str, str] = {}
        for data in content:
            summed.update(data)
            await asyncio.gather(*(_put(node, one, data, wrong) for node, one in zip(nodes, streams, strict=True)))
        for node, stream in zip(nodes, streams, strict=True):
            if node not in wrong:
                await _confirm(node, stream, summed.hexdigest(), wrong)
    finally:
        await connection.close()
    for node, why in wrong.items():
        print(f"flagplot: {node}: {clean(why)}", file=sys.stderr)
    if wrong:
        raise Refused("bad_file", f"{len(wrong)} of {len(nodes)} nodes do not have the file")
    print(f"{path} is on {len(nodes)} nodes, sha256 {summed.hexdigest()}")


async def _put(node: str, stream: ByteStream, data: bytes, wrong: dict[str, str]) -> None:
    if node not in wrong:
        try:
            await stream.write(data)
        except Refused as refused:
            wrong[node] = refused.message


async def _confirm(node: str, stream: ByteStream, expected: str, wrong: dict[str, str]) -> None:
    try:
        stream.finish()
        told = b""
        while data := await stream.read():
            told += data
        if told.decode("ascii", "replace") != expected:
            wrong[node] = f"its copy has another checksum: {told.decode('ascii', 'replace')[:64]}"
    except Refused as refused:
        wrong[node] = refused.message
