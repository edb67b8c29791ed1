"""Files and folders as tar archives in streams. The archive is made and read in a thread, which waits for the stream."""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path
from typing import IO, cast

from flagplot.client.streams import ByteStream
from flagplot_wire.archive import add, told
from flagplot_wire.errors import Refused

PIECE = 256 * 1024


async def pack(stream: ByteStream, source: Path) -> str:
    """Send a tar archive of a file or folder, built in a thread that waits for the stream.

    Returns a sentence on what was left out (empty: nothing).
    """
    loop = asyncio.get_running_loop()

    class Sink:
        def write(self, data: bytes) -> int:
            asyncio.run_coroutine_threadsafe(stream.write(bytes(data)), loop).result()
            return len(data)

    def work() -> list[str]:
        with tarfile.open(fileobj=cast(IO[bytes], Sink()), mode="w|", bufsize=PIECE) as archive:
            return add(archive, str(source))

    left_out = await asyncio.to_thread(work)
    stream.finish()
    return told(left_out)


async def unpack(stream: ByteStream, there: Path) -> None:
    """Write what an archive holds: into `there` where that is a folder, else as `there`. Raises `Refused`, OSError."""
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
