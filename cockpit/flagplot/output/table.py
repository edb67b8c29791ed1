"""Plain tables: aligned by terminal cells, safe to print."""

from __future__ import annotations

from collections.abc import Sequence

from flagplot_wire.text import clean, fit, width


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns as wide as their widest cell; the columns of `right` are aligned right. The last is not padded."""
    cells = [[clean(cell) for cell in row] for row in [header, *rows]]
    widths = [max(width(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        parts = []
        for column, cell in enumerate(row):
            if column in right:
                parts.append(" " * (widths[column] - width(cell)) + cell)
            elif column == len(row) - 1:
                parts.append(cell)
            else:
                parts.append(fit(cell, widths[column]))
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def amount(value: object, unit: str = "") -> str:
    """A number with its unit, `?` where it could not be asked."""
    return "?" if value is None else f"{value}{unit}"
