"""One controller for each data directory, and the file that keeps room to clean up on a full disk."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from flagplot_wire.errors import Refused

RESERVE_BYTES = 4 * 1024 * 1024


class Lock:
    """An exclusive lock on `controller.lock`; the kernel drops it with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / "controller.lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            pid = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise Refused(
                "unavailable",
                f"another controller (pid {pid}) is running on {folder}",
                "use it, or stop it first: flagplot down",
            ) from taken
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let another controller start."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Reserve:
    """4 MiB of the disk that are freed when it is full, so that jobs can end and people can clean up."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "reserve"

    def take(self) -> None:
        """Occupy the space; raises OSError when the disk has not that much."""
        if self._path.exists() and self._path.stat().st_size == RESERVE_BYTES:
            return
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, RESERVE_BYTES)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)

    def free(self) -> None:
        """Give the space back."""
        self._path.unlink(missing_ok=True)
