"""The cockpit on a pseudo-terminal, against a controller with 100,000 jobs and 10,000 nodes.

The controller is a real one in a process of its own. Its store was filled with events beforehand, since agents for
10,000 nodes do not fit on one machine; the load is a second client that holds and releases jobs, 1,000 a second,
through the gate, the core and the store. Beside it, the built-in DataTable of Textual with the same rows, and `squeue`
and `turm` on a real Slurm with as many jobs (as root, with the shared folder beside the repository).

    python benchmarks/cockpit.py [--jobs 100000] [--nodes 10000] [--rate 1000] [--turm PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cockpit_slurm import measure_slurm
from cockpit_state import fill
from pty_driver import Program, cpu_s, lines, memory_mib
from support.controller_rig import OutsideController

from flagplot.client.connection import Connection
from flagplot.client.target import resolve
from flagplot_wire import requests

HERE = Path(__file__).resolve().parent
BACKGROUND = b"48;2;15;20;25"
"""Of the dark theme."""
TYPED = {
    "words": " train-7",
    "fields": " user:user12 gpu>4",
    "regex": " ~tr.*9",
    "fuzzy": " -f tn7",
}
"""What is typed behind `state:pd`, letter by letter; it leaves some 90,000 jobs or fewer."""
KEYS = 60
"""Key presses timed for one figure."""
FIRST_ROW = 4
"""The terminal's line of the first job: below two lines on top and the titles."""


def row(what: str, aim: str, figure: str) -> None:
    """One more line of the table, printed as it is measured."""
    print(f"| {what} | {aim} | {figure} |", flush=True)


