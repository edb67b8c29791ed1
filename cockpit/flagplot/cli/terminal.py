"""A step on this terminal: input, output, signals, window size."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from flagplot.client.steps import StepClient
from flagplot_wire.text import clean

PIECE = 32 * 1024
_TAKEN = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "CONT")


class Printer:
    """Writes what tasks write; with `label` line by line behind their rank."""

    def __init__(self, label: bool = False) -> None:
        self._label = label
        self._wide = 1
        self._open: dict[tuple[bool, int], bytes] = {}

    def tasks(self, count: int) -> None:
        """How many tasks there are."""
        self._wide = len(str(max(count - 1, 0)))

    def __call__(self, error: bool, rank: int, data: bytes) -> None:
        """Some output."""
        if not self._label:
            self._write(error, data)
            return
        *lines, rest = (self._open.get((error, rank), b"") + data).split(b"\n")
        self._open[error, rank] = rest
        head = f"{rank:>{self._wide}}: ".encode()
        self._write(error, b"".join(head + line + b"\n" for line in lines))

    def flush(self) -> None:
        """Lines that were never ended."""
        for (error, rank), rest in self._open.items():
            if rest:
                self._write(error, f"{rank:>{self._wide}}: ".encode() + rest + b"\n")
        self._open.clear()

    def _write(self, error: bool, data: bytes) -> None:
        out = sys.stderr.buffer if error else sys.stdout.buffer
        out.write(data)
        out.flush()


def tell(text: str) -> None:
    """A sentence on standard error, whatever state the terminal is in."""
    print(f"flagplot: {clean(text)}\r" if sys.stderr.isatty() else f"flagplot: {clean(text)}", file=sys.stderr)


@contextmanager
def raw_terminal(wanted: bool) -> Iterator[None]:
    """Keys go to the other side as they are pressed."""
    if not wanted or not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        # Drained, not flushed: what was typed ahead is for the other side.
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def feeding(step: StepClient, detach: bytes = b"", left: Callable[[], None] | None = None) -> Iterator[None]:
    """Hand standard input over: a terminal's keys as the loop hears them, so that none is taken after the end;
    anything else from a thread of its own, which nobody waits for.

    `left` is for who only joined in: it is called at the key `detach`, and the end of a file is not passed on.
    """
    loop = asyncio.get_running_loop()
    if not sys.stdin.isatty():
        feed_from_thread(step, last=left is None)
        yield
        return
    keys: asyncio.Queue[bytes] = asyncio.Queue()

    def pressed() -> None:
        try:
            data = os.read(0, PIECE)
        except OSError:
            data = b""
        before, key, _ = data.partition(detach) if detach else (data, b"", b"")
        if key and left is not None:
            left()
        if not data or key:
            loop.remove_reader(0)
        if before or not key:
            keys.put_nowait(before)

    async def pass_on() -> None:
        while True:
            await step.write(await keys.get())

    passing = asyncio.create_task(pass_on())
    loop.add_reader(0, pressed)
    try:
        yield
    finally:
        loop.remove_reader(0)
        passing.cancel()


def feed_from_thread(step: StepClient, last: bool) -> None:
    """Hand standard input over, whatever it is; with `last` its end too."""
    loop = asyncio.get_running_loop()

    def work() -> None:
        while True:
            try:
                data = os.read(0, PIECE)
            except OSError:
                data = b""
            if loop.is_closed() or not (data or last):
                return
            try:
                asyncio.run_coroutine_threadsafe(step.write(data), loop).result()
            except (RuntimeError, asyncio.CancelledError):
                return
            if not data:
                return

    threading.Thread(target=work, daemon=True, name="input").start()


def window() -> tuple[int, int]:
    """Rows and columns of this terminal."""
    size = shutil.get_terminal_size((80, 24))
    return size.lines, size.columns


@contextmanager
def forwarding_signals(step: StepClient, pty: bool) -> Iterator[None]:
    """Ctrl-C once asks the tasks to end, twice kills them; the rest goes to them as it comes."""
    loop = asyncio.get_running_loop()
    asked = 0

    def interrupt() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            tell("interrupt sent to the tasks; once more kills them")
            step.command(do="signal", signal="INT")
        else:
            step.command(do="end", kill_wait_s=0)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: step.command(do="end"))
    for name in _TAKEN[3:]:
        loop.add_signal_handler(getattr(signal, f"SIG{name}"), partial(step.command, do="signal", signal=name))
    try:
        with following_window(step) if pty else nullcontext():
            yield
    finally:
        for name in _TAKEN:
            loop.remove_signal_handler(getattr(signal, f"SIG{name}"))


@contextmanager
def following_window(step: StepClient) -> Iterator[None]:
    """Tell the step each new size of this terminal."""

    def resized() -> None:
        rows, columns = window()
        step.command(do="resize", rows=rows, columns=columns)

    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGWINCH)
    loop.add_signal_handler(signal.SIGWINCH, resized)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        signal.signal(signal.SIGWINCH, before)


async def on_this_terminal(step: StepClient, printer: Printer, pty: bool, stdin: bool = True) -> int:
    """Carry a started step until it ends; returns its exit code."""
    with forwarding_signals(step, pty), raw_terminal(pty), feeding(step) if stdin else nullcontext():
        code = await step.run()
    printer.flush()
    return code
