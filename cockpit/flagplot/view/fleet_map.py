"""The map of nodes: how large the cells are, where each lies, and what is drawn in it. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from flagplot.language import later, tr, tr_count
from flagplot.view.bars import (
    Piece,
    bar,
    cpus_words,
    gib,
    gpu_blocks,
    gpus_words,
    level,
    memory_words,
)
from flagplot.view.bookings import when_words
from flagplot.view.fleet import LOOKS, Fleet, NodeFact
from flagplot_wire.text import clean, fit, width

ZOOMS = ("dot", "small", "large")
FILLS = (later("GPUs"), later("CPUs"), later("memory"))
"""What the cells show the fill of."""
BAR = 6
"""Cells of a bar of CPUs or memory."""
MOST_SLOTS = 16
"""GPUs drawn one by one in a cell; a node with more shows numbers."""


@dataclass(frozen=True, slots=True)
class CellSize:
    """The cells of one zoom: `columns` wide with the gap, `rows` high with the gap; `fill` is one of `FILLS`."""

    zoom: str
    columns: int
    rows: int
    name: int
    slots: int
    fill: str = "GPUs"


def widest(fleet: Fleet, names: list[str]) -> tuple[int, int]:
    """(cells of the longest of these names, most GPUs of one node)."""
    facts = [fleet.facts[one] for one in names]
    return max((width(fact.name) for fact in facts), default=6), max((len(fact.gpus) for fact in facts), default=0)


def cell_size(zoom: str, most: tuple[int, int], fill: str = "GPUs") -> CellSize:
    """The size of a cell that holds the longest name and the fill of the node with the most GPUs (see `widest`)."""
    name, slots = min(24, most[0]), most[1]
    slots = min(MOST_SLOTS, max(slots, 5 if slots > MOST_SLOTS else 1))
    if zoom == "large":
        return CellSize(zoom, max(name + 14, slots + 14, 25), 5, name, slots, fill)
    if zoom == "small":
        slots = slots if fill == "GPUs" else BAR
        return CellSize(zoom, 2 + name + 1 + slots + 2, 1, name, slots, fill)
    return CellSize(zoom, 2, 1, name, slots, fill)


def filled(fact: NodeFact, fill: str) -> float | None:
    """The part of a node's GPUs, CPUs or memory that is held, from 0 to 1; None where it has none or that is unknown."""
    if fill == "GPUs":
        return fact.gpus_held / len(fact.gpus) if fact.gpus else None
    used, total = (fact.cpus_used, fact.cpus) if fill == "CPUs" else (fact.memory_used_mib, fact.memory_mib)
    return used / total if total else None


@dataclass(slots=True)
class Layout:
    """Where everything lies: `rows` are headings (no names) and rows of cells, from top to bottom."""

    size: CellSize
    across: int
    rows: list[tuple[int, str, list[str]]] = field(default_factory=list)
    """(first line, heading, names)."""
    height: int = 0
    _places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def at_line(self, line: int) -> tuple[int, str, list[str]] | None:
        """The row that covers a line of the map."""
        index = bisect_right(self.rows, line, key=lambda row: row[0]) - 1
        return self.rows[index] if index >= 0 and line < self.height else None

    def at(self, x: int, line: int) -> str:
        """The name of the node at a place; empty where there is none."""
        row = self.at_line(line)
        if row is None or not row[2] or x < 1:
            return ""
        column = (x - 1) // self.size.columns
        return row[2][column] if column < len(row[2]) else ""

    def place(self, name: str) -> tuple[int, int] | None:
        """(row, column) of a node; None when it is not on the map."""
        return self._places.get(name)

    def move(self, name: str, across: int, down: int) -> str:
        """The node one reaches from `name`; stays where the map ends."""
        place = self._places.get(name)
        if place is None:
            return next(iter(self._places), "")
        row, column = place
        if across:
            order = list(self._places)
            at = order.index(name) + across
            return order[max(0, min(at, len(order) - 1))]
        step = 1 if down > 0 else -1
        for _ in range(abs(down)):
            following = row + step
            while 0 <= following < len(self.rows) and not self.rows[following][2]:
                following += step
            if not 0 <= following < len(self.rows):
                break
            row = following
        names = self.rows[row][2]
        return names[min(column, len(names) - 1)]


