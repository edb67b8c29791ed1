"""One scheduling cycle of the kernels at scale, beside a floor: one sort of the queue and one sweep over the nodes.

The cluster is nearly full: `--free` per thousand of its GPUs are idle. Limits, licenses, a tree of switches, NUMA domains,
a reservation of a twentieth of the nodes, masks of partitions and constraints, gangs, shares and all reasons are on. What is
timed, in seconds of the processor, is what a cycle does once the arrays of the snapshot are there: ordering the jobs,
making the bounds, the pass itself.

After it so many jobs end, early, each on another node. What is timed there is from the figures of that node to what starts on
it (`Ending.at`); `known` are the ends after which nothing was left to a whole cycle, `+` the starts at an end in all.

    python benchmarks/bench_sched.py [--sizes small,medium,large,huge] [--free 2] [--seed 1] [--runs 3] [--ends 400]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from flagplotd.sched.arrays import Arrays
from flagplotd.sched.ending import Ending
from flagplotd.sched.kernel import layout as at
from flagplotd.sched.kernel.cycle import cycle, prepare
from flagplotd.sched.kernel.gang import SWITCH
from flagplotd.sched.kernel.sorting import places
from flagplotd.sched.kernel.timeline import link_all
from flagplotd.sched.plan import Ran
from flagplotd.sched.typical import typical_of

GPUS, CPUS, MEMORY, NUMA, LEAF = 8, 128, 1_000_000, 2, 32
NOW, ACCOUNTS, LICENSES, STARTS = 1_000_000, 1_000, 2, 65_536


@dataclass(frozen=True)
class Size:
    """Pending jobs, nodes, planned starts, distinct shapes, and the aims in milliseconds and, at an end, microseconds."""

    jobs: int
    nodes: int
    reservations: int
    shapes: int
    aim_ms: float
    aim_us: float = 0


SIZES = {
    "small": Size(10_000, 1_000, 100, 2_000, 15, 20),
    "medium": Size(100_000, 10_000, 100, 5_000, 120, 50),
    "large": Size(1_000_000, 10_000, 1_000, 20_000, 600, 50),
    "huge": Size(1_000_000, 100_000, 100, 20_000, 1_500, 100),
}


class World:
    """The arrays of a cluster and its queue."""

    def __init__(self, size: Size, free: float, seed: int) -> None:
        self.size, self.dice = size, np.random.default_rng(seed)
        self._nodes(free)
        self._shapes()
        self._queue()

    def _nodes(self, free: float) -> None:
        count, dice = self.size.nodes, self.dice
        rows = count + LICENSES
        self.nodes = np.zeros(rows, at.NODE)
        self.nodes["head"] = self.nodes["leaf"] = self.nodes["block"] = -1
        self.nodes["cpus"], self.nodes["mems"], self.nodes["up"] = CPUS, MEMORY, 1
        leaves = -(-count // LEAF)
        self.nodes["leaf"][:count] = np.arange(count) // LEAF
        self.switches = np.zeros(leaves + 1, SWITCH)
        self.switches["parent"], self.switches["level"][leaves] = leaves, 1
        self.switches["parent"][leaves] = -1
        self.cards = np.zeros((rows, GPUS), at.CARD)
        self.cards["of"][:count] = self.cards["ok"][:count] = 8
        self.cards["vram"][:count], self.cards["numa"][:count] = 80_000, np.arange(GPUS) * NUMA // GPUS
        busy = dice.random((count, GPUS)) >= free
        self.g_free = np.zeros((rows, GPUS), np.int32)
        self.g_free[:count] = np.where(busy, 0, 8)
        self.c_numa = np.zeros((rows, NUMA), np.int64)
        for domain in range(NUMA):
            mine = slice(domain * GPUS // NUMA, (domain + 1) * GPUS // NUMA)
            self.c_numa[:count, domain] = CPUS // NUMA - 16 * busy[:, mine].sum(axis=1)
        self.nodes["cpu"][:count] = CPUS - 16 * busy.sum(axis=1)
        self.nodes["mem"][:count] = MEMORY - 120_000 * busy.sum(axis=1)
        self.nodes["cpu"][count:] = 100
        self._events(busy)

    def _events(self, busy: Any) -> None:
        row, gpu = np.nonzero(busy)
        self.busy = row
        reserved = np.arange(0, self.size.nodes, 20)
        ends, holds = len(row), 2 * len(reserved)
        room = STARTS + 64 * self.size.reservations
        self.events = np.zeros(ends + holds + room, at.EVENT)
        self.e_gpu = np.zeros((len(self.events), GPUS + NUMA), np.int32)
        self.events["res"] = self.events["job"] = -1
        some = self.events[:ends]
        some["time"], some["sign"] = NOW + self.dice.integers(60, 86_400, ends), 1
        some["cpu"], some["mem"] = 16, 120_000
        self.e_gpu[np.arange(ends), gpu] = 8
        shut = self.events[ends : ends + holds]
        shut["time"], shut["res"] = NOW + np.tile([36_000, 72_000], len(reserved)), 0
        shut["sign"], shut["shut"] = np.tile([-1, 1], len(reserved)), np.tile([1, -1], len(reserved))
        self.tail = np.array([ends + holds, 0])
        link_all(self.nodes, self.events, np.concatenate([row, np.repeat(reserved, 2)]))

    def _shapes(self) -> None:
        count, dice, nodes = self.size.shapes, self.dice, self.size.nodes
        shapes = self.shapes = np.zeros(count, at.SHAPE)
        gpus = dice.choice([0, 1, 2, 4, 8], count, p=[0.1, 0.4, 0.2, 0.15, 0.15])
        shares = (gpus == 0) & (dice.random(count) < 0.3)
        shapes["cpu"], shapes["mem"] = dice.integers(1, 32, count), dice.integers(1, 200, count) * 1_000
        shapes["gpus"], shapes["kinds"], shapes["kind"], shapes["stype"] = gpus, gpus > 0, -1, -1
        shapes["count"][:, 0], shapes["shards"] = gpus, np.where(shares, dice.integers(1, 8, count), 0)
        gang = dice.random(count) < 0.1
        shapes["least"] = shapes["most"] = np.where(gang, dice.choice([2, 4, 8, 16], count), 1)
        shapes["limit"], shapes["res"], shapes["closes"] = dice.integers(5, 1_440, count) * 60, -1, at.NEVER
        shapes["licenses"], shapes["seats"][:, 0] = dice.random(count) < 0.02, 1
        per = np.stack([np.ones(count), np.ones(count), shapes["cpu"], gpus], axis=1).astype(np.int64)
        shapes["need"][:, :4] = per * shapes["least"][:, None]
        shapes["need"][:, 0] = 1
        shapes["mask"] = dice.choice(4, count, p=[0.7, 0.1, 0.1, 0.1])
        bits = np.zeros((4, -(-nodes // 64) * 64), np.uint8)
        bits[0, :nodes], bits[1, : nodes // 2] = 1, 1
        bits[2, :nodes], bits[3, :nodes] = dice.random(nodes) < 0.5, dice.random(nodes) < 0.1
        self.masks = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)

    def _queue(self) -> None:
        count, dice = self.size.jobs, self.dice
        self.jobs = np.zeros(count, at.JOB)
        self.jobs["shape"], self.jobs["count"] = dice.integers(0, self.size.shapes, count), 1
        self.jobs["chain"], self.jobs["held"] = dice.integers(0, ACCOUNTS, count), -1
        self.priority = dice.integers(0, 1 << 32, count)
        self.c_first = np.arange(0, 3 * ACCOUNTS + 1, 3)
        self.c_scope = dice.integers(0, 3 * ACCOUNTS, 3 * ACCOUNTS)
        self.used, self.most = np.zeros((3 * ACCOUNTS, at.USED), np.int64), np.full((3 * ACCOUNTS, at.USED), -1)
        self.most[:, 3] = dice.integers(0, 2_000, 3 * ACCOUNTS)

    def cycle(self) -> tuple[float, Any, int]:
        """One cycle; its seconds, the answers and the rows written. Changes the arrays: once only."""
        ints, blocks, count = np.int64, self.masks.shape[1], self.size.nodes
        free, first = np.zeros((at.LEVELS, blocks), np.uint64), np.zeros((at.BOUNDS, blocks), ints)
        when, run = np.zeros((at.BOUNDS, count), ints), np.zeros(GPUS, np.int32)
        out, out_gpu = np.zeros((STARTS, 3), ints), np.zeros((STARTS, GPUS), np.int32)
        answers, most = np.zeros(len(self.jobs), at.ANSWER), int(self.shapes["most"].max())
        failed, held = np.zeros(len(self.shapes), ints), np.zeros(self.size.reservations, at.HELD)
        began = time.process_time()
        jobs = np.take(self.jobs, places(-self.priority))
        prepare(NOW, count, self.nodes, free, self.g_free, self.cards, self.events, self.e_gpu, when, first, run)
        rows = cycle(
            NOW, self.size.reservations, False, jobs, held, np.zeros(0, ints),
            np.zeros((0, GPUS), np.int32), self.shapes, self.masks, free, self.nodes, self.g_free, self.cards,
            self.c_numa, self.events, self.e_gpu, self.tail, when, first, self.c_first, self.c_scope, self.used, self.most,
            self.switches, self._typical()[0], count, failed, np.zeros(2 + NUMA, ints), np.zeros(GPUS, np.int32), run, np.zeros(GPUS, np.int32),
            np.zeros(4, ints), np.zeros(most, ints), np.zeros(count, ints), np.zeros(len(self.switches) + 2 * count, ints),
            np.zeros(count, ints), np.zeros(2, ints), out, out_gpu, answers,
        )  # fmt: skip
        seconds = time.process_time() - began
        arrays = Arrays(self.shapes, self.masks, free, self.nodes, self.g_free, self.cards, self.c_numa, self.events,
                        self.e_gpu, self.tail)  # fmt: skip
        self.ran = Ran(arrays, jobs, held, answers, when, first, self.c_first, self.c_scope, self.used, self.most, True)
        return seconds, answers, rows

    def ends(self, count: int) -> tuple[list[float], int, int]:
        """After the cycle, jobs end: the seconds of each, how many left nothing, and how many jobs started."""
        ending = Ending(self.ran, np.arange(1, len(self.busy) + 1), self.size.reservations)
        known = started = 0
        took, seen = [], set[int]()
        for event in self.dice.permutation(len(self.busy)).tolist():
            row, gpu = int(self.busy[event]), int(np.argmax(self.e_gpu[event, :GPUS]))
            if row in seen or len(took) == count:
                continue
            seen.add(row)
            self.nodes["cpu"][row] += 16
            self.nodes["mem"][row] += 120_000
            self.g_free[row, gpu] += 8
            self.c_numa[row, gpu * NUMA // GPUS] += 16
            # Each end is looked at as the first one after the cycle.
            ending.partial, ending.most_heads = False, at.NEVER
            began = time.process_time()
            rows = ending.at(NOW + 1, row, (event + 1,))
            took.append(time.process_time() - began)
            known, started = known + (not ending.partial), started + rows
        return took, known, started

    def _typical(self) -> Any:
        held = len(self.busy)
        starts = np.bincount(self.jobs["shape"], minlength=len(self.shapes))
        running = (self.events["cpu"][:held], self.e_gpu[:held, :GPUS], self.busy)
        return typical_of(self.shapes, starts, self.masks, self.nodes[: self.size.nodes], self.cards, running)

    def floor(self) -> float:
        """Seconds of one sort of the queue and one sweep over the arrays of the nodes."""
        began = time.process_time()
        places(-self.priority)
        sum(int(self.nodes[name].sum()) for name in ("cpu", "mem", "whole", "up"))
        int(self.g_free.sum())
        return time.process_time() - began


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default=",".join(SIZES))
    options.add_argument("--free", type=float, default=2, help="idle GPUs per thousand")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--ends", type=int, default=400)
    chosen = options.parse_args()
    small = World(Size(100, 100, 10, 50, 0), 0.1, chosen.seed)
    small.cycle()
    small.ends(10)
    print(f"seed {chosen.seed}, {chosen.free:g} of 1,000 GPUs idle, medians of {chosen.runs} runs")
    print(f"{'pending × nodes':<22}{'K':>6}{'shapes':>8}{'floor ms':>10}{'cycle ms':>10}{'aim ms':>8}{'× floor':>9}"
          f"{'started':>9}{'planned':>9}{'peak MiB':>10}{'end µs':>8}{'aim µs':>8}{'known':>7}{'+':>5}")  # fmt: skip
    for size in (SIZES[name] for name in chosen.sizes.split(",")):
        floors, cycles, ends = [], [], list[float]()
        for _ in range(chosen.runs):
            world = World(size, chosen.free / 1_000, chosen.seed)
            floors.append(world.floor())
            seconds, answers, _ = world.cycle()
            begun, planned = int(answers["started"].sum()), int((answers["start"] > 0).sum())
            cycles.append(seconds)
            some, known, started = world.ends(chosen.ends)
            ends += some
        floor, took = statistics.median(floors) * 1e3, statistics.median(cycles) * 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{f'{size.jobs:,} × {size.nodes:,}':<22}{size.reservations:>6,}{size.shapes:>8,}{floor:>10.1f}{took:>10.1f}"
              f"{size.aim_ms:>8,.0f}{took / floor:>9.1f}{begun:>9,}{planned:>9,}{peak:>10,}"
              f"{statistics.median(ends) * 1e6:>8.1f}{size.aim_us:>8,.0f}"
              f"{known / len(some):>7.0%}{started:>5,}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
