"""`flagplot cp`: files to and from the nodes of a job, as its user, without a shared file system."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import click

from flagplot.cli.common import target_of
from flagplot.cli.progress import Progress
from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.streams import ByteStream
from flagplot.client.target import Target
from flagplot_wire.errors import Refused
from flagplot_wire.filetree import Channel, Receiver, send, size_of
from flagplot_wire.requests import OpenFile
from flagplot_wire.text import clean

SHOWN = 20
"""Problems that are told one by one."""


@click.command("cp")
@click.argument("source", nargs=-1, required=True)
@click.argument("destination")
@click.option("-w", "--nodelist", "node", default="", metavar="NODE", help="On this node of the job (its first).")
@click.option("--resume", is_flag=True, help="Go on with an earlier copy: what is there already is not sent again.")
@click.option("-q", "--quiet", is_flag=True, help="No line that tells how far it is.")
@click.pass_context
def cp(context: click.Context, source: tuple[str, ...], destination: str, node: str, resume: bool, quiet: bool) -> None:
    """Copy files and folders between here and a running job: flagplot cp JOB:/path HERE, or HERE... JOB:/path.

    A path in a job may have wildcards (quote them). Each file appears whole or not at all.
    """
    if os.environ.get("FLAGPLOT_CONFINED") == "1":
        raise Refused("not_permitted", "this session may not touch files here", "run flagplot cp on your own machine")
    sources, to_job = [_in_job(one) for one in source], _in_job(destination)
    if (to_job is None) == (None in sources) or len({one is None for one in sources}) > 1:
        raise Refused("usage", "either all sources or the destination must be in a job", "write it as JOB:/path")
    if len(source) > 1 and to_job is None and not os.path.isdir(destination):
        raise Refused("usage", f"{destination} is no folder, and {len(source)} sources are to go there")
    work = _Copy(target_of(context), node, resume, quiet)
    problems = asyncio.run(
        work.up(list(source), *to_job)
        if to_job is not None
        else work.down([one for one in sources if one], destination)
    )
    for problem in problems[:SHOWN]:
        print(f"flagplot: {clean(problem)}", file=sys.stderr)
    if problems:
        more = f" ({len(problems) - SHOWN} more)" if len(problems) > SHOWN else ""
        raise Refused("bad_file", f"{len(problems)} of the files or folders were not copied{more}; all others were")


def _in_job(text: str) -> tuple[str, str] | None:
    job, colon, path = text.partition(":")
    if not colon or not job.replace("_", "").isdecimal():
        return None
    if not path.startswith("/"):
        raise Refused("usage", f"{text!r}: the path on the node must be absolute")
    return job, path


class _Copy:
    """Copies one way."""

    def __init__(self, target: Target, node: str, resume: bool, quiet: bool) -> None:
        self._target, self._node, self._resume, self._quiet = target, node, resume, quiet

    async def up(self, sources: list[str], job: str, path: str) -> list[str]:
        """From here; returns the problems."""
        for source in sources:
            if not os.path.lexists(source):
                raise Refused("usage", f"there is no {source}")
        if len(sources) > 1 and not path.endswith("/"):
            path += "/"
        progress = Progress(
            sources[0] if len(sources) == 1 else f"{len(sources)} sources", size_of(sources), self._quiet
        )

        def work(channel: Channel) -> list[str]:
            return send(channel, sources, progress.add)

        return await self._carry(job, "receive", path, progress, work)

    async def down(self, sources: list[tuple[str, str]], place: str) -> list[str]:
        """From the job; returns the problems."""
        problems = []
        for job, path in sources:
            progress = Progress(path, quiet=self._quiet)

            def work(channel: Channel, progress: Progress = progress) -> list[str]:
                return Receiver(channel, place, self._resume, progress.add).run(progress.expect)

            problems += await self._carry(job, "send", path, progress, work)
        return problems

    async def _carry(
        self, job: str, verb: str, path: str, progress: Progress, work: Callable[[Channel], list[str]]
    ) -> list[str]:
        connection = await Connection.open(self._target)
        stream = connection.streams.make()
        try:
            request = OpenFile(
                job, stream.number, "send" if verb == "send" else "receive", path, self._node, 0, self._resume
            )
            await Calls(connection).opened(request)
            with progress:
                return await _in_thread(stream, work)
        except Refused as refused:
            raise _with_hint(refused) from refused
        finally:
            stream.close()
            await connection.close()


async def _in_thread(stream: ByteStream, work: Callable[[Channel], list[str]]) -> list[str]:
    """Do blocking work over a stream; what ended the other side is the reason where it ends too early."""
    loop = asyncio.get_running_loop()

    def read() -> bytes:
        return asyncio.run_coroutine_threadsafe(stream.read(), loop).result()

    def write(data: bytes) -> None:
        asyncio.run_coroutine_threadsafe(stream.write(data), loop).result()

    try:
        problems = await asyncio.to_thread(work, Channel(read, write))
    except EOFError as wrong:
        raise Refused("gone", str(wrong), "--resume goes on with it") from wrong
    except OSError as wrong:
        name = f"{wrong.filename}: " if wrong.filename else ""
        raise Refused("bad_file", f"{name}{wrong.strerror or wrong}") from wrong
    stream.finish()
    while await stream.read():
        continue
    return problems


def _with_hint(refused: Refused) -> Refused:
    """Where the connection was lost, say how to go on."""
    lost = refused.code in ("no_controller", "unavailable", "gone") and not refused.hint
    return Refused(refused.code, refused.message, "--resume goes on with it") if lost else refused
