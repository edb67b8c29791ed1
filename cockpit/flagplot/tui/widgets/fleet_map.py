"""The map of nodes: drawn line by line, with a cursor and marks that follow the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from flagplot.tui.widgets.pieces import segments_of
from flagplot.view.bars import Piece
from flagplot.view.fleet import Fleet
from flagplot.view.fleet_map import CellSize, Layout, cell, heading

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


class FleetMap(Widget, can_focus=True):
    """One cell per node in groups; three sizes of cells."""

    DEFAULT_CSS = """
    FleetMap { height: 1fr; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1, 0)", "Left", show=False),
        Binding("right,l", "move(1, 0)", "Right", show=False),
        Binding("down,j", "move(0, 1)", "Down", show=False),
        Binding("up,k", "move(0, -1)", "Up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+u,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("home", "end(False)", "First node", show=False),
        Binding("end,G", "end(True)", "Last node", show=False),
        Binding("space", "mark", "Mark", show=False),
        Binding("v,ctrl+@,ctrl+space", "mark_range", "Mark from the last mark to here", show=False),
        Binding("ctrl+a", "mark_all", "Mark all shown", show=False),
    ]

    class Opened(Message):
        """A node was chosen by a click on the cursor's cell."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class Moved(Message):
        """The cursor is on another node, or the marks changed."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.layout_map = Layout(CellSize("dot", 2, 1, 6, 1), 1)
        self.marks: set[str] = set()
        self.empty: Sequence[str] = ()
        self._headings: dict[str, list[Piece]] = {}
        self._cursor = ""
        self._anchor = ""
        self._top = 0
        self._drawn: dict[int, object] = {}

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    @property
    def names(self) -> list[str]:
        """The nodes on the map, in order."""
        return [name for _, _, names in self.layout_map.rows for name in names]

    @property
    def cursor_name(self) -> str:
        """The node under the cursor; empty when there is none."""
        return self._cursor

    def set_map(self, fleet: Fleet, groups: list[tuple[str, list[str]]], layout: Layout) -> None:
        """Take a new map; redraws only the lines whose content changed."""
        old = self.layout_map
        self.fleet, self.layout_map = fleet, layout
        self._headings = {title: heading(fleet, title, names) for title, names in groups}
        self.marks &= fleet.facts.keys()
        if layout.place(self._cursor) is None:
            self._cursor = layout.move("", 0, 0)
        self._keep_visible()
        if old.size != layout.size or old.across != layout.across:
            self.refresh()
        else:
            self.redraw_changed()

    def move_to(self, name: str) -> None:
        """Put the cursor on a node."""
        if self.layout_map.place(name) is not None:
            self._cursor = name
            self._keep_visible()
            self.redraw_changed()
            self.post_message(self.Moved())

    def chosen(self) -> list[str]:
        """The marked nodes in the map's order, else the one under the cursor."""
        if self.marks:
            shown = [name for name in self.names if name in self.marks]
            return shown + sorted(self.marks.difference(shown))
        return [self._cursor] if self._cursor else []

    def _keep_visible(self) -> None:
        place = self.layout_map.place(self._cursor)
        page = max(1, self.size.height)
        if place is not None:
            first = self.layout_map.rows[place[0]][0]
            last = first + max(1, self.layout_map.size.rows - 1) - 1
            if place[0] and not self.layout_map.rows[place[0] - 1][2]:
                first -= 1
            if first < self._top:
                self._top = first
            elif last >= self._top + page:
                self._top = last - page + 1
        self._top = max(0, min(self._top, self.layout_map.height - page))

    # drawing

    def redraw_changed(self) -> None:
        """Redraw the lines whose content differs from what is on screen."""
        for y in range(self.size.height):
            if self._drawn.get(y) != self._signature(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def _signature(self, y: int) -> object:
        line = self._top + y
        row = self.layout_map.at_line(line)
        if row is None:
            return (line, tuple(self.empty) if not self.layout_map.rows else ())
        start, title, names = row
        if not names:
            return (title, tuple(self._headings.get(title, ())), self._thumb(y))
        facts = self.fleet.facts
        states = tuple((facts[name], name in self.marks, name == self._cursor) for name in names if name in facts)
        return (line - start, states, self.has_focus, self._thumb(y))

    def _thumb(self, y: int) -> bool | None:
        total, page = self.layout_map.height, max(1, self.size.height)
        if total <= page:
            return None
        size = max(1, page * page // total)
        start = self._top * (page - size) // max(1, total - page)
        return start <= y < start + size

    def render_line(self, y: int) -> Strip:
        """One line: a heading, a line of a row of cells, a line of the empty message, or blank."""
        self._drawn[y] = self._signature(y)
        width = self.size.width
        strip = Strip(self._segments(y)).adjust_cell_length(width, None).apply_style(self.rich_style)
        thumb = self._thumb(y)
        if thumb is None:
            return strip
        mark = Segment("█" if thumb else "│", self.rich_style + self.cockpit.role("dim"))
        return Strip([*strip.crop(0, width - 1), mark])

    def _segments(self, y: int) -> list[Segment]:
        app = self.cockpit
        row = self.layout_map.at_line(self._top + y)
        if not self.layout_map.rows:
            return self._empty_line(y)
        if row is None:
            return []
        start, title, names = row
        if not names:
            return [Segment(" "), *segments_of(app, self._headings.get(title, ()), self.size.width - 2, Style())]
        size = self.layout_map.size
        line = self._top + y - start
        segments: list[Segment] = [Segment(" ")]
        for name in names:
            fact = self.fleet.facts.get(name)
            gap = size.rows > 1 and line == size.rows - 1
            if fact is None or gap:
                segments.append(Segment(" " * size.columns))
                continue
            over = Style()
            if name == self._cursor:
                over = app.role("cursor" if self.has_focus else "cursor-blurred")
            marked = name in self.marks
            if size.zoom == "dot":
                look = cell(fact, size, 0)
                segments += segments_of(app, look, 1, over)
                segments.append(Segment("▌" if marked else " ", app.role("mark")))
                continue
            segments.append(Segment("▌" if marked else " ", app.role("mark") + over))
            segments += segments_of(app, cell(fact, size, line), size.columns - 2, over)
            segments.append(Segment(" "))
        return segments

    def _empty_line(self, y: int) -> list[Segment]:
        at = y - max(2, (self.size.height - len(self.empty)) // 3)
        if not 0 <= at < len(self.empty):
            return []
        left = max(0, (self.size.width - len(self.empty[at])) // 2)
        return [Segment(" " * left), Segment(self.empty[at], self.cockpit.role("bold" if at == 0 else "dim"))]

    def on_resize(self) -> None:
        """Everything is drawn anew."""
        self._drawn.clear()
        self._keep_visible()
        self.refresh()

    def on_focus(self) -> None:
        """The cursor looks different with the focus."""
        self.redraw_changed()

    def on_blur(self) -> None:
        """The cursor looks different without the focus."""
        self.redraw_changed()

    # keys and mouse

    def action_move(self, across: int, down: int) -> None:
        """Move the cursor."""
        self.move_to(self.layout_map.move(self._cursor, across, down))

    def action_page(self, pages: int) -> None:
        """Move by a screenful."""
        rows = max(1, self.size.height // self.layout_map.size.rows - 1)
        self.move_to(self.layout_map.move(self._cursor, 0, rows * pages))

    def action_end(self, last: bool) -> None:
        """Go to the first or last node."""
        if names := self.names:
            self.move_to(names[-1 if last else 0])

    def action_mark(self) -> None:
        """Mark or unmark the node and go on."""
        if self._cursor:
            self.marks.symmetric_difference_update({self._cursor})
            self._anchor = self._cursor
            self.action_move(1, 0)
            self._marked()

    def action_mark_range(self) -> None:
        """Mark everything between the last mark and here."""
        names = self.names
        if not self._cursor or self._cursor not in names:
            return
        low, high = sorted((names.index(self._anchor or self._cursor), names.index(self._cursor)))
        self.marks.update(names[low : high + 1])
        self._anchor = self._cursor
        self._marked()

    def action_mark_all(self) -> None:
        """Mark every node shown, or unmark them when all are marked."""
        everything = set(self.names)
        self.marks = self.marks - everything if everything <= self.marks else self.marks | everything
        self._marked()

    def clear_marks(self) -> bool:
        """Unmark everything; False when nothing was marked."""
        had = bool(self.marks)
        self.marks.clear()
        self._anchor = ""
        self.redraw_changed()
        return had

    def _marked(self) -> None:
        self.redraw_changed()
        self.post_message(self.Moved())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self.action_move(0, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self.action_move(0, -1)

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one opens."""
        name = self.layout_map.at(event.x, self._top + event.y)
        if not name:
            return
        if name == self._cursor or event.chain > 1:
            self.post_message(self.Opened(name))
        self.move_to(name)
