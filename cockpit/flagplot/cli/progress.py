"""A line on a terminal that tells how far a transfer is."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType

from flagplot_wire.text import clean
from flagplot_wire.units import format_age

EVERY_S = 0.2
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def in_bytes(count: int) -> str:
    """A number of bytes for people: `512 B`, `1.5 MiB`."""
    size, unit = float(count), 0
    while size >= 1024 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {UNITS[unit]}"


def line(name: str, done: int, total: int, seconds: float, width: int) -> str:
    """`name  45 %  1.2 GiB of 2.7 GiB  110.0 MiB/s  0:14 left`, cut to `width`; without `total` what is known."""
    rate = done / seconds if seconds > 0 else 0.0
    parts = [f"{done * 100 // total} %"] if total else []
    parts.append(f"{in_bytes(done)} of {in_bytes(total)}" if total else in_bytes(done))
    parts.append(f"{in_bytes(int(rate))}/s")
    if total and rate and done < total:
        parts.append(f"{format_age(int((total - done) / rate))} left")
    text = "  ".join(parts)
    room = max(width - len(text) - 3, 8)
    return f"{name if len(name) <= room else name[: room - 1] + '…'}  {text}"[: max(width - 1, 1)]


class Progress:
    """Written on standard error while that is a terminal, some times a second; gone at the end."""

    def __init__(self, name: str, total: int = 0, quiet: bool = False) -> None:
        self.name = clean(name)
        self.total = total
        self.done = 0
        self._shown = sys.stderr.isatty() and not quiet
        self._began = self._last = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def expect(self, total: int) -> None:
        """So many bytes will come."""
        self.total = total

    def add(self, count: int) -> None:
        """So many bytes more."""
        self.done += count
        now = time.monotonic()
        if self._shown and now - self._last >= EVERY_S:
            self._last = now
            width = shutil.get_terminal_size((80, 24)).columns
            print(
                f"\r\x1b[K{line(self.name, self.done, self.total, now - self._began, width)}",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
