"""What a step costs: its launch on two nodes, the whole command, and how fast output comes back.

    python benchmarks/steps.py

It brings up a fleet of two simulated nodes in a folder of its own, measures over its unix socket, and takes it down.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flagplot.client.connection import Connection
from flagplot.client.steps import StepClient
from flagplot.client.target import resolve
from flagplot_wire.steps import StepSpec

FLAGPLOT = [sys.executable, "-P", "-m", "flagplot"]
STEPS = 50
BYTES = 500_000_000
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def cli(*words: str) -> str:
    return subprocess.run([*FLAGPLOT, *words], check=True, capture_output=True, text=True, cwd="/").stdout.strip()


async def measure(job: str, folder: Path) -> tuple[list[float], float]:
    """Seconds of each step of two tasks on two nodes, and bytes a second of one task's output."""
    connection = await Connection.open(resolve(data_dir=folder))
    took: list[float] = []
    for _ in range(STEPS):
        began = time.perf_counter()
        step = StepClient(connection, lambda *_: None, print)
        await step.start(job, StepSpec("true", ("true",), ENVIRONMENT, "/"))
        assert await step.run() == 0
        took.append(time.perf_counter() - began)
    came = 0

    def output(error: bool, rank: int, data: bytes) -> None:
        nonlocal came
        came += len(data)

    began = time.perf_counter()
    step = StepClient(connection, output, print)
    await step.start(job, StepSpec("head", ("head", "-c", str(BYTES), "/dev/zero"), ENVIRONMENT, "/", tasks=1))
    assert await step.run() == 0 and came == BYTES
    rate = came / (time.perf_counter() - began)
    await connection.close()
    return took, rate


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="flagplot-b-") as name:
        os.environ["FLAGPLOT_DATA_DIR"] = name
        cli("up", "--detach", "--demo", "--nodes", "2", "--no-jobs")
        try:
            job = cli("submit", "--parsable", "-N2", "-n2", "-o", "/dev/null", "--wrap", "sleep 3600")
            while '"RUNNING"' not in cli("show", "job", job, "--json"):
                time.sleep(0.1)
            took, rate = asyncio.run(measure(job, Path(name)))
            commands = []
            for _ in range(10):
                began = time.perf_counter()
                cli("run", "--jobid", job, "true")
                commands.append(time.perf_counter() - began)
        finally:
            cli("down", "--cancel-jobs")
    print(
        f"a step of two tasks on two nodes, ms: median {statistics.median(took) * 1e3:.0f}, most {max(took) * 1e3:.0f}"
    )
    print(f"the whole command `flagplot run true`, ms: median {statistics.median(commands) * 1e3:.0f}")
    print(f"output of one task, MB/s: {rate / 1e6:.0f}")


if __name__ == "__main__":
    main()
