"""A scrolling page of labelled lines that is redrawn only when its text changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from flagplot.view.job import Line

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


class TextPane(VerticalScroll, can_focus=True):
    """Labels on the left, text on the right; long text wraps."""

    DEFAULT_CSS = """
    TextPane { height: 1fr; padding: 0 1; }
    TextPane Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("g", "scroll_home", "Top", show=False),
        Binding("G", "scroll_end", "Bottom", show=False),
        Binding("ctrl+f", "page_down", "Page down", show=False),
        Binding("ctrl+u,ctrl+b", "page_up", "Page up", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shown: object = None

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(Text(""))

    @property
    def plain(self) -> str:
        """What is shown."""
        return (
            str(self._shown)
            if isinstance(self._shown, str)
            else "\n".join(f"{label} {text}".strip() for label, text, _ in cast("Sequence[Line]", self._shown or ()))
        )

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show labelled lines."""
        lines = tuple(lines)
        if lines == self._shown:
            return
        self._shown = lines
        app = cast("FlagplotApp", self.app)
        room = max((len(label) for label, _, _ in lines), default=0)
        text = Text()
        for label, words, role in lines:
            text.append(f"{label:<{room}}  " if room else "", app.role("dim"))
            text.append(words, app.role(role))
            text.append("\n")
        self.query_one(Static).update(text)

    def show_text(self, text: str) -> None:
        """Show cleaned plain text."""
        if text != self._shown:
            self._shown = text
            self.query_one(Static).update(Text(text))
