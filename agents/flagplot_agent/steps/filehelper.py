"""Reads or writes files as the job's user: a process of its own, which gives up root first. Standard library only.

Arguments: user (`-`: stay who we are), uid, gid, verb, path, mode, force, address. Bytes come and go on standard input
and output, which are one socket; what went wrong is a sentence on standard error and exit code 1.
"""

import os
import signal
import sys
import tarfile
from typing import BinaryIO, cast

from flagplot_agent.steps.broadcast import Part
from flagplot_wire.archive import add, told
from flagplot_wire.errors import Refused
from flagplot_wire.filetree import Channel, Receiver, matching, send

PIECE = 1 << 18


def main(user: str, uid: str, gid: str, verb: str, path: str, mode: str, force: str, address: str) -> None:
    """Do it; raises OSError."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("the transfer was ended"))
    if user != "-" and int(uid) != 0:
        os.setgroups(os.getgrouplist(user, int(gid)))
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))
        if os.getresuid() != (int(uid),) * 3:
            raise OSError(1, "became someone other than " + user)
    os.umask(0o022)
    came = cast(BinaryIO, os.fdopen(0, "rb", buffering=0))
    out = cast(BinaryIO, os.fdopen(os.dup(1), "wb", buffering=0))
    if not os.path.isabs(path):
        raise OSError(22, "is no absolute path", path)
    if verb == "read":
        read(path, out)
    elif verb == "write":
        write(path, came)
    elif verb in ("send", "receive"):
        channel = Channel(lambda: came.read(PIECE) or b"", Whole(out).write)
        copy(channel, verb, path, force == "1")
    else:
        Part(path, int(mode), force == "1", address, came, out).run()


def copy(channel: Channel, verb: str, path: str, resume: bool) -> None:
    """One side of a copy: what goes wrong with a file is told to the other side."""
    if verb == "receive":
        Receiver(channel, path, resume, lambda _count: None).run()
        return
    tops = matching(path)
    if not tops:
        raise OSError(2, "No such file or directory", path)
    send(channel, tops, lambda _count: None)


def read(path: str, out: BinaryIO) -> None:
    """A tar archive of a file or folder, named by its last part; standard error tells what was left out."""
    os.stat(path)
    with tarfile.open(fileobj=cast(BinaryIO, Whole(out)), mode="w|", bufsize=PIECE) as archive:
        print(told(add(archive, path)), file=sys.stderr)


def write(path: str, came: BinaryIO) -> None:
    """Unpack an archive: into `path` where that is a folder or ends in `/` (it is made then), else as `path`."""
    if path.endswith("/"):
        os.makedirs(path, exist_ok=True)
    with tarfile.open(fileobj=came, mode="r|", bufsize=PIECE) as archive:
        inside = os.path.isdir(path)
        for member in archive:
            _, _, rest = member.name.partition("/")
            if not inside:
                member.name = os.path.basename(path.rstrip("/")) + ("/" + rest if rest else "")
            target = path if inside else os.path.dirname(path.rstrip("/"))
            archive.extract(member, target, filter="data")


class Whole:
    """A raw file whose writes are whole."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw

    def write(self, data: bytes) -> int:
        """Write all."""
        view = memoryview(data)
        while view:
            view = view[self._raw.write(view) :]
        return len(data)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, EOFError, Refused, tarfile.TarError) as wrong:
        filename = getattr(wrong, "filename", None)
        name = f"{filename}: " if filename else ""
        sys.exit(f"{name}{getattr(wrong, 'strerror', None) or wrong}")
