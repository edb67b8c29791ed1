"""Charts of values over time in eighths of cells, with a line at a level. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flagplot.view.bars import LEVELS, Piece

UNKNOWN = "·"
"""Stands at the bottom where a value is not known; nothing stands where there is no value yet."""
LINE, TOP_LINE = "─", "▔"
Value = int | float | None


def chart(
    values: Sequence[Value], width: int, height: int, top: float, role: str = "meter", line: float | None = None
) -> list[list[Piece]]:
    """Rows from above to below: the last `width` values from the right, full height at `top`.

    What is above nothing always shows. `line` is a level that is drawn behind the bars; where they reach beyond it they
    have the role `bad`.
    """
    shown = list(values)[-width:]
    scale = height * 8 / top if top > 0 else 0.0
    eighths = [None if value is None else _eighths(value, scale, height) for value in shown]
    at_line = None if line is None or line > top or top <= 0 else min(height * 8, round(line * scale))
    left = width - len(shown)
    rows = []
    for row in reversed(range(height)):
        rule = _rule(row, at_line, height)
        cells = [(rule, "faint")] * left
        cells += [_cell(value, row, rule, role, at_line) for value in eighths]
        rows.append(_joined(cells))
    return rows


def _eighths(value: float, scale: float, height: int) -> int:
    return max(int(value > 0), min(height * 8, round(value * scale)))


def _rule(row: int, at_line: int | None, height: int) -> str:
    """What an empty cell of a row shows: the line where it runs here."""
    if at_line is None or (at_line - 1) // 8 != row:
        return " "
    return TOP_LINE if at_line >= height * 8 else LINE


def _cell(value: int | None, row: int, rule: str, role: str, at_line: int | None) -> Piece:
    if value is None:
        return (UNKNOWN, "dim") if row == 0 else (rule, "faint")
    filled = max(0, min(8, value - row * 8))
    if not filled:
        return rule, "faint"
    over = at_line is not None and value > at_line and (row + 1) * 8 > at_line
    return LEVELS[filled], "bad" if over else role


def _joined(cells: Sequence[Piece]) -> list[Piece]:
    pieces: list[Piece] = []
    for text, role in cells:
        if pieces and pieces[-1][1] == role:
            pieces[-1] = (pieces[-1][0] + text, role)
        else:
            pieces.append((text, role))
    return pieces


def squeezed(values: Sequence[Value], width: int) -> list[Value]:
    """All of `values` in at most `width`: each of the result is the largest known of as many that follow one another."""
    if len(values) <= width or width <= 0:
        return list(values)
    each = -(-len(values) // width)
    # Counted from the latest, so that a value that is drawn once keeps its company.
    first = len(values) % each
    starts = ([0] if first else []) + list(range(first, len(values), each))
    ends = [*starts[1:], len(values)]
    return [
        max((value for value in values[start:end] if value is not None), default=None)
        for start, end in zip(starts, ends, strict=True)
    ]
