"""Dials in a grid: figures with their past, one of them under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from flagplot.tui.widgets.drawn_list import DrawnList, thumb_at
from flagplot.tui.widgets.pieces import segments_of
from flagplot.view.bars import Piece
from flagplot.view.pulse import Dial, draw, grid


class Dials(DrawnList[str]):
    """Only the lines of dials whose figures changed are drawn anew."""

    DEFAULT_CSS = """
    Dials { height: 1fr; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1, 0)", "Left", show=False),
        Binding("right,l", "move(1, 0)", "Right", show=False),
        Binding("down,j", "move(0, 1)", "Down", show=False),
        Binding("up,k", "move(0, -1)", "Up", show=False),
        Binding("home,g", "end(False)", "First dial", show=False),
        Binding("end,G", "end(True)", "Last dial", show=False),
    ]

    class Opened(Message):
        """A dial was chosen by a click on that under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self.dials: list[Dial] = []
        self._at = 0
        self._lines: dict[int, list[list[Piece]]] = {}

    @property
    def shown_keys(self) -> Sequence[str]:
        """The dials' names."""
        return [dial.name for dial in self.dials]

    @property
    def cursor_key(self) -> str | None:
        """The name of the dial under the cursor."""
        return self.dials[self._at].name if self.dials else None

    @property
    def current(self) -> Dial | None:
        """The dial under the cursor; None before the first reading."""
        return self.dials[self._at] if self.dials else None

    def set_dials(self, dials: list[Dial]) -> None:
        """Show these."""
        self.dials = dials
        self._lines.clear()
        self.redraw_changed()

    # drawing

    @property
    def _grid(self) -> tuple[int, int, int]:
        return grid(len(self.dials), self.size.width - 2, self.size.height)

    def _drawn_dial(self, at: int) -> list[list[Piece]]:
        if at not in self._lines:
            _, columns, rows = self._grid
            self._lines[at] = draw(self.dials[at], columns - 2, rows - (rows > 3))
        return self._lines[at]

    def _signature(self, y: int) -> object:
        if not self.dials:
            return tuple(self.empty)
        across, _, rows = self._grid
        row, line = divmod(self._top + y, rows)
        shown = range(row * across, min((row + 1) * across, len(self.dials)))
        parts = [tuple(self._drawn_dial(at)[line]) for at in shown if line < len(self._drawn_dial(at))]
        here = self._at if self._at in shown else -1
        return (line, parts, here, self.has_focus, self._thumb(y))

    def _segments(self, y: int) -> list[Segment]:
        if not self.dials:
            return self._empty_line(y)
        across, columns, rows = self._grid
        row, line = divmod(self._top + y, rows)
        segments: list[Segment] = []
        for at in range(row * across, min((row + 1) * across, len(self.dials))):
            drawn = self._drawn_dial(at)
            here = at == self._at and line < len(drawn)
            segments.append(Segment("▌" if here else " ", self.cockpit.role("mark")))
            over = Style()
            if here and line == 0:
                over = self.cockpit.role("cursor" if self.has_focus else "cursor-blurred")
            pieces = drawn[line] if line < len(drawn) else []
            segments += segments_of(self.cockpit, pieces, columns - 2, over)
            segments.append(Segment(" "))
        return segments

    def _thumb(self, y: int) -> bool | None:
        across, _, rows = self._grid
        return thumb_at(y, self._top, max(1, self.size.height), -(-len(self.dials) // across) * rows)

    def _keep_visible(self) -> None:
        across, _, rows = self._grid
        first = self._at // across * rows
        if first < self._top:
            self._top = first
        elif first + rows > self._top + self.size.height:
            self._top = first + rows - self.size.height
        self._top = max(0, self._top)

    def on_resize(self) -> None:
        """The dials are laid out anew."""
        self._lines.clear()
        super().on_resize()

    # keys and mouse

    def _go(self, at: int) -> None:
        if 0 <= at < len(self.dials):
            self._at = at
            self._keep_visible()
            self.redraw_changed()
            self.post_message(self.Moved())

    def action_move(self, across: int, down: int) -> None:
        """The dial beside, above or below."""
        self._go(self._at + across + down * self._grid[0])

    def action_end(self, last: bool) -> None:
        """The first or last dial."""
        self._go(len(self.dials) - 1 if last else 0)

    def go_down(self, rows: int) -> None:
        """Down or up by dials."""
        self.action_move(0, 1 if rows > 0 else -1)

    def go_next(self) -> None:
        """The next dial."""
        self.action_move(1, 0)

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one opens."""
        across, columns, rows = self._grid
        at = (self._top + event.y) // rows * across + min(event.x // columns, across - 1)
        if at == self._at or event.chain > 1:
            self.post_message(self.Opened())
        self._go(at)
