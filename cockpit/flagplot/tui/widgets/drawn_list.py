"""What the table and the map share: lines drawn one by one, a cursor and marks that follow their key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

K = TypeVar("K", int, str)

PAGE_KEYS: list[BindingType] = [
    Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
    Binding("pageup,ctrl+u,ctrl+b", "page(-1)", "Page up", show=False),
]
MARK_KEYS: list[BindingType] = [
    Binding("space", "mark", "Mark", show=False),
    Binding("v,ctrl+@,ctrl+space", "mark_range", "Mark from the last mark to here", show=False),
]
MARK_ALL_KEY = Binding("ctrl+a", "mark_all", "Mark all shown", show=False)


class DrawnList(Generic[K], Widget, can_focus=True):
    """Things by key, line by line; only lines whose content changed are drawn anew."""

    WHEEL: ClassVar[int] = 1
    """Lines that one notch of the wheel moves the cursor."""

    class Moved(Message):
        """The cursor is on another key, or the marks changed."""

    def __init__(self, empty: Sequence[str] = ()) -> None:
        super().__init__()
        self.marks: set[K] = set()
        self.empty = empty
        self._anchor: K | None = None
        self._top = 0
        self._drawn: dict[int, object] = {}

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    # what is listed, and where

    @property
    def shown_keys(self) -> Sequence[K]:
        """Every key that is listed, in order."""
        raise NotImplementedError

    @property
    def cursor_key(self) -> K | None:
        """The key under the cursor; None when there is none."""
        raise NotImplementedError

    def go_next(self) -> None:
        """Move the cursor to the next key."""
        raise NotImplementedError

    def go_down(self, rows: int) -> None:
        """Move the cursor by rows."""
        raise NotImplementedError

    def chosen(self) -> list[K]:
        """The marked keys in their order, else the one under the cursor."""
        if self.marks:
            shown = [key for key in self.shown_keys if key in self.marks]
            return shown + sorted(self.marks.difference(shown))
        return [] if self.cursor_key is None else [self.cursor_key]

    # drawing

    def redraw_changed(self) -> None:
        """Redraw the lines whose content differs from what is on screen."""
        for y in range(self.size.height):
            if self._drawn.get(y) != self._signature(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def _signature(self, y: int) -> object:
        """All that line `y` of the screen depends on."""
        raise NotImplementedError

    def _segments(self, y: int) -> list[Segment]:
        """Line `y` of the screen."""
        raise NotImplementedError

    def _thumb(self, y: int) -> bool | None:
        """Whether line `y` shows the scroll bar's thumb; None: no scroll bar there."""
        raise NotImplementedError

    def _keep_visible(self) -> None:
        """Scroll so that the cursor is on screen."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """One line, with its piece of the scroll bar."""
        self._drawn[y] = self._signature(y)
        width: int = self.size.width
        style = self.rich_style
        strip: Strip = Strip(self._segments(y)).adjust_cell_length(width, None).apply_style(style)
        thumb = self._thumb(y)
        if thumb is None:
            return strip
        bar = Segment("█" if thumb else "│", style + self.cockpit.role("dim"))
        return Strip([*strip.crop(0, width - 1), bar])

    def _empty_line(self, y: int) -> list[Segment]:
        at = y - max(2, (self.size.height - len(self.empty)) // 3)
        if not 0 <= at < len(self.empty):
            return []
        line = self.empty[at]
        left = max(0, (self.size.width - cell_len(line)) // 2)
        return [Segment(" " * left), Segment(line, self.cockpit.role("bold" if at == 0 else "dim"))]

    def on_resize(self) -> None:
        """Everything is drawn anew, with the cursor on screen."""
        self._drawn.clear()
        self._keep_visible()
        self.refresh()

    def on_focus(self) -> None:
        """The cursor looks different with the focus."""
        self.redraw_changed()

    def on_blur(self) -> None:
        """The cursor looks different without the focus."""
        self.redraw_changed()

    # marks

    def action_mark(self) -> None:
        """Mark or unmark the key under the cursor and go on."""
        if (key := self.cursor_key) is not None:
            self.marks.symmetric_difference_update({key})
            self._anchor = key
            self.go_next()
            self._marked()

    def action_mark_range(self) -> None:
        """Mark everything between the last mark and here."""
        if (key := self.cursor_key) is None:
            return
        keys = self.shown_keys
        here = keys.index(key)
        start = keys.index(self._anchor) if self._anchor is not None and self._anchor in keys else here
        low, high = sorted((start, here))
        self.marks.update(keys[low : high + 1])
        self._anchor = key
        self._marked()

    def action_mark_all(self) -> None:
        """Mark everything shown, or unmark it when all of it is marked."""
        everything = set(self.shown_keys)
        self.marks = self.marks - everything if everything <= self.marks else self.marks | everything
        self._marked()

    def clear_marks(self) -> bool:
        """Unmark everything; False when nothing was marked."""
        had = bool(self.marks)
        self.marks.clear()
        self._anchor = None
        self.redraw_changed()
        return had

    def _marked(self) -> None:
        self.redraw_changed()
        self.post_message(self.Moved())

    # the wheel

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self.go_down(self.WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self.go_down(-self.WHEEL)


def thumb_at(line: int, top: int, page: int, total: int) -> bool | None:
    """Whether a scroll bar shows its thumb on a line of the page; None when all of `total` lines are on the page."""
    if total <= page:
        return None
    size = max(1, page * page // total)
    start = top * (page - size) // max(1, total - page)
    return start <= line < start + size
