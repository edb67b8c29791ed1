"""GPUs one by one: who holds which part, how busy, how full, how warm. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from flagplot.client.mirror import Mirror
from flagplot.view.bars import Piece, bar, gib, shard_bar
from flagplot.view.choice import Choice
from flagplot.view.fleet import Fleet, GpuFact, NodeFact
from flagplot.view.queue import Column
from flagplot_wire.text import clean

STRIDE = 4_096
"""Key of a GPU: the node's key times this, plus its index."""

COLUMNS: tuple[Column, ...] = (
    Column("node", "NODE", 7, 1),
    Column("gpu", "GPU", 3, right=True),
    Column("type", "TYPE", 6),
    Column("shards", "SHARDS", 8),
    Column("free", "FREE", 4, right=True, from_width=94),
    Column("holders", "HELD BY", 16, 4),
    Column("util", "BUSY", 10),
    Column("vram", "VRAM GiB", 14),
    Column("temp", "TEMP", 5, right=True, from_width=86),
    Column("power", "POWER W", 8, right=True, from_width=104),
)
Test = Callable[[NodeFact, GpuFact], bool]
Cells = tuple[tuple[Piece, ...], ...]


def _busy(fact: GpuFact) -> int:
    return -1 if fact.sample is None or fact.sample.utilisation is None else fact.sample.utilisation


def _vram(fact: GpuFact) -> int:
    used, total = vram(fact)
    return -1 if used is None or not total else 100 * used // total


SORTS: dict[str, Callable[[GpuFact], tuple[object, ...]]] = {
    "node": lambda fact: (),
    "type": lambda fact: (fact.gpu.type,),
    "shards": lambda fact: (-fact.used / fact.gpu.shards,),
    "free": lambda fact: (-fact.free,),
    "util": lambda fact: (-_busy(fact),),
    "vram": lambda fact: (-_vram(fact),),
    "temp": lambda fact: (-((fact.sample.temperature_c if fact.sample else None) or -1),),
    "power": lambda fact: (-((fact.sample.power_w if fact.sample else None) or -1),),
    "holders": lambda fact: (fact.shares[0].user if fact.shares else "~",),
}


@dataclass(frozen=True, slots=True)
class GpuSpec(Choice):
    """What the person chose: filter text and order."""

    sort: str = "node"

    def order_of(self, key: str) -> str:
        """The order that a column's title stands for; that of the nodes for those that have none."""
        return key if key in SORTS else "node"


def vram(fact: GpuFact) -> tuple[int | None, int | None]:
    """VRAM used and in all, in MiB; None for what is not known."""
    sample = fact.sample
    if sample is None:
        return None, fact.gpu.vram_mib
    return sample.memory_used_mib, sample.memory_total_mib or fact.gpu.vram_mib


def select(mirror: Mirror, fleet: Fleet, spec: GpuSpec) -> list[int]:
    """The keys of the GPUs to show, in order."""
    test = gpu_filter(mirror, spec.filter) if spec.filter.strip() else None
    found: list[tuple[int, GpuFact]] = []
    for name in fleet.order:
        node = fleet.facts[name]
        base = fleet.key(name) * STRIDE
        found += [(base + fact.gpu.index, fact) for fact in node.gpus if test is None or test(node, fact)]
    if spec.sort != "node":
        order = SORTS[spec.sort]
        found.sort(key=lambda item: order(item[1]), reverse=spec.reverse)
    elif spec.reverse:
        found.reverse()
    return [key for key, _ in found]


