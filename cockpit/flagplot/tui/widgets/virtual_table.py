"""A table drawn line by line: 100,000 rows cost what the rows on screen cost, and only changed rows are redrawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, cast

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from flagplot.tui.widgets.drawn_list import MARK_ALL_KEY, MARK_KEYS, PAGE_KEYS, DrawnList, thumb_at
from flagplot.view.export import plain
from flagplot.view.queue import Cell, Column

Key = int
CYCLE_S = 2
"""Seconds for which a changed row is marked as such."""
KNOWN_ROWS = 1_000
"""Rows whose cells are kept: more than a screen has."""
SHORTEST_REASON = 5
"""Cells that must be left for reasons to say anything: `(Res…`."""
CellsOf = Callable[[Key], Sequence[Cell]]


def fit(text: str, width: int, right: bool = False) -> str:
    """Text in exactly `width` cells: padded, or cut with an ellipsis (wide characters are counted as two)."""
    size = cell_len(text)
    if size == width:
        return text
    if size < width:
        return " " * (width - size) + text if right else text + " " * (width - size)
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def fit_reason(text: str, width: int) -> str:
    """As `fit`, but of `(Resources,Priority) in 2 h` the reasons are cut rather than the time."""
    reasons, closed, when = text.rpartition(") ")
    room = width - cell_len(when) - 2
    if cell_len(text) <= width or not closed or room < SHORTEST_REASON:
        return fit(text, width)
    return f"{fit(reasons, room)}) {when}"


class VirtualTable(DrawnList[Key]):
    """Rows by key. The cursor and the marks follow the key wherever its row goes."""

    DEFAULT_CSS = """
    VirtualTable { height: 1fr; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        *PAGE_KEYS,
        Binding("home,g", "end(False)", "First row", show=False),
        Binding("end,G", "end(True)", "Last row", show=False),
        *MARK_KEYS,
        Binding("shift+down", "mark_move(1)", "Mark and go down", show=False),
        Binding("shift+up", "mark_move(-1)", "Mark and go up", show=False),
        MARK_ALL_KEY,
    ]
    WHEEL = 3

    class Opened(Message):
        """A row was chosen by a double click or a click on the cursor's row."""

        def __init__(self, key: Key) -> None:
            super().__init__()
            self.key = key

    class HeaderClicked(Message):
        """A column's title was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    def __init__(self, *, empty: Sequence[str] = ()) -> None:
        super().__init__(empty)
        self.keys: Sequence[Key] = ()
        self.columns: list[tuple[Column, int]] = []
        self.sorted_by, self.reverse = "", False
        self._cells: CellsOf = lambda key: ()
        self._known: dict[Key, Sequence[Cell]] = {}
        """Cells of this model made so far: a line is compared and then drawn, and a cursor that moves makes none anew."""
        self._fresh: dict[Key, int] = {}
        self._at = 0
        self._cursor: Key | None = None
        self.displaced = False
        """The key under the cursor went by itself and the cursor stands on another; a move by hand ends it."""
        self._placed = False

    # the model

    def set_rows(
        self,
        keys: Sequence[Key],
        cells: CellsOf,
        columns: list[tuple[Column, int]],
        *,
        sorted_by: str = "",
        reverse: bool = False,
        by_hand: bool = False,
    ) -> None:
        """Take a new model; redraws only the lines whose content changed. `by_hand`: the person asked for other rows."""
        header_same = (columns, sorted_by, reverse) == (self.columns, self.sorted_by, self.reverse)
        self.keys, self._cells, self.columns, self._known = keys, cells, columns, {}
        self.sorted_by, self.reverse = sorted_by, reverse
        if self._cursor is not None and not (self._at < len(keys) and keys[self._at] == self._cursor):
            self._follow(keys, by_hand)
        self._at = min(self._at, max(0, len(keys) - 1))
        self._cursor = keys[self._at] if keys else None
        self._keep_visible()
        if not header_same:
            self.refresh()
            return
        self.redraw_changed()

    def _follow(self, keys: Sequence[Key], by_hand: bool) -> None:
        """The cursor goes where its key went. One that nobody has placed yet stays on top rather than leave the page:
        whoever opened the list to read its beginning is not carried off to its end."""
        try:
            at = keys.index(cast("Key", self._cursor))
        except ValueError:
            self.displaced = not by_hand
            self._at = 0 if by_hand else self._at
            return
        if self._placed or at < self._page:
            self._at = at
        else:
            self.displaced = not by_hand
            self._at = 0

    def place(self) -> None:
        """The person means the row under the cursor: from now on the cursor follows it anywhere."""
        self._placed = True

    def took(self, changed: Collection[Key], now: int) -> None:
        """These keys changed at `now`; their rows say so for `CYCLE_S` seconds."""
        self._fresh = {key: until for key, until in self._fresh.items() if until > now}
        self._fresh.update(dict.fromkeys(changed, now + CYCLE_S))

    def forget_marks(self, alive: Callable[[Key], bool]) -> None:
        """Drop the marks of keys that are gone."""
        self.marks = {key for key in self.marks if alive(key)}

    @property
    def cursor_key(self) -> Key | None:
        """The key under the cursor; None when the table is empty."""
        return self._cursor if self.keys else None

    @property
    def shown_keys(self) -> Sequence[Key]:
        """The keys of the rows."""
        return self.keys

    def move_to(self, key: Key) -> None:
        """Put the cursor on a key."""
        if key in self.keys:
            self._go(self.keys.index(key))

    def exported_row(self, key: Key) -> list[str]:
        """A row's words in full, for a file; empty for a row that went meanwhile."""
        return [
            plain(column, self._words(cell)) for (column, _), cell in zip(self.columns, self._cells(key), strict=False)
        ]

    def _words(self, cell: Any) -> str:
        return str(cell[0])

    # drawing

    def _cells_of(self, key: Key) -> Sequence[Cell]:
        found = self._known.get(key)
        if found is None:
            if len(self._known) == KNOWN_ROWS:
                self._known.clear()
            found = self._known[key] = tuple(self._cells(key))
        return found

    @property
    def _page(self) -> int:
        return max(1, self.size.height - 1)

    def _keep_visible(self) -> None:
        page = self._page
        if self._at < self._top:
            self._top = self._at
        elif self._at >= self._top + page:
            self._top = self._at - page + 1
        self._top = max(0, min(self._top, len(self.keys) - page))

    def _signature(self, y: int) -> object:
        if y == 0:
            return (0, self.sorted_by, self.reverse, self.size.width)
        index = self._top + y - 1
        thumb = self._thumb(y)
        if not self.keys:
            return (1, y, tuple(self.empty))
        if index >= len(self.keys):
            return (2, thumb)
        key = self.keys[index]
        return (
            3,
            thumb,
            key,
            index == self._at,
            key in self.marks,
            key in self._fresh,
            self._cells_of(key),
            self.has_focus,
        )

    def _thumb(self, y: int) -> bool | None:
        return None if y == 0 else thumb_at(y - 1, self._top, self._page, len(self.keys))

    def _segments(self, y: int) -> list[Segment]:
        if y == 0:
            return self._header()
        if not self.keys:
            return self._empty_line(y)
        index = self._top + y - 1
        return self._row(index) if index < len(self.keys) else []

    def _header(self) -> list[Segment]:
        segments = [Segment(" ")]
        for column, width in self.columns:
            chosen = column.key == self.sorted_by
            title = f"{column.title}{'▼' if self.reverse else '▲'}" if chosen else column.title
            style = self.cockpit.role("header-sorted" if chosen else "header")
            segments += [Segment(fit(title, width, column.right), style), Segment(" ")]
        return segments

    def _row(self, index: int) -> list[Segment]:
        key = self.keys[index]
        marked, here = key in self.marks, index == self._at
        over = self.cockpit.role("cursor" if self.has_focus else "cursor-blurred") if here else Style()
        sign = "▌" if marked else "▸" if key in self._fresh else " "
        segments = [Segment(sign, self.cockpit.role("mark") + over)]
        cells = self._cells_of(key)
        for (column, width), (text, role) in zip(self.columns, cells, strict=False):
            style = self._style(role)
            if marked:
                style += self.cockpit.role("marked")
            fitted = fit_reason(text, width) if column.keeps_end else fit(text, width, column.right)
            segments += [Segment(fitted, style + over), Segment(" ", over)]
        used = 1 + sum(width + 1 for _, width in self.columns)
        segments.append(Segment(" " * max(0, self.size.width - used), over))
        return segments

    def _style(self, role: str) -> Style:
        if role.startswith("owner:"):
            return self.cockpit.owner_style(role.removeprefix("owner:"))
        return self.cockpit.role(role)

    # keys and mouse

    def _go(self, at: int) -> None:
        if not self.keys:
            return
        self._at = max(0, min(at, len(self.keys) - 1))
        self._cursor = self.keys[self._at]
        self.displaced = False
        self.place()
        self._keep_visible()
        self.redraw_changed()
        self.post_message(self.Moved())

    def go_down(self, rows: int) -> None:
        """Move the cursor."""
        self._go(self._at + rows)

    def go_next(self) -> None:
        """Move the cursor to the next row."""
        self.go_down(1)

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.go_down(rows)

    def action_page(self, pages: int) -> None:
        """Move by a screenful."""
        self._go(self._at + pages * self._page)

    def action_end(self, last: bool) -> None:
        """Go to the first or last row."""
        self._go(len(self.keys) - 1 if last else 0)

    def action_mark_move(self, rows: int) -> None:
        """Mark the row and move."""
        if (key := self.cursor_key) is not None:
            self.marks.add(key)
            self._anchor = key
            self._go(self._at + rows)
            if self.cursor_key is not None:
                self.marks.add(self.cursor_key)
            self.redraw_changed()

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one opens; the header sorts."""
        if event.y == 0:
            left = 1
            for column, width in self.columns:
                if left <= event.x < left + width + 1:
                    self.post_message(self.HeaderClicked(column.key))
                left += width + 1
            return
        index = self._top + event.y - 1
        if not 0 <= index < len(self.keys):
            return
        if index == self._at or event.chain > 1:
            self.post_message(self.Opened(self.keys[index]))
        self._go(index)
