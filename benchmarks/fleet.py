"""A controller and many agents on this machine, in one folder: the nodes are simulated, the jobs' processes are real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from flagplot.client import local
from flagplot.client.connection import Connection
from flagplot.client.target import resolve
from flagplot_wire import requests
from flagplot_wire.job import JobSpec, Payload, Request

CONFIG = """[cluster]
name = "bench"

[[partition]]
name = "main"
nodes = "ALL"
default = true
"""

WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n:\n"
"""What sbatch makes of `--wrap=:`, so that both systems run the same jobs."""


class Fleet:
    """`n1` to `nN`; `processes` knows the pids of the controller and of each agent (`agent-n1`)."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.names = [f"n{index}" for index in range(1, count + 1)]
        self.processes = local.Processes(folder)

    def connect(self) -> Connection:
        """An awaitable connection of an administrator."""
        return Connection.open(resolve(data_dir=self.folder))  # type: ignore[return-value]

    def pids(self) -> dict[str, int]:
        """The pids of what was started, the controller first."""
        found = {name: self.processes.pid(name) for name in ("controller", *(f"agent-{node}" for node in self.names))}
        return {name: pid for name, pid in found.items() if pid is not None}


@contextlib.contextmanager
def fleet(count: int, cpus: int, config: str = CONFIG) -> Iterator[Fleet]:
    """Bring up `count` agents with `cpus` CPUs each, and take all of it down again by pid."""
    with tempfile.TemporaryDirectory(prefix="flagplot-b-") as name:
        folder = Path(name)
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"flagplot-numba-{os.getuid()}"))
        (folder / "flagplotd.toml").write_text(config)
        node = folder / "node.toml"
        node.write_text(f"sockets = 1\ncores = {cpus}\nmemory_mib = 65536\n")
        made = Fleet(folder, count)
        try:
            local.start_controller(folder, None, True, lambda _text: None)
            for one in made.names:
                local.start_agent(folder, one, node)
            yield made
        finally:
            made.processes.stop([f"agent-{node}" for node in made.names])
            made.processes.stop(["controller"])


async def submit(connection: Connection, count: int, request: Request, script: str = WRAPPED) -> list[str]:
    """Submit held jobs whose output is dropped; returns their numbers."""
    spec = JobSpec("b", "/tmp", request, stdout="/dev/null", hold="user")
    key = os.urandom(8).hex()
    replies = [
        await connection.ask(
            requests.Submit(spec, Payload(script, environment={"PATH": "/usr/bin:/bin"}), f"{key}-{index}")
        )
        for index in range(count)
    ]
    return [str(reply.number) for reply in replies]


async def run_all(connection: Connection, jobs: list[str], seconds: float) -> float:
    """Release jobs and wait until all of them have ended durably; returns the seconds that took."""
    began = time.perf_counter()
    await connection.ask(requests.Act("release", tuple(jobs)))
    while True:
        status = await connection.ask(requests.GetStatus(agents=False))
        if not status.pending and not status.running:
            return time.perf_counter() - began
        if time.perf_counter() - began > seconds:
            raise TimeoutError(f"{status.pending} jobs pending and {status.running} running after {seconds:.0f} s")
        await asyncio.sleep(0.05)


async def joined(made: Fleet, connection: Connection, seconds: float = 120) -> None:
    """Wait until every node answers."""
    deadline = time.monotonic() + seconds
    while True:
        nodes = await connection.ask(requests.GetNodes())
        if sum(view.node.responding for view in nodes.nodes) == len(made.names):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all of {len(made.names)} agents joined: see {made.folder}/logs")
        await asyncio.sleep(0.1)
