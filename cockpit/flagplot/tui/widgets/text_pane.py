"""A scrolling page of labelled lines that is redrawn only when its text changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.table import Table
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Scrolling keys work while there is more than fits."""
        if action in ("scroll_left", "scroll_right", "page_left", "page_right"):
            return self.allow_horizontal_scroll
        if action.startswith(("scroll_", "page_")):
            return self.allow_vertical_scroll
        return super().check_action(action, parameters)

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show labelled lines."""
        lines = tuple(lines)
        if lines == self._shown:
            return
        self._shown = lines
        app = cast("FlagplotApp", self.app)
        self.show_grid([(Text(label, app.role("dim")), Text(words, app.role(role))) for label, words, role in lines])

    def show_grid(self, rows: Sequence[tuple[Text, Text]]) -> None:
        """Show labels and texts; what wraps stays right of the labels."""
        room = max((label.cell_len for label, _ in rows), default=0)
        grid = Table.grid(padding=(0, 2 if room else 0, 0, 0))
        grid.add_column(width=room, no_wrap=True)
        grid.add_column(overflow="fold")
        for row in rows:
            grid.add_row(*row)
        self.query_one(Static).update(grid)

    def show_text(self, text: str) -> None:
        """Show cleaned plain text."""
        if text != self._shown:
            self._shown = text
            self.query_one(Static).update(Text(text))
