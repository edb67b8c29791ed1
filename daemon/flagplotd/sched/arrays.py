"""A snapshot as the kernels' arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flagplotd.sched.kernel import layout as at
from flagplotd.sched.kernel.gang import SWITCH

if TYPE_CHECKING:
    from flagplotd.sched.shapes import Shape
    from flagplotd.sched.snapshot import Snapshot


class Arrays(NamedTuple):
    """The arguments of `kernel.cycle.cycle` from `shapes` to `tail`, as `kernel.layout` describes them."""

    shapes: Any
    masks: Any
    free: Any
    nodes: Any
    g_free: Any
    cards: Any
    c_numa: Any
    events: Any
    e_gpu: Any
    tail: Any


def arrays_of(snapshot: Snapshot, room: int) -> Arrays:
    """All arrays of a snapshot, with room for `room` more events; nothing in them is shared with it."""
    nodes, width = _nodes(snapshot), snapshot.g_of.shape[1]
    count = len(snapshot.nodes)
    cards = np.zeros((len(nodes), width), at.CARD)
    for name, column in (("of", snapshot.g_of), ("ok", snapshot.g_ok), ("kind", snapshot.g_type),
                         ("vram", snapshot.g_vram), ("numa", snapshot.g_numa), ("island", snapshot.g_island)):  # fmt: skip
        cards[name][:count] = column
    g_free = np.zeros((len(nodes), width), np.int32)
    g_free[:count] = snapshot.gfree
    c_numa = np.zeros((len(nodes), snapshot.c_numa.shape[1]), np.int64)
    c_numa[:count] = snapshot.c_numa
    events, e_gpu, tail = _events(snapshot, nodes, width, room)
    masks = _bits(snapshot.allowed)
    free = np.zeros((at.LEVELS, masks.shape[1]), np.uint64)
    return Arrays(_shapes(snapshot), masks, free, nodes, g_free, cards, c_numa, events, e_gpu, tail)


def _nodes(snapshot: Snapshot) -> Any:
    count, names = len(snapshot.nodes), snapshot.licenses
    nodes = np.zeros(count + len(names), at.NODE)
    nodes["head"] = nodes["leaf"] = nodes["block"] = -1
    for name, column in (("cpu", snapshot.cpu), ("cpus", snapshot.n_cpu), ("mem", snapshot.mem), ("mems", snapshot.n_mem),
                         ("up", snapshot.up), ("leaf", snapshot.n_leaf), ("block", snapshot.n_block)):  # fmt: skip
        nodes[name][:count] = column
    nodes["weight"][:count] = _classes([node.weight for node in snapshot.nodes])
    for row, free in enumerate(names.values(), count):
        nodes["cpu"][row] = nodes["cpus"][row] = free
    return nodes


def _classes(weights: list[int]) -> Any:
    """Each node's weight by its place among those that there are."""
    return np.unique(np.array(weights, np.int64), return_inverse=True)[1] if len(set(weights)) > 1 else 0


def _events(snapshot: Snapshot, nodes: Any, width: int, room: int) -> tuple[Any, Any, Any]:
    from flagplotd.sched.kernel.timeline import link_all

    ends, holds = len(snapshot.e_time), snapshot.holds
    total, domains = ends + len(holds) + room, snapshot.c_numa.shape[1]
    events, e_gpu = np.zeros(total, at.EVENT), np.zeros((total, width + domains), np.int32)
    rows = np.zeros(ends + len(holds), np.int64)
    some = events[:ends]
    some["time"], some["sign"], some["res"], some["job"] = snapshot.e_time, 1, -1, -1
    some["cpu"], some["mem"], rows[:ends] = snapshot.e_cpu, snapshot.e_mem, snapshot.e_node
    # A GPU with a fault is not free when the job on it ends.
    e_gpu[:ends, :width] = snapshot.e_gpu * (snapshot.g_ok[snapshot.e_node] > 0)
    e_gpu[:ends, width:] = snapshot.e_numa
    for place, hold in enumerate(holds, ends):
        one = events[place]
        one["time"], one["sign"], one["shut"], one["res"], one["job"] = hold.time, hold.sign, hold.shut, hold.res, -1
        one["cpu"], rows[place] = hold.sign * hold.cpus, hold.row
        for gpu, shards in hold.gpus:
            e_gpu[place, gpu] = hold.sign * shards
    link_all(nodes, events, rows)
    return events, e_gpu, np.array([len(rows), 0], np.int64)


def _bits(allowed: Any) -> Any:
    rows, count = allowed.shape
    padded = np.zeros((rows, -(-max(count, 1) // 64) * 64), np.uint8)
    padded[:, :count] = allowed
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def shape_records(asked: Sequence[Shape], types: Mapping[str, int]) -> Any:
    """What of `SHAPE` follows from shapes alone; `types` numbers the types of GPUs."""
    shapes = np.zeros(len(asked), at.SHAPE)
    shapes["kind"] = shapes["stype"] = -1
    for row, shape in enumerate(asked):
        one = shapes[row]
        for name in (
            "cpu",
            "mem",
            "shards",
            "vram",
            "exclusive",
            "limit",
            "least",
            "most",
            "near",
            "switches",
            "contiguous",
        ):
            one[name] = getattr(shape, name)
        # A type that no node has gets an index that none carries, so that it never fits.
        if shape.share_type:
            one["stype"] = types.get(shape.share_type, len(types) + 1)
        for place, (word, count) in enumerate(shape.gpus):
            one["count"][place] = count
            if word:
                one["kind"][place] = types.get(word, len(types) + 1)
        one["licenses"] = len(shape.licenses)
        one["others"], one["groups"], one["apart"] = shape.others, len(shape.quotas), shape.apart
        for place, quota in enumerate(shape.quotas):
            one["quota"][place] = quota
    shapes["kinds"], shapes["gpus"] = (shapes["count"] > 0).sum(axis=1), shapes["count"].sum(axis=1)
    return shapes


def _shapes(snapshot: Snapshot) -> Any:
    shapes = snapshot.records.copy() if len(snapshot.records) else np.zeros(1, at.SHAPE)
    if not len(snapshot.records):
        return shapes
    shapes["mask"], shapes["need"] = snapshot.s_mask, snapshot.counted[:, : at.USED]
    shapes["res"], shapes["opens"], shapes["closes"] = snapshot.s_res.T
    rows = {name: row for row, name in enumerate(snapshot.licenses)}
    for row in np.flatnonzero(shapes["licenses"]).tolist():
        for place, (name, count) in enumerate(snapshot.shapes[row].licenses):
            shapes["license"][row, place], shapes["seats"][row, place] = rows[name], count
    return shapes


def switches_of(snapshot: Snapshot) -> Any:
    """The tree of switches."""
    switches = np.zeros(len(snapshot.switch_parent), SWITCH)
    switches["parent"], switches["level"] = snapshot.switch_parent, snapshot.switch_level
    return switches
