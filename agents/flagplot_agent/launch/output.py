"""Reading a piece of a job's output, with the rights of the job's user. Standard library only."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time

MAX_PIECE = 2 * 1024 * 1024
BLOCK = 1024 * 1024
SEARCH_S = 1.5
"""A search pauses after so long, so that whoever waits is told how far it is."""
NOT_SEARCHED = -1


def read_piece(path: str, offset: int, limit: int, search: bytes = b"") -> tuple[int, int, bytes, int, int]:
    """(real offset, size, bytes, found, searched) of a regular file; a negative offset counts from the end.

    With `search` it is the piece around the last place where these bytes begin before `offset`, in whatever case of
    ASCII letters: `found` is that place (-1: there was none so far), `searched` how far down the search came, from where
    it can go on; 0: it is through. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(22, "is no regular file", path)
        size, limit = info.st_size, min(max(limit, 0), MAX_PIECE)
        start = max(size + offset, 0) if offset < 0 else min(offset, size)
        if not search:
            return start, size, os.pread(descriptor, limit, start), NOT_SEARCHED, NOT_SEARCHED
        found, searched = search_back(descriptor, size if offset < 0 else start, search.lower())
        if found < 0:
            return searched, size, b"", found, searched
        start = max(0, found - limit // 2)
        return start, size, os.pread(descriptor, limit, start), found, searched
    finally:
        os.close(descriptor)


def search_back(descriptor: int, before: int, words: bytes) -> tuple[int, int]:
    """(found, searched) as `read_piece` tells them, for lower-case `words`. Holes of sparse files are not read."""
    deadline = time.monotonic() + SEARCH_S
    high = before
    while high > 0:
        low = max(0, high - BLOCK)
        if not _is_hole(descriptor, low, high):
            # As much of what follows as words that begin before `high` may need.
            block = os.pread(descriptor, high + len(words) - 1 - low, low).lower()
            at = block.rfind(words)
            if at >= 0:
                return low + at, low + at
        high = low
        if time.monotonic() > deadline:
            break
    return -1, high


def _is_hole(descriptor: int, low: int, high: int) -> bool:
    try:
        return os.lseek(descriptor, low, os.SEEK_DATA) >= high
    except OSError as wrong:
        # ENXIO: nothing but a hole follows. A file system that cannot tell has it read.
        return wrong.errno == errno.ENXIO


def read_as(
    path: str, offset: int, limit: int, user: str, uid: int, gid: int, search: bytes = b""
) -> tuple[int, int, bytes, int, int]:
    """As `read_piece`; a root agent reads in a process that has become the user. Raises OSError."""
    if os.getuid() != 0 or uid == 0:
        return read_piece(path, offset, limit, search)
    numbers = [str(number) for number in (offset, limit, uid, gid)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", __file__, path, user, *numbers, search.hex()],
        cwd="/",
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    if done.returncode != 0:
        raise OSError(done.stderr.decode("utf-8", "replace").strip() or "cannot be read")
    head, _, data = done.stdout.partition(b"\n")
    start, size, found, searched = map(int, head.split())
    return start, size, data, found, searched


def become(user: str, uid: int, gid: int) -> None:
    """Give up root for good; raises OSError. Done here and not by the parent, whose Python the user may not reach."""
    os.setgroups(os.getgrouplist(user, gid))
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise OSError(1, f"became someone other than {user}")


if __name__ == "__main__":
    path_of, user_of, *numbers_of, wanted = sys.argv[1:]
    first, most, uid_of, gid_of = map(int, numbers_of)
    try:
        become(user_of, uid_of, gid_of)
        at, whole, piece, where, down_to = read_piece(path_of, first, most, bytes.fromhex(wanted))
    except OSError as wrong:
        sys.exit(wrong.strerror or str(wrong))
    sys.stdout.buffer.write(b"%d %d %d %d\n" % (at, whole, where, down_to) + piece)
