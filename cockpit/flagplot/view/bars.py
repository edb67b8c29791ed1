"""Bars of eighths and the words for amounts, the same on every screen. Pure.

A piece is text (cleaned) and the role that styles it; a role `owner:NAME` is that owner's colour.
"""

from __future__ import annotations

from flagplot.view.fleet import GpuFact, NodeFact

Piece = tuple[str, str]
LEVELS = " ▁▂▃▄▅▆▇█"
"""A cell filled from below by 0 to 8 eighths."""
FREE = "░"


def level(part: float) -> str:
    """One cell filled from below; anything above nothing shows, and only all of it is a full block."""
    if part <= 0:
        return FREE
    return "█" if part >= 1 else LEVELS[max(1, min(7, round(part * 8)))]


def bar(part: float | None, width: int, role: str = "number") -> list[Piece]:
    """A thin bar of `width` cells filled by `part` (0 to 1); `?` when that is unknown."""
    if part is None:
        return [("?", "dim"), (" " * (width - 1), "faint")]
    halves = max(0, min(width * 2, round(part * width * 2)))
    if part > 0 and not halves:
        halves = 1
    full, rest = divmod(halves, 2)
    filled = "━" * full + "╸" * rest
    return [(filled, role), ("─" * (width - len(filled)), "faint")]


def gpu_block(fact: GpuFact, node: NodeFact) -> Piece:
    """One GPU in one cell: a full block when whole, filled eighths when shared, in the largest owner's colour."""
    if fact.trouble:
        return "!", "bad"
    if not fact.used:
        return unheld(fact, node)
    return level(fact.used / fact.gpu.shards), f"owner:{fact.shares[0].user}"


def gpu_blocks(fact: NodeFact, slots: int) -> list[Piece]:
    """All GPUs of a node in `slots` cells; `?` while unknown, `-` without any, a number when they do not fit."""
    if not fact.known:
        return [("?" + " " * (slots - 1), "dim")]
    if not fact.gpus:
        return [("-" + " " * (slots - 1), "dim")]
    if len(fact.gpus) > slots:
        return [(gpus_words(fact)[:slots].ljust(slots), "number")]
    pieces: list[Piece] = []
    for gpu in fact.gpus:
        text, role = gpu_block(gpu, fact)
        if pieces and pieces[-1][1] == role:
            pieces[-1] = (pieces[-1][0] + text, role)
        else:
            pieces.append((text, role))
    return [*pieces, (" " * (slots - len(fact.gpus)), "plain")]


def unheld(fact: GpuFact, node: NodeFact) -> Piece:
    """What nobody holds: free only where new jobs may start, `?` on a node that is not heard."""
    if not node.node.responding:
        return "?", "dim"
    return (FREE if node.serves and not fact.trouble else "·"), "faint"


def shard_bar(fact: GpuFact, node: NodeFact, width: int) -> list[Piece]:
    """One GPU's shards across `width` cells, each holder's part in their colour.

    Where shards and cells do not match, every holder gets at least one cell as long as there are cells.
    """
    pieces: list[Piece] = []
    total, at, drawn = fact.gpu.shards, 0, 0
    for share in fact.shares:
        at += share.shards
        until = max(drawn + 1, round(at * width / total))
        until = min(until, width)
        if until > drawn:
            pieces.append(("█" * (until - drawn), f"owner:{share.user}"))
            drawn = until
    if drawn < width:
        text, role = unheld(fact, node)
        pieces.append((text * (width - drawn), role))
    return pieces


def number(value: float) -> str:
    """A number without needless digits: `3`, `2.5`."""
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def of(used: float, total: float | None) -> str:
    """`3/8`; the total is `?` while unknown."""
    return f"{number(used)}/{'?' if total is None else number(total)}"


def gib(mib: int | None) -> str:
    """MiB as whole GiB without the unit; `?` for unknown."""
    return "?" if mib is None else number(mib // 1_024) if mib >= 10_240 else number(round(mib / 1_024, 1))


def gpus_words(fact: NodeFact) -> str:
    """`4.5/8` held of all; `?` while unknown, `-` without any."""
    if not fact.known:
        return "?"
    return of(fact.gpus_held, len(fact.gpus)) if fact.gpus else "-"


def cpus_words(fact: NodeFact) -> str:
    """`16/64` held of all; `?` while unknown."""
    return "?" if fact.cpus is None else of(fact.cpus_used, fact.cpus)


def memory_words(fact: NodeFact) -> str:
    """`64/1006` GiB held of all, without the unit; `?` while unknown."""
    return "?" if fact.memory_mib is None else f"{gib(fact.memory_used_mib)}/{gib(fact.memory_mib)}"


def load_words(fact: NodeFact) -> str:
    """The 1-minute load average; `?` where it was not measured or the node is not heard."""
    load = fact.sample.load if fact.sample and fact.node.responding else None
    return "?" if load is None else f"{load / 100:.1f}"
