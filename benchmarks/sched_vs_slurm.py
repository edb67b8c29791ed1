"""The scheduler beside a real Slurm's: the same nodes and jobs given to both, in one run.

Brings up slurmctld (22.05 of Debian) on loopback with cloud nodes of 8 GPUs that never wake, so that jobs are
allocated and none is launched. Two questions to each system: how many jobs a second it places on an empty
cluster, and how many pending jobs a second a backfill cycle examines on a full one. Needs root, as slurmctld does
here; where Slurm is missing, the lab script of the shared folder installs it.

    python benchmarks/sched_vs_slurm.py [--nodes 1000,5000] [--jobs 10000] [--seed 1] [--shared PATH]
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from real_slurm import CPUS, GPUS, MEMORY_MIB, SCHEDULER, Slurm, Unusable, folder_of_its_own, install, installed

from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import GpuCount, Job, JobSpec, Request, Status
from flagplot_wire.node import Gpu, Inventory, Node, NumaNode, Partition
from flagplotd.core.apply import apply
from flagplotd.core.state import State
from flagplotd.core.step import step
from flagplotd.core.stimuli import Planned
from flagplotd.sched.plan import Plan, Policy, plan
from flagplotd.sched.snapshot import take
from flagplotd.sched.standing import Standing
from flagplotd.sched.warmup import compile_all

NOW = 1_700_000_000
AIM = 500
"""How many times faster than Slurm we mean to be."""
PAUSE_S = 5
"""So long without a placement ends the count."""
FILLERS = 20
"""Jobs that fill the cluster, each with its part of the nodes; they end one hour after another."""


def cycle(state: State, standing: Standing) -> Plan:
    """One scheduling cycle, as the controller runs it, with the snapshot that it keeps."""
    standing.sync(state, NOW)
    return plan(standing.snapshot(), Policy())


def cycle_anew(state: State) -> Plan:
    """The first cycle after a start: the snapshot is made of nothing."""
    return plan(take(state, NOW), Policy())


@dataclass(frozen=True)
class Ask:
    """What a job asks for: nodes, and CPUs, GPUs and memory on each; the time limit in minutes."""

    nodes: int
    gpus: int
    cpus: int
    memory_mib: int
    minutes: int

    def options(self, partition: str) -> list[str]:
        """For sbatch."""
        words = ["-p", partition, "-N", str(self.nodes), "--ntasks-per-node=1", "-c", str(self.cpus)]
        words += [f"--mem={self.memory_mib}", "-t", str(self.minutes)]
        return words + ([f"--gpus-per-node={self.gpus}"] if self.gpus else [])

    def request(self) -> Request:
        """For us."""
        return Request(
            nodes_min=self.nodes, nodes_max=self.nodes, tasks_per_node=1, cpus_per_task=self.cpus,
            mem_per_node_mib=self.memory_mib, gpus_per_node=(GpuCount(self.gpus),) if self.gpus else (),
            time_limit_s=self.minutes * 60,
        )  # fmt: skip


KINDS = {(1, 1): 35, (1, 2): 15, (1, 4): 15, (1, 8): 15, (1, 0): 10, (2, 8): 6, (4, 8): 4}
"""Weights of (nodes, GPUs on each)."""


def mix(count: int, seed: int) -> list[Ask]:
    """The jobs: one to eight GPUs, CPUs alone, gangs of two and four nodes; round figures, as people write them."""
    dice = random.Random(seed)
    asks = []
    for nodes, gpus in dice.choices(list(KINDS), list(KINDS.values()), k=count):
        if gpus:
            cpus, memory = gpus * dice.choice((1, 4, 8, 12)), gpus * dice.choice((16_000, 32_000, 64_000, 100_000))
        else:
            cpus, memory = dice.choice((1, 4, 16, 32)), dice.choice((4_000, 16_000, 64_000))
        asks.append(Ask(nodes, gpus, cpus, memory, dice.choice((10, 30, 60, 120, 240, 480, 720, 1440))))
    return asks


def fillers(nodes: int) -> list[Ask]:
    """Jobs that take every node whole."""
    sizes = [nodes // FILLERS + (index < nodes % FILLERS) for index in range(FILLERS)]
    return [Ask(size, GPUS, CPUS, MEMORY_MIB, 60 * (index + 1)) for index, size in enumerate(sizes) if size]


@dataclass
class Figures:
    """What one system did: jobs placed on an empty cluster, jobs examined on a full one, and the seconds of each.

    `cpu_s` are the processor's seconds while placing: far less than `place_s` means that the machine was busy.
    """

    system: str
    nodes: int
    placed: int
    place_s: float
    cpu_s: float
    examined: int
    examine_s: float

    @property
    def placed_per_s(self) -> float:
        """Placements a second."""
        return self.placed / self.place_s

    @property
    def examined_per_s(self) -> float:
        """Pending jobs examined a second."""
        return self.examined / self.examine_s

    def row(self) -> str:
        """A line of the table."""
        return (
            f"{self.system:<26}{self.nodes:>7,}{self.placed:>9,}{self.place_s:>10.3f}{self.cpu_s:>9.3f}"
            f"{self.placed_per_s:>10,.0f}"
            f"{self.examined:>10,}{self.examine_s:>10.3f}{self.examined_per_s:>13,.1f}"
        )


HEAD = (
    f"{'system':<26}{'nodes':>7}{'placed':>9}{'seconds':>10}{'cpu s':>9}{'placed/s':>10}{'examined':>10}"
    f"{'seconds':>10}{'examined/s':>13}"
)


def cluster(nodes: int) -> State:
    """A state of `nodes` empty nodes, all connected, in one partition."""
    state = State()
    apply(state, ev.PartitionChanged(Partition("main", all_nodes=True, default=True)))
    half = CPUS // 2
    numa = tuple(NumaNode(index, f"{index * half}-{index * half + half - 1}", MEMORY_MIB // 2) for index in range(2))
    for number in range(1, nodes + 1):
        gpus = tuple(
            Gpu(index, f"GPU-{number}-{index}", "h100", vram_mib=81_559, numa=index * 2 // GPUS)
            for index in range(GPUS)
        )
        inventory = Inventory(f"boot-{number}", 2, CPUS, 1, f"0-{CPUS - 1}", MEMORY_MIB, numa, gpus)
        apply(state, ev.NodeChanged(Node(f"n{number}", inventory, responding=True), "registered"))
    return state


def pend(state: State, asks: Sequence[Ask]) -> None:
    """Add pending jobs, as records."""
    for number, ask in enumerate(asks, state.next_number):
        spec = JobSpec("bench", "/", ask.request(), "main")
        status = Status(submit_time=NOW, eligible_time=NOW)
        apply(state, ev.JobAdded(Job(JobNumber(number), "nobody", 65_534, spec, status)))


def full(nodes: int) -> State:
    """A cluster whose nodes are all held."""
    state = cluster(nodes)
    pend(state, fillers(nodes))
    while starts := cycle_anew(state).starts:
        step(state, Planned(starts, ()), NOW)
    held = sum(len(use.jobs) for use in state.use.values())
    if held != nodes:
        raise AssertionError(f"the cluster is not full: {held} of {nodes} nodes are held")
    return state


def timed(action: Callable[[], Plan], times: int = 5, most_s: float = 10) -> tuple[Plan, float, float]:
    """The result and the median seconds, passed and of the processor, of an action that changes nothing.

    Fewer times when it is slow.
    """
    taken: list[float] = []
    busy: list[float] = []
    while not taken or (len(taken) < times and sum(taken) < most_s):
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        result = action()
        taken.append(time.perf_counter() - began)
        busy.append(time.process_time() - cpu)
    return result, statistics.median(taken), statistics.median(busy)


def say(text: str) -> None:
    """Progress, beside the table."""
    print(f"[{time.strftime('%H:%M:%S')}, load {os.getloadavg()[0]:.1f}] {text}", file=sys.stderr, flush=True)


def ours(nodes: int, asks: Sequence[Ask]) -> list[Figures]:
    """Our figures: the cycle alone; with its starts re-checked and entered in the state as well; and the first after a
    start, which makes its snapshot of nothing."""
    compile_all(lambda *_: None)
    state = cluster(nodes)
    pend(state, asks)
    standing = Standing()
    standing.sync(state, NOW)
    empty, place_s, cpu_s = timed(lambda: cycle(state, standing))
    anew, anew_s, anew_cpu_s = timed(lambda: cycle_anew(state))
    if anew.starts != empty.starts:
        raise AssertionError("the kept snapshot and one made anew lead to different starts")
    began, cpu = time.perf_counter(), time.process_time()
    step(state, Planned(empty.starts, empty.forecasts), NOW)
    enter_s, enter_cpu_s = time.perf_counter() - began, time.process_time() - cpu
    if len(state.active) != len(empty.starts):
        raise AssertionError(f"{len(empty.starts)} starts planned, {len(state.active)} hold when checked again")

    state = full(nodes)
    pend(state, asks)
    standing = Standing()
    standing.sync(state, NOW)
    blocked, examine_s, _ = timed(lambda: cycle(state, standing))
    _, first_s, _ = timed(lambda: cycle_anew(state))
    if blocked.starts:
        raise AssertionError(f"{len(blocked.starts)} jobs start on a full cluster")
    placed, examined = len(empty.starts), blocked.examined
    return [
        Figures("flagplot", nodes, placed, place_s, cpu_s, examined, examine_s),
        Figures("flagplot, starts entered", nodes, placed, place_s + enter_s, cpu_s + enter_cpu_s, examined, examine_s),
        Figures("flagplot, made anew", nodes, placed, anew_s, anew_cpu_s, examined, first_s),
    ]


def slurm_places(slurm: Slurm, keep: Path, nodes: int, jobs: int, window_s: float) -> tuple[int, float, float]:
    """Jobs that Slurm placed on an empty cluster after the first; the seconds from it to the last, the processor's.

    Ends with the window, with the last job or at the first pause: what backfill fits into the last gaps of a
    nearly full cluster, seconds later, would make Slurm look slower than it is.
    """
    slurm.start(nodes, keep)
    try:
        waiting = slurm.count("PD")
        if waiting != jobs:
            raise Unusable(f"slurmctld kept {waiting} of the {jobs} jobs")
        slurm.partition("main", "up")
        first, last = placements(slurm, jobs, window_s)
        allocated = slurm.count("R,CF")
        if allocated < last.started:
            raise AssertionError(f"sdiag tells of {last.started} started jobs, squeue of {allocated} allocated ones")
    finally:
        slurm.stop()
    return last.started - first.started, last.at - first.at, last.cpu_s - first.cpu_s


class Mark(NamedTuple):
    """A moment of Slurm's placing: the time, the processor's seconds used so far, the jobs started so far."""

    at: float
    cpu_s: float
    started: int


def placements(slurm: Slurm, jobs: int, window_s: float) -> tuple[Mark, Mark]:
    """The first placement seen and the last."""
    opened = time.perf_counter()
    seen = [Mark(opened, 0.0, 0)]
    mark = seen[0]
    while mark.at - seen[-1].at < (PAUSE_S if len(seen) > 1 else 60):
        started = slurm.diag().started
        mark = Mark(time.perf_counter(), slurm.cpu_s(), started)
        if started > seen[-1].started:
            seen.append(mark)
        if started == jobs or (len(seen) > 1 and mark.at - seen[1].at > window_s):
            break
        time.sleep(0.1)
    if len(seen) < 3:
        raise Unusable(f"Slurm placed {seen[-1].started} jobs in {mark.at - opened:.0f} s, too few to tell its pace")
    return seen[1], seen[-1]


def slurm_examines(slurm: Slurm, keep: Path, nodes: int, window_s: float) -> tuple[int, float]:
    """Jobs that a backfill cycle of Slurm looked at on a full cluster, and its seconds without its pauses."""
    slurm.start(nodes, keep)
    try:
        asks = fillers(nodes)
        slurm.submit([ask.options("full") for ask in asks], clients=1)
        until = time.monotonic() + 60
        while slurm.count("R,CF", "full") < len(asks):
            if time.monotonic() > until:
                raise Unusable("the jobs that should fill the cluster were not placed in 60 s")
            time.sleep(0.5)
        slurm.partition("main", "up")
        before, until = slurm.diag().cycles, time.monotonic() + window_s
        while (diag := slurm.diag()).cycles == before or not diag.depth:
            if time.monotonic() > until:
                raise Unusable(f"no backfill cycle ended in {window_s:.0f} s")
            time.sleep(0.5)
        if started := slurm.count("R,CF"):
            raise AssertionError(f"{started} jobs started on a full cluster")
        return diag.depth, diag.last_us / 1e6
    finally:
        slurm.stop()


def compare(options: argparse.Namespace) -> list[Figures]:
    """Run everything; prints the table as it grows."""
    asks = mix(options.jobs, options.seed)
    found: list[Figures] = []
    with folder_of_its_own() as folder:
        slurm = Slurm(folder, options.scheduler)
        try:
            slurm.munge()
            slurm.start(8)
            seconds = slurm.submit([ask.options("main") for ask in asks])
            slurm.stop()
            keep = slurm.keep("held")
            say(f"seed {options.seed}; {options.jobs:,} jobs submitted to Slurm in {seconds:.0f} s")
            print(HEAD)
            for nodes in options.nodes:
                say(f"{nodes:,} nodes: Slurm places")
                placed = slurm_places(slurm, keep, nodes, options.jobs, options.window)
                say(f"{nodes:,} nodes: Slurm examines")
                examined = slurm_examines(slurm, keep, nodes, options.window + 60)
                theirs = Figures("slurm", nodes, *placed, *examined)
                say(f"{nodes:,} nodes: our turn")
                mine = ours(nodes, asks)
                for figures in (theirs, *mine):
                    print(figures.row())
                for figures in mine:
                    print(ratio(figures, theirs), flush=True)
                found += [theirs, *mine]
        finally:
            slurm.close()
    return found


def ratio(figures: Figures, theirs: Figures) -> str:
    """A line that says how many times faster than Slurm, and whether that is what we aim at."""
    places = figures.placed_per_s / theirs.placed_per_s
    examines = figures.examined_per_s / theirs.examined_per_s
    words = "both reach" if min(places, examines) >= AIM else "not both reach"
    return (
        f"{figures.system} / slurm at {figures.nodes:,} nodes: {places:,.0f} times the placements, "
        f"{examines:,.0f} times the jobs examined; {words} {AIM}"
    )


def numbers(text: str) -> list[int]:
    """`1000,5000`."""
    return [int(word) for word in text.split(",")]


def main() -> None:
    """Read the options, find Slurm, measure."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=numbers, default=[1000, 5000], help="sizes of the cluster")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--window", type=float, default=60, help="seconds for which Slurm's placements are counted")
    parser.add_argument("--scheduler", default=SCHEDULER, help="Slurm's SchedulerParameters (default: %(default)s)")
    parser.add_argument("--shared", type=Path, default=beside, help="the folder with slurm/slurm_up.sh")
    options = parser.parse_args()
    if os.geteuid():
        sys.exit("sched_vs_slurm: slurmctld and munged must run as root here; nothing was measured")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if not installed():
            install(options.shared)
        compare(options)
    except Unusable as problem:
        sys.exit(f"sched_vs_slurm: {problem}")


if __name__ == "__main__":
    main()
