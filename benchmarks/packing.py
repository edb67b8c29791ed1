"""How much GPU the controller's own planner allocates on the openb trace: pods come in cycles and never leave.

Each cycle the kernels plan the pods that came, in their order, on what the cycles before left; GPUs are divided into 100
shares. The typical jobs are those that wait and run at that moment. Beside it stands what the simulator's policy allocates,
which knows the whole list's typical pods.

    python benchmarks/packing.py TRACES [--seeds 3] [--each 100] [--lists default,cpu100]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from flagplotd.sched.kernel import layout as at
from flagplotd.sched.kernel.cycle import cycle, prepare
from flagplotd.sched.kernel.gang import SWITCH
from flagplotd.sched.typical import typical_of
from flagplotd.sim.openb import Workload, arrivals, simulate, workload
from flagplotd.sim.openb_csv import WHOLE, read_nodes, read_pods

LISTS = ("default", "cpu100", "gpushare40", "multigpu20", "gpuspec10")
SHARES, NOW, LIMIT = 100, 1_000, 1 << 40


class Cluster:
    """The arrays of the trace's cluster, empty, with a shape for each kind of pod."""

    def __init__(self, load: Workload, seed: int, room: int) -> None:
        order = np.random.default_rng([seed, 1]).permutation(len(load.nodes.cpu))
        cpu, mem, idle, model = (column[order] for column in load.nodes)
        count, self.width = idle.shape
        self.nodes = np.zeros(count, at.NODE)
        self.nodes["head"] = self.nodes["leaf"] = self.nodes["block"] = -1
        self.nodes["cpu"] = self.nodes["cpus"] = cpu
        self.nodes["mem"] = self.nodes["mems"] = mem
        self.nodes["up"] = 1
        self.cards = np.zeros(idle.shape, at.CARD)
        self.cards["of"] = self.cards["ok"] = np.where(idle > 0, SHARES, 0)
        self.cards["kind"] = model[:, None]
        self.g_free = self.cards["of"].astype(np.int32)
        self.c_numa = cpu[:, None].copy()
        self.events = np.zeros(room, at.EVENT)
        self.e_gpu = np.zeros((room, self.width + 1), np.int32)
        self.tail = np.zeros(1, np.int64)
        self.rows: list[Any] = []
        self._shapes(load, model)
        self.came = np.zeros(len(self.shapes), np.int64)
        self.free = np.zeros((at.LEVELS, self.masks.shape[1]), np.uint64)
        self.when = np.zeros((at.BOUNDS, count), np.int64)
        self.first = np.zeros((at.BOUNDS, self.masks.shape[1]), np.int64)
        self.run = np.zeros(self.width, np.int32)
        prepare(NOW, count, self.nodes, self.free, self.g_free, self.cards, self.events[:0], self.e_gpu, self.when, self.first,
                self.run)  # fmt: skip

    def _shapes(self, load: Workload, model: Any) -> None:
        kinds = load.kinds
        whole = kinds.need == WHOLE
        shapes = self.shapes = np.zeros(len(kinds.cpu), at.SHAPE)
        shapes["cpu"], shapes["mem"], shapes["least"], shapes["most"] = kinds.cpu, kinds.mem, 1, 1
        shapes["gpus"] = shapes["count"][:, 0] = np.where(whole, kinds.gpus, 0)
        shapes["kinds"], shapes["kind"], shapes["stype"] = shapes["gpus"] > 0, -1, -1
        shapes["shards"] = np.where(whole, 0, -(-kinds.need * SHARES // WHOLE)) * (kinds.gpus > 0)
        shapes["limit"], shapes["res"], shapes["closes"] = LIMIT, -1, at.NEVER
        models, shapes["mask"] = np.unique(np.where(kinds.gpus > 0, kinds.models, -1), return_inverse=True)
        bits = np.zeros((len(models), -(-len(model) // 64) * 64), np.uint8)
        bits[:, : len(model)] = models[:, None] >> model[None, :] & 1
        self.masks = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)

    def plan(self, kinds: Any) -> Any:
        """One cycle with pods of these kinds; which of them started, as 0 and 1."""
        ints, count, width = np.int64, len(self.nodes), self.width
        jobs, answers = np.zeros(len(kinds), at.JOB), np.zeros(len(kinds), at.ANSWER)
        jobs["shape"], jobs["count"] = kinds, 1
        out, out_gpu = np.zeros((len(kinds) + 1, 3), ints), np.zeros((len(kinds) + 1, width), np.int32)
        held = int(self.tail[0])
        rows = np.concatenate([np.zeros(0, ints), *self.rows])
        waiting = np.bincount(kinds, minlength=len(self.shapes))
        typical = typical_of(self.shapes, waiting, self.masks, self.nodes, self.cards,
                             (self.events["cpu"][:held], self.e_gpu[:held, : self.width], rows))  # fmt: skip
        none = np.zeros((0, at.USED), ints)
        written = cycle(
            NOW, 0, jobs, self.shapes, self.masks, self.free, self.nodes, self.g_free, self.cards, self.c_numa, self.events,
            self.e_gpu, self.tail, self.when, self.first, np.zeros(2, ints), np.zeros(0, ints), none, none,
            np.zeros(0, SWITCH), typical[0], count, np.zeros(len(self.shapes), ints), np.zeros(2, ints),
            np.zeros(width, np.int32), self.run, np.zeros(width, np.int32), np.zeros(4, ints), np.zeros(1, ints),
            np.zeros(count, ints), np.zeros(2 * count, ints), np.zeros(count, ints), np.zeros(2, ints), out, out_gpu, answers,
        )  # fmt: skip
        self.rows.append(out[:written, 1])
        return answers["started"]


def replay(load: Workload, seed: int, each: int) -> tuple[float, float]:
    """(allocated GPU in percent, seconds of the processor for a start)."""
    coming = arrivals(load, 130, np.random.default_rng(seed))
    cluster, began = Cluster(load, seed, len(coming) + 1), time.process_time()
    kinds = np.take(load.kind, coming)
    started = np.concatenate([cluster.plan(kinds[at : at + each]) for at in range(0, len(kinds), each)])
    return 100 * int((load.asks[coming] * started).sum()) / load.capacity, (time.process_time() - began) / started.sum()


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("traces", type=Path, help="the folder with the openb lists")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--each", type=int, default=100, help="pods that come between two cycles")
    options.add_argument("--lists", default=",".join(LISTS))
    chosen = options.parse_args()
    nodes = read_nodes(chosen.traces / "openb_node_list_gpu_node.csv")
    print(f"allocated GPU in percent, means of {chosen.seeds} seeds, a cycle for every {chosen.each} pods")
    print(f"{'list':<14}{'controller':>12}{'simulator':>12}{'µs a start':>12}")
    for name in chosen.lists.split(","):
        load = workload(nodes, read_pods(chosen.traces / f"openb_pod_list_{name}.csv"))
        runs = [replay(load, seed, chosen.each) for seed in range(chosen.seeds)]
        best = mean(simulate(load, "flagplot", seed).allocated_percent for seed in range(chosen.seeds))
        ours, took = mean(run[0] for run in runs), mean(run[1] for run in runs)
        print(f"{name:<14}{ours:>12.2f}{best:>12.2f}{took * 1e6:>12.1f}", flush=True)


if __name__ == "__main__":
    main()
