"""One task of a step: its process, and the pipes or the terminal that it speaks through. Standard library only."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections import deque
from typing import Any


class Task:
    """`stdin` is -1 while nobody writes to it; what it has not taken yet is `waiting`."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.pid = 0
        self.stdin = -1
        self.waiting: deque[bytes] = deque()
        self.closing = False
        self.outputs: dict[int, bytes] = {}
        """Descriptor → kind of message."""

    def open_terminal(self, recipe: dict[str, Any]) -> list[int]:
        """A pty: we keep the master. Returns what the task gets as input, output and error: the slave."""
        master, slave = os.openpty()
        os.set_inheritable(slave, False)
        set_size(master, recipe["rows"], recipe["columns"])
        if os.getuid() == 0:
            os.fchown(slave, recipe["uid"], -1)
            os.fchmod(slave, 0o620)
        os.set_blocking(master, False)
        self.stdin = os.dup(master)
        os.set_blocking(self.stdin, False)
        self.outputs[master] = b"o"
        return [slave, slave, slave]

    def open_pipes(self, recipe: dict[str, Any], plan: dict[str, Any]) -> list[int]:
        """Pipes for what has no file. Returns the task's ends; -1 stands for a file that it opens itself."""
        theirs = [-1, -1, -1]
        if not plan["stdin"] and recipe["input"] in ("all", str(self.rank)):
            theirs[0], self.stdin = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self.stdin, False)
        for place, name, kind in ((1, "stdout", b"o"), (2, "stderr", b"e")):
            if not plan[name] and not (name == "stderr" and plan["stdout"]):
                ours, theirs[place] = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(ours, False)
                self.outputs[ours] = kind
        return theirs

    def give(self, data: bytes) -> None:
        """Input for it; empty bytes are its end."""
        if data:
            self.waiting.append(data)
        else:
            self.closing = True

    def feed(self) -> bool:
        """Write what it takes of its input; False when it takes no more."""
        try:
            while self.waiting:
                sent = os.write(self.stdin, self.waiting[0])
                if sent < len(self.waiting[0]):
                    self.waiting[0] = self.waiting[0][sent:]
                else:
                    self.waiting.popleft()
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def close_input(self) -> None:
        """It reads no more, or there is no more to read."""
        os.close(self.stdin)
        self.stdin = -1
        self.waiting.clear()

    def resize(self, rows: int, columns: int) -> None:
        """Tell its terminal a new size."""
        for descriptor in self.outputs:
            set_size(descriptor, rows, columns)


def set_size(terminal: int, rows: int, columns: int) -> None:
    """Tell a terminal its size; what runs in it gets SIGWINCH."""
    size = struct.pack("HHHH", min(max(rows, 1), 65_535), min(max(columns, 1), 65_535), 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