def find(fleet: Fleet, key: int) -> tuple[NodeFact, GpuFact] | None:
    """The node and the GPU behind a key; None when it is gone."""
    node = fleet.facts.get(fleet.name(key // STRIDE))
    return next(((node, fact) for fact in node.gpus if fact.gpu.index == key % STRIDE), None) if node else None


_COMPARE = re.compile(r"^(busy|util|vram|temp|power|free)(>=|<=|>|<|=)(\d+)$")
_OPERATORS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq}
_WORDS: dict[str, Test] = {
    "free": lambda node, fact: node.serves and fact.free == fact.gpu.shards,
    "room": lambda node, fact: node.serves and fact.free > 0,
    "held": lambda node, fact: fact.used > 0,
    "shared": lambda node, fact: any(share.shards < fact.gpu.shards for share in fact.shares),
    "idle": lambda node, fact: fact.idle,
    "outsider": lambda node, fact: bool(fact.outsiders),
    "outsiders": lambda node, fact: bool(fact.outsiders),
    "fault": lambda node, fact: bool(fact.trouble),
}


def gpu_filter(mirror: Mirror, text: str) -> Test:
    """One test of all the words: `free room held shared idle outsider fault`, fields, `busy>50`, `!` negates."""
    tests: list[Test] = []
    for token in text.lower().split():
        body = token.removeprefix("!")
        test = _token(mirror, body) if body else None
        if test is not None:
            tests.append(_not(test) if token.startswith("!") else test)
    return lambda node, fact: all(test(node, fact) for test in tests)


def _not(test: Test) -> Test:
    return lambda node, fact: not test(node, fact)


def _token(mirror: Mirror, low: str) -> Test | None:
    if low in _WORDS:
        return _WORDS[low]
    if found := _COMPARE.match(low):
        compare, value, measure = _OPERATORS[found[2]], int(found[3]), _measure(found[1])
        return lambda node, fact: (measured := measure(fact)) is not None and compare(measured, value)
    head, colon, tail = low.partition(":")
    if colon and head in ("user", "u", "job", "type", "gpu", "node", "w"):
        if not tail:
            return None
        me = mirror.welcome.user.lower() if mirror.welcome else ""
        wanted = me if tail == "me" and me else tail
        match head:
            case "user" | "u":
                return lambda node, fact: any(share.user.lower().startswith(wanted) for share in fact.shares)
            case "job":
                return lambda node, fact: any(share.display_id.startswith(tail) for share in fact.shares)
            case "type" | "gpu":
                return lambda node, fact: fact.gpu.type.lower().startswith(tail)
        return lambda node, fact: node.node.name.lower().startswith(tail)
    return lambda node, fact: low in _text(node, fact)


def _measure(word: str) -> Callable[[GpuFact], int | None]:
    match word:
        case "free":
            return lambda fact: fact.free
        case "vram":
            return lambda fact: None if _vram(fact) < 0 else _vram(fact)
        case "temp":
            return lambda fact: fact.sample.temperature_c if fact.sample else None
        case "power":
            return lambda fact: fact.sample.power_w if fact.sample else None
    return lambda fact: None if _busy(fact) < 0 else _busy(fact)


def _text(node: NodeFact, fact: GpuFact) -> str:
    holders = " ".join(f"{share.display_id} {share.user}" for share in fact.shares)
    return f"{node.node.name} {fact.gpu.type} {fact.gpu.uuid} {holders} {fact.trouble}".lower()


def cells(node: NodeFact, fact: GpuFact, columns: list[tuple[Column, int]], first: bool) -> Cells:
    """The cells of one GPU's row; the node is named on its `first` row."""
    return tuple(_cell(node, fact, column.key, width, first) for column, width in columns)


def _cell(node: NodeFact, fact: GpuFact, key: str, width: int, first: bool) -> tuple[Piece, ...]:
    sample = fact.sample if node.node.responding else None
    match key:
        case "node":
            return ((node.name, "plain" if first else "dim"),)
        case "gpu":
            return ((str(fact.gpu.index), "plain"),)
        case "type":
            return ((clean(fact.gpu.type) + ("*" if fact.gpu.mig else ""), "dim"),)
        case "shards":
            return tuple(shard_bar(fact, node, width))
        case "free":
            return ((str(fact.free) if node.serves else "-", "dim"),)
        case "holders":
            return tuple(_holders(node, fact))
        case "util":
            busy = sample.utilisation if sample else None
            words = "?" if busy is None else f"{busy}%"
            return (*bar(None if busy is None else busy / 100, width - 5, "meter"), (words.rjust(5), "plain"))
        case "vram":
            used, total = vram(fact) if sample else (None, fact.gpu.vram_mib)
            part = used / total if used is not None and total else None
            return (*bar(part, 6, "meter"), (f"{gib(used)}/{gib(total)}".rjust(width - 6), "plain"))
        case "temp":
            warm = sample.temperature_c if sample else None
            return (("?" if warm is None else f"{warm}°C", "warning" if (warm or 0) >= 85 else "plain"),)
    watts, most = (sample.power_w, sample.power_limit_w) if sample else (None, None)
    return (("?" if watts is None else f"{watts}/{most}" if most else str(watts), "plain"),)


def _holders(node: NodeFact, fact: GpuFact) -> list[Piece]:
    """Who holds it, as `43 dave 3/8`; what is wrong with it; who is on it without a job."""
    pieces: list[Piece] = []
    if fact.trouble:
        pieces.append((f"✗ {fact.trouble} ", "bad"))
    for process in fact.outsiders:
        who = clean(process.user) or "?"
        memory = "? MiB" if process.memory_mib is None else f"{process.memory_mib} MiB"
        pieces.append((f"! {who} pid {process.pid} {memory} {clean(process.command)[:12]} ", "bad"))
    for share in fact.shares:
        part = "" if share.shards == fact.gpu.shards else f" {share.shards}/{fact.gpu.shards}"
        pieces.append((f"{share.display_id} {clean(share.user)}{part} ", f"owner:{share.user}"))
    if pieces:
        return pieces
    if not node.serves:
        return [(f"-  node {node.appearance.word}", "dim")]
    return [("free", "good")]
