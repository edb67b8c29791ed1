"""The queue's columns: which, in which order, and by which it is sorted."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from flagplot.language import tr
from flagplot.view.queue import COLUMNS, SORTS, QueueSpec


class ColumnsDialog(ModalScreen[QueueSpec]):
    """Enter takes and saves what was chosen, Esc leaves all as it was. `fitting` are the columns that the width allows,
    which are those on screen until some are chosen."""

    DEFAULT_CSS = """
    ColumnsDialog { align: center middle; }
    ColumnsDialog > Vertical {
        width: 56; max-width: 95%; height: auto; max-height: 90%;
        border: round $primary; padding: 0 1; background: $surface;
    }
    ColumnsDialog VerticalScroll { height: auto; max-height: 13; margin: 1 0; }
    ColumnsDialog #columns { height: auto; }
    ColumnsDialog .keys { color: $text-muted; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take and save"),
        Binding("escape,q", "dismiss", "Leave"),
        Binding("space", "flip", "Show or hide"),
        Binding("J,shift+down", "carry(1)", "Move down"),
        Binding("K,shift+up", "carry(-1)", "Move up"),
        Binding("s", "sort", "Sort by it, again: turn round"),
        Binding("0", "default", "As the width allows"),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
    ]

    def __init__(self, spec: QueueSpec, fitting: list[str]) -> None:
        super().__init__()
        self._titles = {column.key: column.title for column in COLUMNS}
        self._spec, self._fitting = spec, fitting
        self._on = list(spec.columns or fitting)
        self._keys = [*self._on, *(column.key for column in COLUMNS if column.key not in self._on)]
        self._at, self._chosen = 0, bool(spec.columns)

    def compose(self) -> ComposeResult:
        """The columns and the keys."""
        with Vertical():
            yield Static(Content(tr("Columns of the queue")))
            with VerticalScroll(can_focus=False):
                yield Static(self.body(), id="columns")
            yield Static(
                Content(
                    tr("space shows or hides · J K move · s sorts\n0 as the width allows · Enter saves · Esc leaves")
                ),
                classes="keys",
            )

    def body(self) -> Content:
        """One line a column: its box, its title, and the order's arrow."""
        parts: list[str | tuple[str, str]] = []
        for index, key in enumerate(self._keys):
            box = "[x]" if key in self._on else "[ ]"
            arrow = ("▼" if self._spec.reverse else "▲") if key == self._spec.sort else ""
            sign = "▸" if index == self._at else " "
            parts.append((f"{sign} {box} {self._titles[key]} {arrow}\n", "bold" if index == self._at else ""))
        return Content.assemble(*parts)

    def _draw(self) -> None:
        self.query_one("#columns", Static).update(self.body())
        self.query_one(VerticalScroll).scroll_to(y=max(0, self._at - 10), animate=False)

    # keys

    def action_move(self, rows: int) -> None:
        """Another column."""
        self._at = max(0, min(self._at + rows, len(self._keys) - 1))
        self._draw()

    def action_carry(self, rows: int) -> None:
        """Move the column."""
        to = self._at + rows
        if 0 <= to < len(self._keys):
            self._keys.insert(to, self._keys.pop(self._at))
            self._at, self._chosen = to, True
            self._draw()

    def action_flip(self) -> None:
        """Show or hide the column; one stays."""
        key = self._keys[self._at]
        if key not in self._on:
            self._on.append(key)
        elif len(self._on) > 1:
            self._on.remove(key)
        self._chosen = True
        self._draw()

    def action_sort(self) -> None:
        """Sort by the column; again turns the order round."""
        if (key := self._keys[self._at]) in SORTS:
            self._spec = self._spec.sorted_by(key)
            self._draw()

    def action_default(self) -> None:
        """The columns that fit the terminal, in their order."""
        self._on = list(self._fitting)
        self._keys, self._chosen, self._at = [column.key for column in COLUMNS], False, 0
        self._draw()

    def action_take(self) -> None:
        """Take what was chosen."""
        chosen = tuple(key for key in self._keys if key in self._on) if self._chosen else ()
        self.dismiss(replace(self._spec, columns=chosen))
