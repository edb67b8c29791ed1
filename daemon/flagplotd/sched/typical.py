"""What is typical of the jobs that wait and run: for whom a placement should leave room on the GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from flagplotd.sched.kernel.price import TASKS, TYPICAL, WHOLE

SOME = 512
"""Most frequent shapes, and parts that run, evenly from all of them, that are looked at."""
KEY = ("cpu", "gpus", "kind", "shards", "vram", "mask")
MOST_WEIGHT = 10_000
"""What the sum of all weights is brought down to, so that prices stay within 64 bits."""


def typical_of(shapes: Any, starts: Any, masks: Any, nodes: Any, cards: Any, running: tuple[Any, Any, Any]) -> Any:
    """The `TYPICAL` record of waiting jobs (their shapes and how many starts of each) and of `running` parts of jobs (CPUs,
    shards by GPU and row of the node of each). Each part of a job, on a node of its own, counts once."""
    waiting = np.stack([shapes[name] for name in ("cpu", "gpus", "stype", "shards", "vram", "mask")], axis=1)
    typed = (shapes["gpus"] > 0) & (shapes["kinds"] == 1)
    waiting[:, 2] = np.where(typed, shapes["kind"][:, 0], np.where(shapes["gpus"] > 0, -1, waiting[:, 2]))
    everywhere = (masks == np.bitwise_or.reduce(masks)).all(axis=1)
    waiting[:, 5] = np.where(everywhere[shapes["mask"]], -1, shapes["mask"])
    starts = starts * shapes["least"]
    most = np.argsort(-starts, kind="stable")[:SOME]
    parts, counts = _running(*running, cards)
    keys, weights = _counted(np.concatenate([waiting[most], parts]), np.concatenate([starts[most], counts]))
    asks = (keys[:, 1] > 0) | (keys[:, 3] > 0) | (keys[:, 4] > 0)
    some = np.flatnonzero(asks)
    some = some[np.argsort(-weights[some], kind="stable")][:TASKS]
    found = np.zeros(1, TYPICAL)
    scale = -(-max(int(weights.sum()), 1) // MOST_WEIGHT)
    found["tasks"], found["weight"][0, : len(some)] = len(some), -(-weights[some] // scale)
    found["total"] = max(int(found["weight"].sum()) + int(weights[~asks].sum()) // scale, 1)
    found["cpus"] = max(int(nodes["cpus"].max(initial=0)), 1)
    found["parts"] = max(int((cards["of"] > 0).sum(axis=1).max(initial=0)) * WHOLE, 1)
    for place, name in enumerate(KEY):
        found[name][0, : len(some)] = keys[some, place]
    return found


def _running(cpus: Any, shards: Any, rows: Any, cards: Any) -> tuple[Any, Any]:
    """Keys and counts of parts: a GPU that is held wholly was asked for, else the shards of the one that is shared."""
    step = -(-len(rows) // SOME) or 1
    cpus, shards, rows = cpus[::step], shards[::step], rows[::step]
    of = cards["of"][rows]
    gpus, shared = ((shards > 0) & (shards == of)).sum(axis=1), np.where(shards < of, shards, 0).max(axis=1, initial=0)
    # One number for each is sorted much faster than three.
    code, counts = np.unique(cpus << 32 | gpus << 24 | shared, return_counts=True)
    keys = np.full((len(code), len(KEY)), -1, np.int64)
    keys[:, 0], keys[:, 1], keys[:, 3], keys[:, 4] = code >> 32, code >> 24 & 0xFF, code & 0xFFFFFF, 0
    return keys, counts * step


def _counted(keys: Any, weights: Any) -> tuple[Any, Any]:
    """Each key once, with its weights added up."""
    keys, weights = keys[weights > 0], weights[weights > 0]
    if not len(keys):
        return keys, weights
    # Several times as fast as numpy.unique by rows.
    order = np.lexsort(keys.T[::-1])
    keys, weights = keys[order], weights[order]
    firsts = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1)))
    return keys[firsts], np.add.reduceat(weights, firsts)