class Load(threading.Thread):
    """Holds and releases jobs, `rate` a second, until stopped."""

    def __init__(self, folder: Path, numbers: list[int], rate: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.numbers, self.rate = folder, numbers, rate
        self.done, self.seconds = 0, 0.0
        self._over = threading.Event()

    def run(self) -> None:
        """Ten requests a second; several under way at once, for each waits for the disk."""
        asyncio.run(self._work())

    async def _work(self) -> None:
        connection = await Connection.open(resolve(data_dir=self.folder))
        began, step = time.perf_counter(), max(1, self.rate // 10)
        sent, at, held, open_now = 0, 0, True, asyncio.Semaphore(8)
        tasks: set[asyncio.Task[None]] = set()

        async def send(verb: Literal["hold", "release"], some: list[int]) -> None:
            async with open_now:
                await connection.ask(requests.Act(verb, tuple(map(str, some))))
                self.done += len(some)

        while not self._over.is_set():
            tasks.add(task := asyncio.create_task(send("hold" if held else "release", self.numbers[at : at + step])))
            task.add_done_callback(tasks.discard)
            # What was just held is released, so that each request changes its jobs, whatever a load before has left.
            at, held = (at, False) if held else ((at + step) % len(self.numbers), True)
            sent += step
            await asyncio.sleep(max(0.0, began + sent / self.rate - time.perf_counter()))
        await asyncio.gather(*tasks)
        self.seconds = time.perf_counter() - began
        await connection.close()

    def stop(self) -> float:
        """Stop; returns the rate that was reached."""
        self._over.set()
        self.join()
        return self.done / self.seconds


def p95(taken: list[float]) -> float:
    """The 95th percentile in milliseconds."""
    return statistics.quantiles(taken, n=20)[-1] * 1000


def middle_and_p95(taken: list[float]) -> str:
    """Both in milliseconds."""
    return f"{statistics.median(taken) * 1000:.0f} / {p95(taken):.0f} ms"


def moves(program: Program, cursor: Callable[[bytes], bool], count: int = KEYS) -> list[float]:
    """Seconds from `j` or `k` to the frame that draws the cursor on its new line."""
    taken, row = [], FIRST_ROW
    for index in range(count):
        down = index % 40 < 20
        row += 1 if down else -1
        pressed = program.press(b"j" if down else b"k")
        taken.append(program.wait(lambda frame, row=row: cursor(lines(frame).get(row, b"")), 20) - pressed)
        program.quiet(0.02 + index % 7 * 0.013)
    return taken


def typing(program: Program, text: str) -> list[float]:
    """Seconds from each letter of a filter to the frame that shows it in force, with how many jobs are left. A space
    alone changes no filter, so it is not timed."""
    program.press(b"/")
    program.quiet(0.5)
    taken, typed = [], b""
    for letter in text.encode():
        typed += bytes([letter])
        pressed = program.press(bytes([letter]))
        if letter != ord(" "):
            drawn = program.wait(lambda frame, typed=typed: typed in lines(frame).get(2, b""), 20)
            taken.append(drawn - pressed)
        program.quiet(0.3)
    program.press(b"\x1b")
    program.quiet(1.0)
    return taken


def filters(program: Program, when: str, aim: str) -> None:
    """A row for each kind of filter behind `state:pd`, which is in force before and after. The cockpit's own processor
    time stands with it (per key, the opening and closing ones too): that is what a busy machine stretches."""
    for kind, text in TYPED.items():
        before = cpu_s(program.pid)
        taken = sorted(one * 1000 for one in typing(program, text))
        own = 1000 * (cpu_s(program.pid) - before) / (len(taken) + 2)
        row(
            f"filter keystroke, {when}, {kind}: median / slowest of {len(taken)}", aim,
            f"{statistics.median(taken):.0f} / {taken[-1]:.0f} ms ({own:.0f} ms of processor)",
        )  # fmt: skip
        program.press(b"/state:pd\r")
        program.quiet(2)


def share(pid: int, program: Program | None, seconds: float) -> float:
    """Percent of a core that a process takes over some seconds."""
    before, began = cpu_s(pid), time.perf_counter()
    if program is None:
        time.sleep(seconds)
    else:
        program.quiet(seconds)
    return 100 * (cpu_s(pid) - before) / (time.perf_counter() - began)


def is_cursor(line: bytes) -> bool:
    """The cursor's line is the one whose first cell has another background than the theme's."""
    found = re.search(rb"48;2;\d+;\d+;\d+", line)
    return found is not None and found[0] != BACKGROUND


def measure(folder: Path, jobs: int, rate: int, env: dict[str, str]) -> None:
    """Every figure of the cockpit against a controller on `folder`."""
    controller = asyncio.run(OutsideController(folder).start())
    assert controller.process is not None
    pid = controller.process.pid
    try:
        time.sleep(20)
        row("controller, alone and idle", "", f"{share(pid, None, 10):.1f} %")
        command = [sys.executable, "-m", "flagplot", "--data-dir", str(folder), "--theme", "dark"]
        firsts, wholes, busy = [], [], []
        for index in range(4):
            program = Program(command, env)
            first = program.wait(
                lambda frame: len([1 for n in lines(frame) if n >= FIRST_ROW]) > 30 and b"train-" in frame
            )
            used = cpu_s(program.pid)
            whole = program.wait(lambda frame: f"{jobs} jobs".encode() in frame)
            if index:
                firsts.append(first - program.began)
                wholes.append(whole - program.began)
                busy.append(used)
            if index < 3:
                program.press(b"q")
                program.quiet(0.5)
                program.end()
        row("first full paint, warm (best of 3)", "< 1.0 s", f"{min(firsts):.2f} s ({min(busy):.2f} s of processor)")
        row("the whole queue there (best of 3)", "", f"{min(wholes):.2f} s")
        program.quiet(5)
        program.press(b"/state:pd\r")
        program.quiet(2)
        row("key to paint, idle: median / p95", "< 50 ms", middle_and_p95(moves(program, is_cursor)))
        filters(program, "idle", "< 100 ms")
        row("bytes a second, nothing visible changes", "0", f"{program.quiet(10) / 10:.0f}")
        row("controller, cockpit idle", "< 10 %", f"{share(pid, program, 10):.1f} %")
        load = Load(folder, [2], 1)
        load.start()
        program.quiet(2)
        drawn = program.quiet(10)
        row("bytes a second, one visible row changes a second", "< 4 KiB", f"{drawn / 10240:.2f} KiB")
        load.stop()
        under_load(folder, jobs, rate, program, pid)
        row("controller memory", "", f"{memory_mib(pid)} MiB")
        program.end()
    finally:
        controller.end()


def under_load(folder: Path, jobs: int, rate: int, program: Program, pid: int) -> None:
    """The figures while events rain."""
    load = Load(folder, list(range(jobs // 2, jobs // 2 + 20_000 // max(1, 100_000 // jobs))), rate)
    load.start()
    program.quiet(3)
    row("key to paint, under events: median / p95", "< 80 ms", middle_and_p95(moves(program, is_cursor, 100)))
    filters(program, "under events", "")
    own = share(program.pid, program, 10)
    followed = share(pid, program, 10)
    row("cockpit, under events", "", f"{own:.0f} % of a core")
    row("cockpit memory", "< 350 MiB", f"{program.memory_mib()} MiB")
    reached = load.stop()
    program.press(b"q")
    program.quiet(1)
    load = Load(folder, load.numbers, rate)
    load.start()
    time.sleep(3)
    alone = share(pid, None, 10)
    load.stop()
    row(f"controller at {reached:.0f} events/s, what the cockpit adds", "< 10 %", f"{followed - alone:.1f} %")
    row("controller under events, without a cockpit", "", f"{alone:.0f} %")


def measure_datatable(jobs: int, env: dict[str, str]) -> None:
    """The same of the built-in table."""
    program = Program([sys.executable, str(HERE / "datatable_app.py"), str(jobs)], env)
    began = program.wait(lambda frame: b"train-" in frame, 300)
    row("DataTable: first full paint", "", f"{began - program.began:.1f} s")
    deadline = time.perf_counter() + 300
    program.press(b"\x1b[B")
    program.wait(lambda frame: True, 300)
    program.quiet(min(10.0, deadline - time.perf_counter()))
    taken = []
    for _ in range(KEYS):
        pressed = program.press(b"\x1b[B")
        taken.append(program.wait(lambda frame: True, 60) - pressed)
        program.quiet(0.05)
    row("DataTable: key to paint, idle, p95", "", f"{p95(taken):.0f} ms")
    row("DataTable: memory", "", f"{program.memory_mib()} MiB")
    program.press(b"q")
    program.quiet(1)
    program.end()


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--no-datatable", action="store_true")
    parser.add_argument("--no-slurm", action="store_true")
    parser.add_argument("--turm", default="turm", help="the program, where it is not on the path")
    options = parser.parse_args()
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    env.pop("NO_COLOR", None)
    row("what", "aim", "figure")
    row("---", "---", "---")
    row("load average at the beginning", "", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="flagplot-c-") as name:
        folder = Path(name) / "data"
        folder.mkdir(mode=0o700)
        fill(folder, options.jobs, options.nodes)
        warmup = [sys.executable, "-m", "flagplotd.main", "warmup", "--data-dir", str(folder)]
        subprocess.run(warmup, env=env, check=True, capture_output=True)
        measure(folder, options.jobs, options.rate, env)
    if not options.no_datatable:
        measure_datatable(options.jobs, env)
    if not options.no_slurm:
        measure_slurm(options.jobs, row, options.turm)
    row("load average at the end", "", f"{os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
