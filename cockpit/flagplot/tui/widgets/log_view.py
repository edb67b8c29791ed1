"""A window on a file of any size, read in pieces: the end first, older pieces as the person scrolls up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

KEEP_BYTES = 4 * 1024 * 1024
"""Most bytes held; beyond them the end farther from the reader is dropped."""
_SGR = re.compile(r"\x1b\[[0-9;:]*m")


def log_line(raw: bytes) -> str:
    """One line as shown: what a carriage return overwrote is gone, tabs are blanks, the rest is made safe."""
    text = raw.decode("utf-8", "replace").rstrip("\r")
    text = text.rsplit("\r", 1)[-1]
    return clean(_SGR.sub("", text).expandtabs(8))


def looks_binary(data: bytes) -> bool:
    """True for data that is hardly text: NULs, or many control bytes."""
    head = data[:4_096]
    odd = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head)
    return b"\0" in head or odd * 10 > len(head) > 0


def wrap_cells(line: str, width: int) -> list[str]:
    """Cut a line into pieces of at most `width` cells."""
    if cell_len(line) <= width:
        return [line]
    if line.isascii():
        return [line[at : at + width] for at in range(0, len(line), width)]
    pieces, piece, used = [], "", 0
    for char in line:
        size = cell_len(char)
        if used + size > width:
            pieces.append(piece)
            piece, used = "", 0
        piece += char
        used += size
    return [*pieces, piece]


class LogView(Widget, can_focus=True):
    """Lines of bytes `start .. end` of a file of `size` bytes."""

    DEFAULT_CSS = """
    LogView { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "follow", "Follow"),
        Binding("w", "wrap", "Wrap"),
        Binding("down,j", "scroll_lines(1)", "Down", show=False),
        Binding("up,k", "scroll_lines(-1)", "Up", show=False),
        Binding("pagedown,ctrl+f", "scroll_pages(1)", "Page down", show=False),
        Binding("pageup,ctrl+u,ctrl+b", "scroll_pages(-1)", "Page up", show=False),
        Binding("home,g", "top", "First line held", show=False),
        Binding("end,G", "bottom", "End of the file", show=False),
        Binding("right", "sideways(16)", "Right", show=False),
        Binding("left", "sideways(-16)", "Left", show=False),
        Binding("n", "match(1)", "Next match"),
        Binding("N", "match(-1)", "Previous match", show=False),
    ]

    class WantsOlder(Message):
        """The reader is at the first line held and the file has more before it."""

    class WantsNewer(Message):
        """The reader is at the last line held, and the file has more behind it that is not held."""

    class WantsEarlier(Message):
        """The reader wants a match before the first that is held."""

    class WantsEnd(Message):
        """The reader went to the end, which is no longer held."""

    class Changed(Message):
        """Follow, wrap or search changed."""

    def __init__(self) -> None:
        super().__init__()
        self.start = self.end = self.size_of_file = 0
        self.following, self.wrapping, self.tail_cut, self.binary = True, True, False, False
        self.search = ""
        self._data: bytearray = bytearray()
        self._lines: list[str] = []
        self._rows: list[str] = []
        self._top = self._left = 0
        self._match = -1
        """The row of the match gone to last."""
        self._whole_head = False
        """The first line held is shown although its beginning is not held."""

    # content

    def reset(self) -> None:
        """Forget everything."""
        self.start = self.end = self.size_of_file = 0
        self.tail_cut = self.binary = self._whole_head = False
        self._data.clear()
        self._rebuild()

    def take(self, offset: int, data: bytes, size: int) -> None:
        """Take a piece of the file that follows, precedes or replaces what is held."""
        self.size_of_file = size
        if not data and offset == self.end and self._data:
            return
        if not self._data or (offset != self.end and offset + len(data) != self.start):
            self._data[:] = data
            self.start, self.end = offset, offset + len(data)
            self.binary = looks_binary(data)
            self._rebuild()
            return
        if offset == self.end:
            self._append(data)
        else:
            self._prepend(offset, data)

    def place(self, offset: int, data: bytes, size: int, found: int) -> None:
        """Hold this piece in place of all that was held, with the match at byte `found` of the file on screen."""
        self._data[:] = data
        self.start, self.end, self.size_of_file = offset, offset + len(data), size
        self.tail_cut, self.following, self.binary = self.end < size, False, looks_binary(data)
        before = data[: found - offset].count(b"\n")
        self._whole_head = not before
        self._rebuild()
        line = max(0, before - (offset > 0 and not self._whole_head))
        width = max(1, self.size.width)
        row = sum(len(wrap_cells(one, width)) for one in self._lines[:line]) if self.wrapping else line
        wanted = self.search.lower()
        self._match = next((at for at in range(row, len(self._rows)) if wanted in self._rows[at].lower()), row)
        self._scroll(self._match)

    def _append(self, data: bytes) -> None:
        if self.tail_cut:
            self.tail_cut = self.end + len(data) < self.size_of_file
        old = len(self._data)
        unfinished = not self._data.endswith(b"\n")
        self._data += data
        self.end += len(data)
        if len(self._data) > KEEP_BYTES:
            cut = len(self._data) - KEEP_BYTES * 3 // 4
            del self._data[:cut]
            self.start += cut
            self._rebuild()
            return
        if not self._lines or (unfinished and len(self._lines) == 1):
            self._rebuild()
            return
        # Only what is new is decoded: a fast log must not cost its whole window each time.
        at = self._data.rfind(b"\n", 0, old) + 1 if unfinished else old
        if unfinished:
            last = self._lines.pop()
            if self.wrapping:
                del self._rows[len(self._rows) - len(wrap_cells(last, max(1, self.size.width))) :]
        raw = bytes(self._data[at:]).split(b"\n")
        if not raw[-1]:
            raw.pop()
        fresh = [log_line(line) for line in raw]
        self._lines += fresh
        if self.wrapping:
            self._rows += [piece for line in fresh for piece in wrap_cells(line, max(1, self.size.width))]
        if self.following:
            self._top = self._last_top
        self.refresh()

    def _prepend(self, offset: int, data: bytes) -> None:
        before = len(self._rows)
        self._data[:0] = data
        self.start = offset
        self._whole_head = False
        if len(self._data) > KEEP_BYTES:
            del self._data[KEEP_BYTES * 3 // 4 :]
            self.end = self.start + len(self._data)
            self.tail_cut = True
        self._rebuild()
        self._top = max(0, len(self._rows) - before) if not self.tail_cut else min(self._top, len(self._rows))
        self.refresh()

    def _rebuild(self) -> None:
        raw = bytes(self._data).split(b"\n")
        if raw and not raw[-1]:
            raw.pop()
        if self.start > 0 and len(raw) > 1 and not self._whole_head:
            raw = raw[1:]
        self._lines = [log_line(line) for line in raw]
        self._wrap()

    def _wrap(self) -> None:
        width = max(1, self.size.width)
        if self.wrapping:
            self._rows = [piece for line in self._lines for piece in wrap_cells(line, width)]
        else:
            self._rows = self._lines
        if self.following:
            self._top = self._last_top
        self._top = max(0, min(self._top, self._last_top))
        self.refresh()

    @property
    def plain(self) -> str:
        """The lines held."""
        return "\n".join(self._lines)

    @property
    def _last_top(self) -> int:
        return max(0, len(self._rows) - self.size.height)

    # drawing

    def render_line(self, y: int) -> Strip:
        """One row."""
        index = self._top + y
        width = self.size.width
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[index]
        if self._left and not self.wrapping:
            row = row[self._left :]
        if cell_len(row) > width:
            row = set_cell_size(row, width - 1) + "…"
        return Strip(self._marked(row)).adjust_cell_length(width).apply_style(self.rich_style)

    def _marked(self, row: str) -> list[Segment]:
        if not self.search:
            return [Segment(row)]
        style = cast("FlagplotApp", self.app).role("match")
        low, wanted = row.lower(), self.search.lower()
        segments, at = [], 0
        while (found := low.find(wanted, at)) >= 0:
            segments += [Segment(row[at:found]), Segment(row[found : found + len(wanted)], style)]
            at = found + len(wanted)
        return [*segments, Segment(row[at:])]

    def on_resize(self, event: events.Resize) -> None:
        """Wrap anew."""
        self._wrap()

    # keys

    def _scroll(self, top: int) -> None:
        if top < 0 and self.start > 0:
            self.post_message(self.WantsOlder())
        elif top > self._last_top and self.tail_cut:
            self.post_message(self.WantsNewer())
        self._top = max(0, min(top, self._last_top))
        self.following = self._top == self._last_top and self.following
        self.refresh()
        self.post_message(self.Changed())

    def action_scroll_lines(self, rows: int) -> None:
        """Move by rows; moving up stops following."""
        if rows < 0:
            self.following = False
        self._scroll(self._top + rows)

    def action_scroll_pages(self, pages: int) -> None:
        """Move by pages; moving up stops following."""
        if pages < 0:
            self.following = False
        self._scroll(self._top + pages * max(1, self.size.height - 1))

    def action_top(self) -> None:
        """Go to the first line held; again: read what is before it."""
        self.following = False
        self._scroll(-1 if self._top == 0 else 0)

    def action_bottom(self) -> None:
        """Go to the end and follow."""
        self.following = True
        if self.tail_cut:
            self.post_message(self.WantsEnd())
        self._scroll(self._last_top)
        self.following = True
        self.post_message(self.Changed())

    def action_follow(self) -> None:
        """Follow the end, or stay."""
        if self.following:
            self.following = False
            self.post_message(self.Changed())
        else:
            self.action_bottom()

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wrapping = not self.wrapping
        self._left = 0
        self._wrap()
        self.post_message(self.Changed())

    def action_sideways(self, cells: int) -> None:
        """Move along unwrapped lines."""
        self._left = max(0, self._left + cells)
        self.refresh()

    def find(self, text: str) -> None:
        """Search; the last match comes into view."""
        self.search = text
        if text:
            self.action_match(-1, from_end=True)
        self.refresh()
        self.post_message(self.Changed())

    @property
    def has_match(self) -> bool:
        """True when something of what is held matches."""
        wanted = self.search.lower()
        return any(wanted in row.lower() for row in self._rows)

    def action_match(self, step: int, from_end: bool = False) -> None:
        """Go to the next or previous match, round and round; before the first held one, if there is more of the file."""
        wanted, total = self.search.lower(), len(self._rows)
        here = self._match if self._top <= self._match < self._top + self.size.height else self._top
        start = total if from_end else here
        for away in range(1, total + 1):
            at = start + step * away
            if at < 0 and self.start > 0 and not from_end:
                break
            at %= total
            if wanted in self._rows[at].lower():
                self.following = False
                self._match = at
                self._scroll(at)
                return
        if step < 0 and self.start > 0 and not from_end:
            self.post_message(self.WantsEarlier())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`n` is the next match only while something is searched; lines that wrap have nothing at their side."""
        if action == "sideways":
            return not self.wrapping
        return action != "match" or bool(self.search)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel scrolls."""
        event.stop()
        self.action_scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel scrolls."""
        event.stop()
        self.action_scroll_lines(-3)
