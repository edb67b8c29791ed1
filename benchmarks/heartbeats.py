"""Many agents against one controller: how late heartbeats come, and what an idle agent costs.

    python benchmarks/heartbeats.py [--agents 128] [--seconds 60] [--real]

The controller is the real one, in this process, so that the arrival of each heartbeat can be noted; the agents are
processes of their own with simulated nodes (or, with `--real`, with what this machine has). All are ended by pid.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from fleet import CONFIG

from flagplot.client import local
from flagplot_wire import agentlink
from flagplotd.config import load_config
from flagplotd.controller import Controller
from flagplotd.service.agents import Agents
from flagplotd.ssh.keys import prepare

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def noting(arrivals: dict[str, list[float]]) -> None:
    """Note from now on when heartbeats come in, by node."""
    take = Agents._take

    def noted(self: Agents, link: object, body: object) -> None:
        if isinstance(body, agentlink.Heartbeat):
            arrivals.setdefault(link.node, []).append(time.monotonic())  # type: ignore[attr-defined]
        take(self, link, body)  # type: ignore[arg-type]

    Agents._take = noted  # type: ignore[method-assign]


def cpu_s(pid: int) -> float:
    """The processor's seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20


async def measure(folder: Path, names: list[str], node: Path | None, seconds: float) -> None:
    """Start everything, wait until all have joined, watch for a while, print."""
    controller = Controller(folder, load_config(folder / "flagplotd.toml"), prepare(folder), simulated=True)
    processes = local.Processes(folder)
    arrivals: dict[str, list[float]] = {}
    noting(arrivals)
    serving = asyncio.create_task(controller.run())
    try:
        while local.ready_file(folder) is None:
            await asyncio.sleep(0.05)
        began = time.monotonic()
        for name in names:
            local.start_agent(folder, name, node)
            # The door lets in so many strangers at a time: a node's clock is not what starts 128 of them at once.
            while (
                len(controller.server.agents.links) < len([one for one in names if processes.pid(f"agent-{one}")]) - 8
            ):
                await asyncio.sleep(0.02)
        while len(controller.server.agents.links) < len(names):
            await asyncio.sleep(0.1)
        joined = time.monotonic() - began
        await controller.server.cycle.compiled.wait()
        await asyncio.sleep(5)
        arrivals.clear()
        pids = [pid for name in names if (pid := processes.pid(f"agent-{name}"))]
        before, own = [cpu_s(pid) for pid in pids], time.process_time()
        began = time.monotonic()
        await asyncio.sleep(seconds)
        passed = time.monotonic() - began
        shares = [(cpu_s(pid) - cpu) * 100 / passed for pid, cpu in zip(pids, before, strict=True)]
        every = controller.server.config.heartbeat_s
        late = [(after - first - every) * 1000 for times in arrivals.values() for first, after in pairwise(times)]
        late.sort()
        expected = passed / every
        print(
            f"agents joined (of {len(names)}): {len(controller.server.agents.links)}, after {joined:.1f} s; load {os.getloadavg()[0]:.1f}"
        )
        print(f"heartbeats of the agent that sent fewest: {min(map(len, arrivals.values()))} of {expected:.0f}")
        print(
            f"later than {every} s after the one before, ms: median {statistics.median(late):.1f}, "
            f"p99 {late[int(len(late) * 0.99)]:.1f}, most {late[-1]:.1f}"
        )
        print(f"controller, share of a core: {(time.process_time() - own) * 100 / passed:.1f} %")
        print(f"agent, share of a core: median {statistics.median(shares):.2f} %, most {max(shares):.2f} %")
        resident = [resident_mib(pid) for pid in pids]
        print(f"agent, resident: median {statistics.median(resident):.1f} MiB, most {max(resident):.1f} MiB")
    finally:
        await asyncio.to_thread(processes.stop, [f"agent-{name}" for name in names])
        controller.server.stopping.set()
        await serving


def main() -> None:
    """Set a folder up and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--real", action="store_true", help="do not simulate the nodes")
    options = parser.parse_args()
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"flagplot-numba-{os.getuid()}"))
    with tempfile.TemporaryDirectory(prefix="flagplot-b-") as name:
        folder = Path(name)
        (folder / "flagplotd.toml").write_text(CONFIG)
        node = folder / "node.toml"
        node.write_text(
            'sockets = 2\ncores = 64\nmemory_mib = 515000\ngpus = [{type = "h100", count = 8, vram_mib = 81559}]\n'
        )
        names = [f"n{index}" for index in range(1, options.agents + 1)]
        asyncio.run(measure(folder, names, None if options.real else node, options.seconds))


if __name__ == "__main__":
    main()
