"""Columns spread over the width of a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flagplot.view.queue import Column


def spread(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that a table of `width` cells shows, with their widths (one cell lies between them)."""
    shown = [column for column in columns if width >= column.from_width]
    left = max(0, width - sum(column.width + 1 for column in shown) - 1)
    weights = sum(column.weight for column in shown) or 1
    return [(column, column.width + left * column.weight // weights) for column in shown]
