"""Submissions a second, jobs started and finished a second, controller start and memory, cold commands.

Brings up a cluster of its own on loopback, prints one table, takes it down. Beside our figures, in the same
run, the floor: the bare spawn rate of `bash -c :`.

    python benchmarks/throughput.py [--jobs 300]
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.cluster import Cluster

from flagplot.client.connection import Connection
from flagplot.client.target import resolve
from flagplot_wire import requests
from flagplot_wire.job import ArraySpec, JobSpec, Payload, Request

PAYLOAD = Payload(script="#!/bin/bash\n:\n")


def spec(name: str, array: ArraySpec | None = None, hold: bool = True) -> JobSpec:
    """A minimal job; held so that submission is measured without starts."""
    request = Request(mem_per_node_mib=1, time_limit_s=600)
    return JobSpec(
        name=name, work_dir="/tmp", request=request, stdout="/dev/null", array=array, hold="user" if hold else ""
    )


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


async def run_many(data_dir: Path, count: int) -> float:
    """Seconds from the release of `count` short jobs to the durable end of the last."""
    connection = await Connection.open(resolve(data_dir=data_dir))
    try:
        reply = await connection.ask(requests.Submit(spec("r", ArraySpec(f"0-{count - 1}")), PAYLOAD, f"run-{count}"))
        number = str(reply.number)  # type: ignore[union-attr]
        began = time.perf_counter()
        await connection.ask(requests.Act("release", (number,)))
        while True:
            jobs = await connection.ask(requests.GetJob(number))
            array = next(job for job in jobs.jobs if str(job.number) == number)  # type: ignore[union-attr]
            if array.status.state.ended:
                return time.perf_counter() - began
            await asyncio.sleep(0.1)
    finally:
        await connection.close()


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


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    options = parser.parse_args()
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="flagplot-b-") as folder:
        cluster = Cluster(Path(folder))
        cluster.cli("up", "--detach", seconds=300)
        try:
            rows.append(("bare spawn of bash -c :", f"{spawn_rate():.0f}/s"))
            rows.append(("submit, one connection", f"{500 / asyncio.run(submit_many(cluster.data_dir, 500, 1)):.0f}/s"))
            rows.append(
                ("submit, eight connections", f"{1600 / asyncio.run(submit_many(cluster.data_dir, 1600, 8)):.0f}/s")
            )
            began = time.perf_counter()
            cluster.cli("submit", "--hold", "--array=0-9999", "--wrap", "true")
            rows.append(("array of 10,000 by the command line", f"{(time.perf_counter() - began) * 1000:.0f} ms"))
            rows.append(
                (
                    f"{options.jobs} jobs started and finished",
                    f"{options.jobs / asyncio.run(run_many(cluster.data_dir, options.jobs)):.1f}/s",
                )
            )
            rows.append(("cold flagplot --version", f"{seconds(cluster, '--version') * 1000:.0f} ms"))
            rows.append(("cold flagplot queue", f"{seconds(cluster, 'queue', '--json') * 1000:.0f} ms"))
            rows.append(("controller memory", f"{resident_mib(cluster.json('status')['controller']['pid'])} MiB"))
            cluster.cli("down", "--cancel-jobs")
            began = time.perf_counter()
            cluster.cli("up", "--detach")
            rows.append(("warm flagplot up --detach, agent included", f"{time.perf_counter() - began:.2f} s"))
        finally:
            cluster.run("down", "--cancel-jobs")
    width = max(len(name) for name, _ in rows)
    for name, figure in rows:
        print(f"{name:<{width}}  {figure:>10}")


if __name__ == "__main__":
    main()
