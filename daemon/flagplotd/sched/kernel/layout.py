"""The records and arrays that the kernels work on.

| name | shape | what |
|---|---|---|
| `nodes` | N + L | `NODE`: a row by node in the order of names, then one for each license |
| `g_free` | N × W | free shards of each GPU |
| `cards` | N × W | `CARD`: all shards of a GPU, those of a healthy one, its type, MiB and NUMA domain, those joined by links; `of` 0 beyond a node's own |
| `c_numa` | N × D | free CPUs by NUMA domain |
| `events`, `e_gpu` | E, E × (W + D) | `EVENT`: what becomes free or is taken on a node, linked by node in the order of time; shards by GPU, then CPUs by NUMA domain |
| `shapes` | S | `SHAPE`: what each node must give; identical requests share one |
| `masks` | M × B | bits of the nodes that a shape may use, 64 to a word |
| `free` | LEVELS × B | bits of the nodes that are up and have at least so much free now |
| `when` | BOUNDS × N | lower bounds: the first moment at which a node has so much free |
| `first` | BOUNDS × B | the least of `when` over each 64 nodes |
"""

from __future__ import annotations

import numpy as np

from flagplotd.core.needs import MAX_GPU_TYPES, MAX_GROUPS, MAX_LICENSES

INTS = np.int64
NEVER = 1 << 60
"""Later than anything."""
KINDS, LICENSES, GROUPS = MAX_GPU_TYPES, MAX_LICENSES, MAX_GROUPS
USED = 6
"""Counters of a limit: jobs, nodes, CPUs, GPUs, MiB, GPU minutes."""

NODE = np.dtype(
    [
        (name, INTS)
        for name in (
            "cpu",
            "cpus",
            "mem",
            "mems",
            "up",
            "whole",
            "part",
            "leaf",
            "block",
            "head",
            "takes",
            "weight",
            "takes_cores",
        )
    ]
)
"""`cpu`, `mem`: free now of `cpus`, `mems`; `whole`, `part`: GPUs wholly free and the most shards free on one;
`leaf`, `block`: where it hangs in the network (-1: nowhere); `head`: its first event (-1: none); `takes`: how many
events take something or close it; `weight`: which weight it has of those that there are, from the lowest (0) on.
`takes_cores`: how many of its planned starts want their CPUs near their GPUs."""

CARD = np.dtype([(name, np.int32) for name in ("of", "ok", "kind", "vram", "numa", "island")])

EVENT = np.dtype([(name, INTS) for name in ("time", "next", "sign", "cpu", "mem", "shut", "res", "job", "row")])
"""At `time` so much becomes free (`sign` 1) or is taken (-1, with negative figures). `shut` 1 closes the node, -1 opens it again. `res` is the
reservation that the event belongs to: jobs of it do not see the event (-1: none). `job` is whose start is planned
here (-1: nobody's). `row` is the node's."""

SHAPE = np.dtype(
    [
        (name, INTS)
        for name in (
            "cpu", "mem", "least", "most", "limit", "shards", "vram", "stype", "exclusive", "kinds", "gpus", "near",
            "switches", "contiguous", "mask", "res", "opens", "closes", "licenses", "others", "groups", "apart",
        )
    ]
    + [("kind", INTS, (KINDS,)), ("count", INTS, (KINDS,)), ("license", INTS, (LICENSES,)), ("seats", INTS, (LICENSES,))]
    + [("need", INTS, (USED,)), ("quota", INTS, (GROUPS,))]
)  # fmt: skip
"""On each of `least` to `most` nodes: `cpu` CPUs, `mem` MiB, `kinds` pairs of GPU type (-1: any) and count, `gpus` in
all; or `shards` or `vram` MiB of one GPU of type `stype`. `near`: all CPUs on the GPUs' NUMA domains. `switches`: the
most leaves (0: any). `res`: the reservation it runs in, which `opens` and `closes`. `license`, `seats`: rows of licenses
and how many. `need`: what it counts for in limits. All nodes are of one of the 1 + `others` masks that follow one another
by 1 + `groups` rows from `mask` on. Between them are the masks of the groups, of each of which `quota` nodes are wanted;
a node counts in one group only where they are `apart`."""

JOB = np.dtype([(name, np.int32) for name in ("shape", "count", "chain", "urgent", "held")])
"""A pending job: how many starts are allowed at once (arrays), the chain of limits it is under, whether it goes before
what is promised behind it, and its row of promises (-1: none)."""

HELD = np.dtype([("time", INTS)] + [(name, np.int32) for name in ("parts", "kept", "first", "linked")])
"""A promised start (`time` NEVER: there is none any more) on `parts` nodes, which an earlier cycle kept from `kept` on. Its
events are two for each part and license from `first` on (-1: none yet); they are in the timelines where `linked`."""

ANSWER = np.dtype([("start", INTS)] + [(name, np.int32) for name in ("started", "node", "bits", "scope")])
"""Of a job: planned start (0: none), starts made, its first node, why it waits, the limit that stops it (scope × USED +
counter; -1: none)."""

RESOURCES, BEHIND, LIMIT, LICENSE, RESERVED, DOWN, IMPOSSIBLE, SWITCHES, TIMES, COUNTS = (1 << bit for bit in range(10))
"""Bits of why a job waits."""

GPU_LEVELS, CPU_LEVELS, PART_LEVELS, MEM_LEVELS = 9, 12, 8, 14
AT_CPU = GPU_LEVELS
AT_PART = AT_CPU + CPU_LEVELS
AT_MEM = AT_PART + PART_LEVELS
BOUNDS = AT_MEM
LEVELS = AT_MEM + MEM_LEVELS
"""Rows of `free`, the first `BOUNDS` of them of `when` too: 0 to 8 whole GPUs; 1, 2, 4, … CPUs; 1, 2, 4, … shards of one
GPU; 1, 2, 4, … times 256 MiB."""
MEM_UNIT = 256