def lay_out(groups: list[tuple[str, list[str]]], size: CellSize, columns: int) -> Layout:
    """Put groups of nodes into lines of `columns` cells; one line of heading above each titled group."""
    layout = Layout(size, cells_across(size, columns))
    line = 0
    for title, names in groups:
        if title:
            layout.rows.append((line, title, []))
            line += 1
        for start in range(0, len(names), layout.across):
            some = names[start : start + layout.across]
            for column, name in enumerate(some):
                layout._places[name] = (len(layout.rows), column)
            layout.rows.append((line, "", some))
            line += size.rows
    layout.height = line
    return layout


def height_of(groups: list[tuple[str, list[str]]], size: CellSize, columns: int) -> int:
    """The lines that `lay_out` would take."""
    across = cells_across(size, columns)
    return sum(bool(title) + -(-len(names) // across) * size.rows for title, names in groups)


def cells_across(size: CellSize, columns: int) -> int:
    """How many cells lie side by side."""
    return max(1, (columns - 2) // size.columns)


def choose_zoom(
    groups: list[tuple[str, list[str]]], fleet: Fleet, columns: int, lines: int, fill: str = "GPUs"
) -> Layout:
    """The largest cells with which everything fits, else dots."""
    most = widest(fleet, [name for _, some in groups for name in some])
    sizes = [cell_size(zoom, most, fill) for zoom in reversed(ZOOMS)]
    fitting = (size for size in sizes if height_of(groups, size, columns) <= lines)
    return lay_out(groups, next(fitting, sizes[-1]), columns)


def cell(fact: NodeFact, size: CellSize, line: int) -> list[Piece]:
    """One line of a node's cell, without the gap to the next; `line` counts from 0."""
    look = fact.appearance
    room = size.columns - 2
    if size.zoom == "dot":
        part = filled(fact, size.fill)
        return [(look.glyph, look.role), (level(part) if part else " ", look.role)]
    if size.zoom == "small":
        shown = gpu_blocks(fact, size.slots) if size.fill == "GPUs" else _bar(fact, size)
        return [(f"{look.glyph} {fit(fact.name, size.name)}", look.role), (" ", "plain"), *shown]
    if line == 0:
        word = look.word
        return [(f"{look.glyph} {fit(fact.name, size.name)}", look.role), (word.rjust(room - size.name - 2), look.role)]
    if line == 1:
        words = fit(f"{gpus_words(fact)} {fact.gpu_type}" if fact.gpus else "", 10)
        return [
            ("gpu ", "dim"),
            *gpu_blocks(fact, size.slots),
            (f" {words}"[: max(0, room - 4 - size.slots)], "number"),
        ]
    if line == 2:
        return _meter("cpu", fact.cpus_used, fact.cpus, cpus_words(fact), room)
    if line == 3:
        return _meter("mem", fact.memory_used_mib, fact.memory_mib, memory_words(fact) + "G", room)
    return []


def reserved_sign(fact: NodeFact) -> Piece:
    """What stands behind a cell's first line: a reservation that holds the node now, or (dimmed) one to come."""
    if fact.held_for is not None:
        return ("▣", "state-drained") if fact.held_for.maintenance else ("◈", "state-planned")
    return ("◈", "dim") if fact.reserved else (" ", "plain")


def _meter(label: str, used: int, total: int | None, words: str, room: int) -> list[Piece]:
    if total is None:
        return [(f"{label} ", "dim"), ("?", "dim")]
    wide = min(8, room - 5 - len(words))
    part = used / total if total else 0.0
    meter = bar(part, wide, "meter") if wide >= 3 else []
    return [(f"{label} ", "dim"), *meter, (f" {words}", "number")]


def _bar(fact: NodeFact, size: CellSize) -> list[Piece]:
    return bar(filled(fact, size.fill), size.slots, "meter")


def heading(fleet: Fleet, title: str, names: list[str], fill: str = "GPUs") -> list[Piece]:
    """A group's line: its title, nodes, and of what the cells show how much is free for new jobs."""
    facts = [fleet.facts[name] for name in names if name in fleet.facts]
    unknown = sum(not fact.known for fact in facts)
    words = tr_count("{count} node", "{count} nodes", len(facts))
    serving = [fact for fact in facts if fact.serves]
    if fill == "GPUs":
        total, free = sum(len(fact.gpus) for fact in facts), sum(fact.gpus_free for fact in serving)
        words += (
            tr_count(" · {{free}} of {count} GPU free", " · {{free}} of {count} GPUs free", total).format(free=free)
            if total
            else ""
        )
    elif fill == "CPUs":
        total, free = sum(fact.cpus or 0 for fact in facts), sum((fact.cpus or 0) - fact.cpus_used for fact in serving)
        words += tr(" · {free} of {total} CPUs free").format(free=free, total=total) if total else ""
    else:
        total = sum(fact.memory_mib or 0 for fact in facts)
        free = sum((fact.memory_mib or 0) - fact.memory_used_mib for fact in serving)
        words += tr(" · {free} of {total} GiB free").format(free=gib(free), total=gib(total)) if total else ""
    if unknown:
        words += tr(" · {count} unknown").format(count=unknown)
    return [(f"{title}  ", "bold"), (words, "dim")]


def legend(counts: dict[str, int], room: int, size: CellSize | None = None) -> list[Piece]:
    """Glyph, word and number of each state there is, then what the cells' blocks mean where there is room."""
    present = [(LOOKS[look], count) for look, count in counts.items() if count]
    texts = [f"{look.glyph} {look.word} {count}" for look, count in present]
    if sum(len(text) + 2 for text in texts) - 2 > room:
        texts = [f"{look.glyph} {look.short} {count}" for look, count in present]
    used = sum(width(text) + 2 for text in texts)
    pieces: list[Piece] = []
    for text, (look, _) in zip(texts, present, strict=True):
        pieces += [(text, look.role), ("  ", "plain")]
    blocks: list[Piece] = [
        ("█", "plain"),
        (tr(" held "), "dim"),
        ("▄", "plain"),
        (f" {tr('shared')} ", "dim"),
        ("░", "faint"),
    ]
    blocks += [(f" {tr('free')} ", "dim"), ("!", "bad"), (f" {tr('fault')}", "dim")]
    if size is not None and (size.zoom == "dot" or (size.zoom == "small" and size.fill != "GPUs")):
        blocks = [("▂▅█" if size.zoom == "dot" else "━━", "plain"), (f" {tr(size.fill)}{tr(' held ').rstrip()}", "dim")]
    wide = sum(width(text) for text, _ in blocks)
    if used + wide + 2 <= room:
        pieces += [(" " * (room - used - wide), "plain"), *blocks]
    return pieces


def summary(fact: NodeFact, now: int = 0) -> list[Piece]:
    """The node under the cursor in one line, with the reservation that holds it or comes next."""
    look = fact.appearance
    pieces: list[Piece] = [(f"{fact.name} ", "bold"), (f"{look.glyph} {look.word}", look.role)]
    if fact.known:
        pieces.append(
            (tr("  CPUs {cpus}  mem {memory} GiB").format(cpus=cpus_words(fact), memory=memory_words(fact)), "plain")
        )
        kind = "" if fact.gpu_type == "-" else f" {fact.gpu_type}"
        pieces.append(
            (tr("  GPUs {gpus}  jobs {jobs}").format(gpus=f"{gpus_words(fact)}{kind}", jobs=len(fact.jobs)), "plain")
        )
    if fact.reason:
        pieces.append((f"  {fact.reason}", "warning"))
    if one := fact.held_for or next((one for one in fact.reserved if when_words(one, now) != "over"), None):
        pieces.append((f"  ◈ {clean(one.name)} {when_words(one, now)}", "state-planned"))
    return pieces
