"""The agent's own cost: from Launch to the first instruction of a job, from Stop to its last process gone.

A real agent and keeper on loopback, a controller that only speaks the frames. Beside our figures, in the same
run, the floor: a bare spawn of `bash -c :`. Prints one table.

    python benchmarks/launch.py [--jobs 100]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.agent_fake_controller import Rig, alive, until

from flagplot_wire import agentlink as al
from flagplot_wire.ids import Epoch, JobNumber

STAMP = "#!/bin/bash\necho $EPOCHREALTIME $$ >$SLURM_JOB_ID.stamp\nexec sleep 300\n"


def bare(count: int) -> list[float]:
    """Milliseconds of each spawn of `bash -c :` and its end."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        subprocess.run(["bash", "-c", ":"], check=True)
        found.append((time.perf_counter() - began) * 1000)
    return found


async def one_by_one(rig: Rig, first: int, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds from Launch to the first line of the script, and from Stop to the process gone."""
    starts, stops = [], []
    for number in range(first, first + count):
        began = time.time()
        rig.launch(number, STAMP, stdout="/dev/null")
        stamp = await until(lambda number=number: rig.out(f"{number}.stamp").split(), 20, "a first line")
        starts.append((float(stamp[0]) - began) * 1000)
        await rig.controller.started(number)
        descriptor = os.pidfd_open(int(stamp[1]))
        began = time.time()
        rig.controller.send(al.Stop(Epoch(1), JobNumber(number), 1, 30, "CANCELLED"))
        await gone(descriptor)
        stops.append((time.time() - began) * 1000)
    return starts, stops


async def gone(descriptor: int) -> None:
    """Wait for a process to end, by a descriptor that tells at once; closes it."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), 20)
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def burst(rig: Rig, first: int, count: int) -> float:
    """Seconds from the first of many Launches to the last durable end."""
    began = time.perf_counter()
    for number in range(first, first + count):
        rig.launch(number, "#!/bin/bash\n:\n", stdout="/dev/null")
    for number in range(first, first + count):
        await rig.controller.end(number, seconds=120)
    return time.perf_counter() - began


async def restart(rig: Rig) -> float:
    """Milliseconds from the start of an agent to its hello, after a kill."""
    rig.kill()
    began = time.perf_counter()
    await rig.start()
    return (time.perf_counter() - began) * 1000


def row(what: str, values: list[float]) -> str:
    """One line: median, 95th percentile, maximum."""
    ordered = sorted(values)
    return f"{what:<44}{statistics.median(ordered):>9.1f}{ordered[int(len(ordered) * 0.95)]:>9.1f}{ordered[-1]:>9.1f}"


async def main(jobs: int) -> None:
    """Run everything and print the table."""
    folder = Path(tempfile.mkdtemp(prefix="flagplot-b-"))
    rig = Rig(folder)
    await rig.controller.open()
    await rig.start()
    try:
        await one_by_one(rig, 1, 3)
        starts, stops = await one_by_one(rig, 1000, jobs)
        floor = bare(jobs)
        seconds = await burst(rig, 5000, jobs * 3)
        again = [await restart(rig) for _ in range(5)]
        keeper = rig.keeper_pid()
        assert alive(keeper)
        pages = int(Path(f"/proc/{keeper}/statm").read_text().split()[1])
        print(f"{'milliseconds':<44}{'median':>9}{'p95':>9}{'most':>9}")
        print(row("bare: spawn and end of bash -c :", floor))
        print(row("Launch to the first line of the script", starts))
        print(row("Stop to the last process gone", stops))
        print(row("start of an agent after a kill to its hello", again))
        print(f"{f'{jobs * 3} jobs at once, to the last durable end':<44}{jobs * 3 / seconds:>9.0f} jobs/s")
        print(f"{'bare spawns':<44}{1000 / statistics.mean(floor):>9.0f} /s")
        print(f"{'the keeper holds':<44}{pages * os.sysconf('SC_PAGESIZE') / 2**20:>9.1f} MiB")
    finally:
        await rig.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=100)
    asyncio.run(main(options.parse_args().jobs))
