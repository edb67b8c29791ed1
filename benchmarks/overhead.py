"""What stands between a person and their process: job and step from request to first line, cancel to last process gone.

    python benchmarks/overhead.py [--times 30]

A real controller and one agent on loopback, asked over the unix socket. Scheduling, durable writes and the way to the
node are in the figures. Beside them, in the same run, the floor: spawn and end of a bare `bash -c :`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fleet import fleet, joined, run_all, submit

from flagplot.client.connection import Connection
from flagplot.client.steps import StepClient
from flagplot_wire import requests
from flagplot_wire.job import JobSpec, Payload, Request
from flagplot_wire.steps import StepSpec

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
TREE = """#!/bin/bash
for _ in 1 2 3 4 5 6 7 8 9; do sleep 600 & done
for _ in 1 2 3 4 5 6 7 8 9; do setsid sleep 600 & done
echo $EPOCHREALTIME >$SLURM_JOB_ID.stamp
wait
"""
PROCESSES = 19
FIRST_LINE = "#!/bin/bash\necho $EPOCHREALTIME >$SLURM_JOB_ID.stamp\n"


async def until(true: Callable[[], bool], what: str) -> None:
    """Look every millisecond."""
    deadline = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come")
        await asyncio.sleep(0.001)


async def start(connection: Connection, work: Path, script: str) -> tuple[str, float]:
    """A job's number, and milliseconds from the request to the moment that the script writes down."""
    request = Request(cpus_per_task=1, mem_per_node_mib=1, time_limit_s=600)
    spec = JobSpec("b", str(work), request, stdout="/dev/null")
    began = time.time()
    submitted = await connection.ask(
        requests.Submit(spec, Payload(script, environment=ENVIRONMENT), os.urandom(8).hex())
    )
    number = str(submitted.number)
    stamp = work / f"{number}.stamp"
    await until(lambda: stamp.exists() and stamp.read_text().endswith("\n"), f"the first line of job {number}")
    return number, (float(stamp.read_text()) - began) * 1000


def of_job(number: str) -> list[int]:
    """Every process of a job, by what it has in its environment."""
    mark, found = f"FLAGPLOT_JOB_ID={number}".encode(), []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                environment = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if mark in environment.split(b"\0"):
                found.append(int(entry))
    return found


async def cancel(connection: Connection, work: Path) -> float:
    """Milliseconds from the request to cancel to the end of the last process of a job that has many."""
    number, _ = await start(connection, work, TREE)
    await until(lambda: len(of_job(number)) == PROCESSES, "the whole tree")
    descriptors = [os.pidfd_open(pid) for pid in of_job(number)]
    loop, left, gone = asyncio.get_running_loop(), set(descriptors), asyncio.Event()

    def ended(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        left.discard(descriptor)
        if not left:
            gone.set()

    for descriptor in descriptors:
        loop.add_reader(descriptor, ended, descriptor)
    began = time.perf_counter()
    await connection.ask(requests.Act("cancel", (number,)))
    await asyncio.wait_for(gone.wait(), 60)
    took = (time.perf_counter() - began) * 1000
    for descriptor in descriptors:
        os.close(descriptor)
    return took


async def step(connection: Connection, job: str) -> float:
    """Milliseconds of a whole step of one task that does nothing, from its request to its end."""
    began = time.perf_counter()
    client = StepClient(connection, lambda *_: None, print)
    await client.start(job, StepSpec("true", ("true",), ENVIRONMENT, "/"))
    code = await client.run()
    if code:
        raise RuntimeError(f"a step ended with {code}")
    return (time.perf_counter() - began) * 1000


def bare() -> float:
    """Milliseconds of a spawn and its end."""
    began = time.perf_counter()
    subprocess.run(["bash", "-c", ":"], check=True)
    return (time.perf_counter() - began) * 1000


def row(what: str, values: list[float]) -> str:
    """One line: median, 95th percentile, most."""
    ordered = sorted(values)
    return f"{what:<52}{statistics.median(ordered):>9.1f}{ordered[int(len(ordered) * 0.95)]:>9.1f}{ordered[-1]:>9.1f}"


async def main(times: int) -> None:
    """Run everything and print the table."""
    with fleet(1, 16) as made, tempfile.TemporaryDirectory(prefix="flagplot-b-") as name:
        connection = await made.connect()
        await joined(made, connection)
        one = Request(mem_per_node_mib=1, time_limit_s=600)
        await run_all(connection, await submit(connection, 16, one), 120)
        print(f"load {os.getloadavg()[0]:.1f}")
        work = Path(name)
        holder, _ = await start(connection, work, f"{FIRST_LINE}exec sleep 600\n")
        rows = {
            "bare: spawn and end of bash -c :": [bare() for _ in range(times)],
            "job: submission to the first line of its script": [
                (await start(connection, work, FIRST_LINE))[1] for _ in range(times)
            ],
            "job of one line: release to its durable end": [await run_all_of(connection, one) for _ in range(times)],
            "step of one task, request to end": [await step(connection, holder) for _ in range(times)],
            f"cancel to the last of {PROCESSES} processes gone": [await cancel(connection, work) for _ in range(times)],
        }
        print(f"{'milliseconds':<52}{'median':>9}{'p95':>9}{'most':>9}")
        for what, values in rows.items():
            print(row(what, values))
        await connection.ask(requests.Act("cancel", (holder,)))
        await connection.close()


async def run_all_of(connection: Connection, request: Request) -> float:
    """Milliseconds from the release of one job to its durable end."""
    (number,) = await submit(connection, 1, request)
    began = time.perf_counter()
    await connection.ask(requests.Act("release", (number,)))
    while not (await connection.ask(requests.GetJob(number))).jobs[0].status.state.ended:
        await asyncio.sleep(0.002)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=30)
    asyncio.run(main(parser.parse_args().times))
