"""How a person wants the cockpit drawn: without colours, in ASCII alone, without mouse, without motion."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter, Monochrome

ASCII = str.maketrans(
    {
        # states of jobs and nodes, each told apart from the others
        "○": "o", "●": "*", "◆": "=", "◐": "~", "✓": "+", "✗": "x", "⊘": "-", "◷": "@", "▲": "^", "↺": "<", "◇": "&", "▽": "V",
        "◑": "%", "◌": ".", "◈": "R", "▣": "$",
        # eighths of a block by height, then shades and halves
        "▁": "_", "▂": ".", "▃": ":", "▄": "-", "▅": "=", "▆": "+", "▇": "%", "█": "#", "▔": "-", "░": ".", "▒": "/",
        "▓": "%", "▌": "|", "▐": "|", "▏": "|", "▎": "|", "▍": "|", "▋": "|", "▊": "|", "▉": "|", "▕": "|",
        # lines
        "━": "=", "╸": "~", "─": "-", "═": "=", "│": "|", "┃": "|", "║": "|", "╵": "'",
        # signs and arrows
        "▸": ">", "▶": ">", "▼": "v", "▾": "v", "◀": "<", "›": ">", "→": ">", "←": "<", "↑": "^", "↓": "v", "⏎": "<",
        "⇧": "S", "⚑": ">", "✎": "/", "·": ".", "•": "*", "…": "~", "–": "-", "—": "-", "×": "x", "°": "'", "∞": "-",
    }
)  # fmt: skip
"""One cell for one cell; what is not here is taken apart (é) or a question mark for each of its cells."""


@dataclass(frozen=True)
class Looks:
    """The choices of one person; each is off unless asked for."""

    mono: bool = False
    ascii: bool = False
    mouse: bool = True
    still: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Looks:
        """From the program's options."""
        return cls(
            mono=bool(options.get("no_color")),
            ascii=bool(options.get("ascii")),
            mouse=not options.get("no_mouse"),
            still=bool(options.get("reduced_motion")),
        )

    def filters(self) -> Sequence[LineFilter]:
        """What every drawn line passes through."""
        return [*([Monochrome()] if self.mono else []), *([AsciiOnly()] if self.ascii else [])]


class AsciiOnly(LineFilter):
    """Draws every cell with an ASCII character, whoever drew it and whatever text it came from."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments in ASCII, as wide as they were."""
        return [
            segment if segment.control or segment.text.isascii() else Segment(ascii_of(segment.text), segment.style)
            for segment in segments
        ]


@lru_cache(4096)
def ascii_of(text: str) -> str:
    """`text` in ASCII, in exactly as many terminal cells."""
    cells = cell_len(text)
    plain = "".join(one if one.isascii() else _instead(one) for one in text.translate(ASCII))
    return plain[:cells].ljust(cells)


def _instead(character: str) -> str:
    cells = cell_len(character)
    code = ord(character)
    if 0x2500 <= code < 0x2580:
        return "+"
    if 0x2580 <= code < 0x25A0:
        return "#"
    base = "".join(one for one in unicodedata.normalize("NFKD", character) if one.isascii())
    return base if len(base) == cells and base.isprintable() else "?" * cells
