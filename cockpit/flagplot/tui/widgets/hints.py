"""The bottom line: the keys of this view, made from its real bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.style import Style
from rich.text import Text
from textual.binding import Binding
from textual.widget import Widget

from flagplot.language import later, tr
from flagplot.tui.widgets.prompt import Prompt
from flagplot_wire.text import width as width_of

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

PROMPT_WORDS = {
    "/": later(" ⏎ keeps it  Esc clears it  ·  words, !not, user: state: part: node: name: gpu>2 nodes>1"),
    ":": later(" ⏎ runs it  Tab completes  ↑ earlier  Esc closes  ·  queue nodes job 41 drain gpu[01-03] why …"),
}
"""What the line says while the prompt is open."""
NAMES = {
    "question_mark": "?",
    "equals_sign": "=",
    "slash": "/",
    "colon": ":",
    "at": "@",
    "enter": "⏎",
    "escape": "Esc",
    "space": "space",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "plus": "+",
    "minus": "-",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}


def key_name(key: str) -> str:
    """A key as people write it: `ctrl+d` is `^d`, `question_mark` is `?`."""
    key = key.split(",")[0].strip()
    if key.startswith("ctrl+"):
        return "^" + key_name(key.removeprefix("ctrl+"))
    if key.startswith("shift+"):
        return "⇧" + key_name(key.removeprefix("shift+"))
    return NAMES.get(key, key)


def hint_text(bindings: list[Binding], width: int, key_style: Style, word_style: Style, tail: str = "") -> Text:
    """As many `key word` pairs as fit in `width` cells, then `tail`."""
    line = Text(" ", no_wrap=True, end="")
    for binding in bindings:
        key = binding.key_display or key_name(binding.key)
        word = tr(binding.description)
        piece = width_of(key) + width_of(word) + 3
        if line.cell_len + piece + width_of(tail) > width:
            break
        line.append(key, key_style)
        line.append(f" {word}  ", word_style)
    line.pad_right(max(0, width - line.cell_len - width_of(tail)))
    line.append(tail, word_style)
    return line


class Hints(Widget):
    """Keys that work here, as many as fit; `? all keys` always stays."""

    DEFAULT_CSS = """
    Hints { height: 1; dock: bottom; background: $panel; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__(id="hints")
        self._drawn: object = None

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    def render(self) -> Text:
        """The line."""
        role = self.cockpit.role
        prompt = self.screen.query_one(Prompt)
        if prompt.is_open:
            return Text(tr(PROMPT_WORDS[prompt.kind]), role("dim"), no_wrap=True, overflow="ellipsis")
        tail = tr("? keys  : command  q quit ") if self.size.width >= 100 else tr("? keys  q quit ")
        return hint_text(self.shown(), self.size.width, role("key"), role("dim"), tail)

    def shown(self) -> list[Binding]:
        """The bindings of the view on screen."""
        view = self.cockpit.active_view
        return view.bindings_shown if view else []

    def update_if_changed(self) -> None:
        """Repaint when another key works now."""
        prompt = self.screen.query_one(Prompt)
        wanted = (prompt.is_open and prompt.kind, [(b.key, b.description) for b in self.shown()])
        if wanted != self._drawn:
            self._drawn = wanted
            self.refresh()
