"""Jobs started and finished a second on many nodes, submissions a second, controller start and memory, cold commands.

Brings up clusters of its own on loopback, prints one table, takes them down. Beside our figures, in the same run: the
same jobs by a real Slurm (by `slurm/slurm_up.sh` of the shared folder, as root), and the floor, which is the bare spawn
rate of `bash -c :`, one after another.

    python benchmarks/throughput.py [--jobs 2000] [--shared FOLDER] [--part all|cluster|single]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cpu_time import counted
from fleet import Fleet, fleet, joined, run_all, submit
from real_slurm import Unusable
from slurm_lab import lab
from support.cluster import Cluster

from flagplot.client.connection import Connection
from flagplot.client.target import resolve
from flagplot_wire import requests
from flagplot_wire.job import JobSpec, Payload, Request

NODES, SLOTS = 8, 16
SHARED = Path(__file__).resolve().parents[2] / "shared"
PAYLOAD = Payload(script="#!/bin/bash\n:\n")


def spec(name: str) -> JobSpec:
    """A minimal job; held so that submission is measured without starts."""
    request = Request(mem_per_node_mib=1, time_limit_s=600)
    return JobSpec(name=name, work_dir="/tmp", request=request, stdout="/dev/null", hold="user")


async def submit_many(data_dir: Path, count: int, connections: int) -> float:
    """Seconds that `count` submissions take over `connections` connections, one after another on each."""

    async def one(first: int) -> None:
        connection = await Connection.open(resolve(data_dir=data_dir))
        try:
            for index in range(first, count, connections):
                await connection.ask(requests.Submit(spec("s"), PAYLOAD, f"{connections}-{index}-{count}"))
        finally:
            await connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(first) for first in range(connections)))
    return time.perf_counter() - began


Clock = Callable[[], float] | None
"""Tells the processor's seconds used so far; None where that cannot be counted."""


def used(clock: Clock, before: float, jobs: int) -> str:
    """The processor's milliseconds for each job since `before`."""
    return f"{(clock() - before) * 1000 / jobs:.1f} ms" if clock is not None else "-"


async def run_many(made: Fleet, count: int, clock: Clock) -> tuple[float, str]:
    """Seconds from the release of `count` short jobs of one CPU to the durable end of the last, and their cost."""
    connection = await made.connect()
    try:
        await joined(made, connection)
        one = Request(mem_per_node_mib=1, time_limit_s=600)
        # The first jobs wait for the scheduler to be loaded.
        await run_all(connection, await submit(connection, SLOTS * NODES, one), 120)
        jobs = await submit(connection, count, one)
        before = clock() if clock is not None else 0
        return await run_all(connection, jobs, 300), used(clock, before, count)
    finally:
        await connection.close()


def cluster_rows(jobs: int, shared: Path) -> Iterator[tuple[str, str]]:
    """The same jobs on as many nodes by us and by Slurm, with the bare spawn rate before, between and after."""
    bare = [spawn_rate()]
    with counted() as clock, fleet(NODES, SLOTS) as made:
        took, cost = asyncio.run(run_many(made, jobs, clock))
    own = jobs / took
    bare.append(spawn_rate())
    yield f"{jobs} jobs on {NODES} agents × {SLOTS} slots, released to durable end", f"{own:.1f}/s"
    yield "the processor's time for each", cost
    try:
        with counted() as clock, lab(shared, NODES, SLOTS) as slurm:
            slurm.submit(SLOTS)
            slurm.run_all(60)
            slurm.submit(jobs)
            before = clock() if clock is not None else 0
            theirs = jobs / slurm.run_all(600)
            cost = used(clock, before, jobs)
        yield f"the same on {NODES} slurmds × {SLOTS} CPUs", f"{theirs:.1f}/s"
        yield "the processor's time for each", cost
        yield "times Slurm", f"{own / theirs:.1f}"
    except Unusable as why:
        yield f"Slurm was not run: {why}", "-"
    bare.append(spawn_rate())
    yield "bare spawn of bash -c :", f"{statistics.mean(bare):.0f}/s"
    yield "of the bare rate before and after ours", f"{200 * own / (bare[0] + bare[1]):.0f} %"


def spawn_rate(count: int = 300) -> float:
    """`bash -c :` started and reaped, a second."""
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run(["bash", "-c", ":"], check=True)
    return count / (time.perf_counter() - began)


def seconds(cluster: Cluster, *args: str, times: int = 7) -> float:
    """Median wall time of one cold command."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        cluster.cli(*args)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def resident_mib(pid: int) -> int:
    """Resident memory of a process, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def single_rows() -> Iterator[tuple[str, str]]:
    """A cluster of one machine by `flagplot up`: submissions, cold commands, memory."""
    with tempfile.TemporaryDirectory(prefix="flagplot-b-") as folder:
        cluster = Cluster(Path(folder))
        cluster.cli("up", "--detach", seconds=300)
        try:
            yield "submit, one connection", f"{500 / asyncio.run(submit_many(cluster.data_dir, 500, 1)):.0f}/s"
            yield "submit, eight connections", f"{1600 / asyncio.run(submit_many(cluster.data_dir, 1600, 8)):.0f}/s"
            began = time.perf_counter()
            cluster.cli("submit", "--hold", "--array=0-9999", "--wrap", "true")
            yield "array of 10,000 by the command line", f"{(time.perf_counter() - began) * 1000:.0f} ms"
            yield "cold flagplot --version", f"{seconds(cluster, '--version') * 1000:.0f} ms"
            yield "cold flagplot queue", f"{seconds(cluster, 'queue', '--json') * 1000:.0f} ms"
            yield "controller memory", f"{resident_mib(cluster.json('status')['controller']['pid'])} MiB"
            cluster.cli("down", "--cancel-jobs")
            began = time.perf_counter()
            cluster.cli("up", "--detach")
            yield "warm flagplot up --detach, agent included", f"{time.perf_counter() - began:.2f} s"
        finally:
            cluster.run("down", "--cancel-jobs")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder with slurm/slurm_up.sh")
    parser.add_argument("--part", choices=("all", "cluster", "single"), default="all")
    options = parser.parse_args()
    rows = [("load average at the start", f"{os.getloadavg()[0]:.1f}")]
    if options.part != "single":
        rows += cluster_rows(options.jobs, options.shared)
    if options.part != "cluster":
        rows += single_rows()
    width = max(len(name) for name, _ in rows)
    for name, figure in rows:
        print(f"{name:<{width}}  {figure:>10}")


if __name__ == "__main__":
    main()
