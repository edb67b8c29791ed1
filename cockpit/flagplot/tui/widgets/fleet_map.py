"""The map of nodes: drawn line by line, with a cursor and marks that follow the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from flagplot.tui.widgets.drawn_list import MARK_ALL_KEY, MARK_KEYS, PAGE_KEYS, DrawnList, thumb_at
from flagplot.tui.widgets.pieces import segments_of
from flagplot.view.bars import Piece
from flagplot.view.fleet import Fleet
from flagplot.view.fleet_map import CellSize, Layout, cell, heading, reserved_sign


class FleetMap(DrawnList[str]):
    """One cell per node in groups; three sizes of cells."""

    DEFAULT_CSS = """
    FleetMap { height: 1fr; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1, 0)", "Left", show=False),
        Binding("right,l", "move(1, 0)", "Right", show=False),
        Binding("down,j", "move(0, 1)", "Down", show=False),
        Binding("up,k", "move(0, -1)", "Up", show=False),
        *PAGE_KEYS,
        Binding("home", "end(False)", "First node", show=False),
        Binding("end,G", "end(True)", "Last node", show=False),
        *MARK_KEYS,
        MARK_ALL_KEY,
    ]

    class Opened(Message):
        """A node was chosen by a click on the cursor's cell."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.layout_map = Layout(CellSize("dot", 2, 1, 6, 1), 1)
        self._groups: dict[str, list[str]] = {}
        self._headings: dict[str, list[Piece]] = {}
        self._cursor = ""

    @property
    def names(self) -> list[str]:
        """The nodes on the map, in order."""
        return [name for _, _, names in self.layout_map.rows for name in names]

    @property
    def shown_keys(self) -> Sequence[str]:
        """The same."""
        return self.names

    @property
    def cursor_name(self) -> str:
        """The node under the cursor; empty when there is none."""
        return self._cursor

    @property
    def cursor_key(self) -> str | None:
        """The same, None when there is none."""
        return self._cursor or None

    def set_map(self, fleet: Fleet, groups: list[tuple[str, list[str]]], layout: Layout) -> None:
        """Take a new map; redraws only the lines whose content changed."""
        old = self.layout_map
        self.fleet, self.layout_map = fleet, layout
        self._groups, self._headings = dict(groups), {}
        self.marks &= fleet.facts.keys()
        if layout.place(self._cursor) is None:
            self._cursor = layout.move("", 0, 0)
        self._keep_visible()
        if old.size != layout.size or old.across != layout.across:
            self.refresh()
        else:
            self.redraw_changed()

    def facts_changed(self) -> None:
        """The same nodes at the same places, with other facts."""
        self._headings = {}
        self.redraw_changed()

    def _heading(self, title: str) -> list[Piece]:
        """A group's line, made when it is drawn."""
        if title not in self._headings:
            names = self._groups.get(title, [])
            self._headings[title] = heading(self.fleet, title, names, self.layout_map.size.fill)
        return self._headings[title]

    def move_to(self, name: str) -> None:
        """Put the cursor on a node."""
        if self.layout_map.place(name) is not None:
            self._cursor = name
            self._keep_visible()
            self.redraw_changed()
            self.post_message(self.Moved())

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

    def _signature(self, y: int) -> object:
        line = self._top + y
        row = self.layout_map.at_line(line)
        if row is None:
            return (line, tuple(self.empty) if not self.layout_map.rows else ())
        start, title, names = row
        if not names:
            return (title, tuple(self._heading(title)), self._thumb(y))
        facts = self.fleet.facts
        states = tuple((facts[name], name in self.marks, name == self._cursor) for name in names if name in facts)
        return (line - start, states, self.has_focus, self._thumb(y))

    def _thumb(self, y: int) -> bool | None:
        return thumb_at(y, self._top, max(1, self.size.height), self.layout_map.height)

    def _segments(self, y: int) -> list[Segment]:
        app = self.cockpit
        row = self.layout_map.at_line(self._top + y)
        if not self.layout_map.rows:
            return self._empty_line(y)
        if row is None:
            return []
        start, title, names = row
        if not names:
            return [Segment(" "), *segments_of(app, self._heading(title), self.size.width - 2, Style())]
        size = self.layout_map.size
        if size.zoom == "dot":
            return self._dots(names)
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
            segments.append(Segment("▌" if marked else " ", app.role("mark") + over))
            segments += segments_of(app, cell(fact, size, line), size.columns - 2, over)
            sign, role = reserved_sign(fact) if line == 0 else (" ", "plain")
            segments.append(Segment(sign, app.role(role)))
        return segments

    def _dots(self, names: list[str]) -> list[Segment]:
        """A line of the smallest cells: neighbours that look alike are one segment, for a screen holds thousands."""
        app, size = self.cockpit, self.layout_map.size
        cursor = app.role("cursor" if self.has_focus else "cursor-blurred")
        runs: list[tuple[str, str, bool]] = [(" ", "plain", False)]
        for name in names:
            fact = self.fleet.facts.get(name)
            pieces = cell(fact, size, 0) if fact is not None else [("  ", "plain")]
            if name in self.marks:
                pieces = [*pieces[:1], ("▌", "mark")]
            for text, role in pieces:
                before, same, here = runs[-1]
                if same == role and here == (name == self._cursor):
                    runs[-1] = (before + text, role, here)
                else:
                    runs.append((text, role, name == self._cursor))
        return [Segment(text, app.role(role) + cursor if here else app.role(role)) for text, role, here in runs]

    # keys and mouse

    def action_move(self, across: int, down: int) -> None:
        """Move the cursor."""
        self.move_to(self.layout_map.move(self._cursor, across, down))

    def go_down(self, rows: int) -> None:
        """Move the cursor down or up."""
        self.action_move(0, rows)

    def go_next(self) -> None:
        """Move the cursor to the next node."""
        self.action_move(1, 0)

    def action_page(self, pages: int) -> None:
        """Move by a screenful."""
        rows = max(1, self.size.height // self.layout_map.size.rows - 1)
        self.move_to(self.layout_map.move(self._cursor, 0, rows * pages))

    def action_end(self, last: bool) -> None:
        """Go to the first or last node."""
        if names := self.names:
            self.move_to(names[-1 if last else 0])

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one opens."""
        name = self.layout_map.at(event.x, self._top + event.y)
        if not name:
            return
        if name == self._cursor or event.chain > 1:
            self.post_message(self.Opened(name))
        self.move_to(name)
