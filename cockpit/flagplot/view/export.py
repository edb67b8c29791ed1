"""A list as CSV or JSON: every row, the columns that are chosen, the words in full. Pure."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from flagplot.view.queue import Column

KINDS = ("csv", "json", "svg")
_DRAWN = re.compile("[\u2580-\u259f\u2800-\u28ff]+")
"""Bars, which stand beside their number."""
_STATES = ("state", "what")
"""Columns that begin with a glyph."""


def plain(column: Column, text: str) -> str:
    """A cell without what is only for the eye."""
    text = _DRAWN.sub("", text).strip()
    glyph, blank, rest = text.partition(" ")
    return rest if blank and column.key in _STATES and len(glyph) == 1 and not glyph.isalnum() else text


def written(kind: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """The file's text: CSV with a line of titles, or JSON with an object for each row; columns without a title are left
    out."""
    kept = [at for at, column in enumerate(columns) if column.title]
    chosen = [[row[at] for at in kept] for row in rows]
    if kind == "json":
        keys = [columns[at].key for at in kept]
        return json.dumps([dict(zip(keys, row, strict=True)) for row in chosen], ensure_ascii=False, indent=1) + "\n"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([columns[at].title for at in kept])
    writer.writerows(chosen)
    return text.getvalue()


def file_name(view: str, kind: str, at: datetime) -> str:
    """`flagplot-queue-20261203-081500.csv`."""
    word = re.sub(r"[^A-Za-z0-9]+", "-", view).strip("-").lower() or "view"
    return f"flagplot-{word}-{at:%Y%m%d-%H%M%S}.{kind}"
