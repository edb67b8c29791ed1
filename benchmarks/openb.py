"""How much GPU each placement policy allocates on the openb trace, and on other mixes of its pods.

The mixes are made from the default list: `multigpuNN` and `gpushareNN` draw its GPU pods with replacement so that NN %
of the requested GPU is by pods with several GPUs (with a part of one), `cpuNNN` has NNN % of the cpu100 list's pods
without GPU, `gpuspecNN` draws NN % of the GPU pods from those of the gpuspec10 list that name models, and in `equal`
every different pod is as frequent as any other. The weights of `flagplot` were chosen with seeds 200 to 203 on the
five lists and on all mixes of --mix 7 but `equal`; other seeds, other mixes and `equal` show whether they generalise.

    python benchmarks/openb.py TRACES [--seeds 10] [--first 0] [--mix 7]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from flagplotd.sim.openb import POLICIES, simulate, workload
from flagplotd.sim.openb_csv import TracePod, read_nodes, read_pods

LISTS = ("default", "cpu100", "gpushare40", "multigpu20", "gpuspec10")
CPU_100 = 789
"""Pods without GPU in the cpu100 list."""
Pods = list[TracePod]


def drawn(pods: Pods, count: int, rng: np.random.Generator) -> Pods:
    return [pods[int(index)] for index in rng.integers(len(pods), size=count)]


def asking(pods: Pods, milli: float, rng: np.random.Generator) -> Pods:
    """Pods drawn until they ask for `milli` of GPU."""
    found: Pods = []
    total = 0
    while total < milli:
        found += drawn(pods, 1, rng)
        total += found[-1].gpus * found[-1].need
    return found


def mixes(default: Pods, spec: Pods, seed: int) -> dict[str, Pods]:
    """Every mix by its name."""
    rng = np.random.default_rng(seed)
    plain, gpu = [pod for pod in default if not pod.gpus], [pod for pod in default if pod.gpus]
    total = sum(pod.gpus * pod.need for pod in gpu)

    def part(of: Callable[[TracePod], bool], percent: int) -> Pods:
        some, rest = [pod for pod in gpu if of(pod)], [pod for pod in gpu if not of(pod)]
        return plain + asking(some, total * percent / 100, rng) + asking(rest, total * (100 - percent) / 100, rng)

    def named(percent: int) -> Pods:
        some, rest = [pod for pod in spec if pod.spec], [pod for pod in spec if pod.gpus and not pod.spec]
        count = len(gpu) * percent // 100
        return plain + drawn(some, count, rng) + drawn(rest, len(gpu) - count, rng)

    found = {f"multigpu{percent}": part(lambda pod: pod.gpus > 1, percent) for percent in (30, 40, 50)}
    found |= {f"gpushare{percent}": part(lambda pod: pod.need < 1_000, percent) for percent in (60, 80, 100)}
    found |= {f"gpuspec{percent}": named(percent) for percent in (20, 25, 33)}
    found["equal"] = asking(sorted(set(default)), total, rng)
    return found | {f"cpu{percent:03}": gpu + drawn(plain, CPU_100 * percent // 100, rng) for percent in (50, 200, 250)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("traces", type=Path, help="the folder of the openb CSV files")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--mix", type=int, default=7, help="seed of the mixes")
    given = options.parse_args()
    nodes = read_nodes(given.traces / "openb_node_list_gpu_node.csv")
    lists = {name: read_pods(given.traces / f"openb_pod_list_{name}.csv") for name in LISTS}
    print(f"seeds {given.first} to {given.first + given.seeds - 1}, mix {given.mix}; allocated % (deviation)")
    print(f"{'workload':<12}" + "".join(f"{policy:>15}" for policy in POLICIES) + f"{'s a run':>9}")
    for name, pods in (lists | mixes(lists["default"], lists["gpuspec10"], given.mix)).items():
        load = workload(nodes, pods)
        simulate(load, POLICIES[0], given.first)
        began = time.perf_counter()
        cells = []
        for policy in POLICIES:
            seeds = range(given.first, given.first + given.seeds)
            found = [simulate(load, policy, seed).allocated_percent for seed in seeds]
            cells.append(f"{mean(found):.2f} ({stdev(found):.2f})")
        taken = (time.perf_counter() - began) / given.seeds / len(POLICIES)
        print(f"{name:<12}" + "".join(f"{cell:>15}" for cell in cells) + f"{taken:>9.2f}", flush=True)


if __name__ == "__main__":
    main()
