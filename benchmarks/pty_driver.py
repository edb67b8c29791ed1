"""A program on a pseudo-terminal that ends every frame with synchronised output: keys in, frames out, timed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

FRAME_END = b"\x1b[?2026l"
ASKED = b"\x1b[?2026$p"
ANSWER = b"\x1b[?2026;2$y"
"""Whether the terminal can draw a frame at once: yes."""
_GOTO = re.compile(rb"\x1b\[(\d+);\d+H")


class Program:
    """A program on a terminal of 120x40."""

    def __init__(self, command: list[str], env: dict[str, str], columns: int = 120, rows: int = 40) -> None:
        self.began = time.perf_counter()
        self.bytes = 0
        self.ended = False
        self._buffer = b""
        self._seen = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(command[0], command, env)

    def press(self, keys: bytes) -> float:
        """Type; returns the moment."""
        at = time.perf_counter()
        os.write(self._fd, keys)
        return at

    def frame(self, seconds: float) -> bytes | None:
        """The next whole frame, or None when none came within `seconds`."""
        deadline = time.perf_counter() + seconds
        while True:
            head, end, rest = self._buffer.partition(FRAME_END)
            if end:
                self._buffer = rest
                return head
            left = deadline - time.perf_counter()
            if self.ended or left <= 0 or not select.select([self._fd], [], [], left)[0]:
                return None
            self._read()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1 << 20)
        except OSError:
            # The program has ended and its terminal with it.
            self.ended = True
            return
        self.bytes += len(data)
        self._buffer += data
        self._seen = (self._seen + data)[-64:]
        if ASKED in self._seen:
            self._seen = b""
            os.write(self._fd, ANSWER)

    def wait(self, right: Callable[[bytes], bool], seconds: float = 60) -> float:
        """The moment at which a frame that is `right` was whole."""
        deadline = time.perf_counter() + seconds
        while not self.ended and (left := deadline - time.perf_counter()) > 0:
            frame = self.frame(left)
            if frame is not None and right(frame):
                return time.perf_counter()
        raise TimeoutError("the expected frame was not drawn")

    def quiet(self, seconds: float) -> int:
        """Bytes drawn within `seconds`."""
        before, deadline = self.bytes, time.perf_counter() + seconds
        while not self.ended and (left := deadline - time.perf_counter()) > 0:
            self.frame(left)
        return self.bytes - before

    def drawn(self, text: bytes, seconds: float) -> float | None:
        """The moment at which `text` has come, for a program that does not mark its frames; None: not within `seconds`."""
        self._buffer, deadline = b"", time.perf_counter() + seconds
        while not self.ended and (left := deadline - time.perf_counter()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                self._read()
                if text in self._buffer:
                    return time.perf_counter()
        return None

    def quiet_for(self, seconds: float) -> None:
        """Let some seconds pass and forget what is drawn meanwhile."""
        deadline = time.perf_counter() + seconds
        while not self.ended and (left := deadline - time.perf_counter()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                self._read()
        self._buffer = b""

    def memory_mib(self) -> int:
        """Resident memory."""
        return memory_mib(self.pid)

    def kill(self) -> None:
        """End a program that need not end by itself."""
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """Hang up and wait for the end."""
        os.close(self._fd)
        os.waitpid(self.pid, 0)


def lines(frame: bytes) -> dict[int, bytes]:
    """What a frame draws by line of the terminal (from 1)."""
    parts = _GOTO.split(frame)
    found: dict[int, bytes] = {}
    for line, content in zip(parts[1::2], parts[2::2], strict=True):
        found[int(line)] = found.get(int(line), b"") + content
    return found


def memory_mib(pid: int) -> int:
    """Resident memory of a process, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
