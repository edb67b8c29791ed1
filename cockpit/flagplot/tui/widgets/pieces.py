"""Pieces (text and role) on the screen: as a text, in a pane, in the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from flagplot.tui.widgets.text_pane import TextPane
from flagplot.tui.widgets.virtual_table import Key, VirtualTable
from flagplot.view.bars import Piece
from flagplot.view.queue import Column

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


def style_of(app: FlagplotApp, role: str) -> Style:
    """The style of a role, of an owner for `owner:NAME`."""
    return app.owner_style(role[6:]) if role.startswith("owner:") else app.role(role)


def segments_of(
    app: FlagplotApp, pieces: Iterable[Piece], width: int, over: Style, right: bool = False
) -> list[Segment]:
    """Pieces in exactly `width` cells: padded, or cut with an ellipsis."""
    found: list[Segment] = []
    left = width
    for text, role in pieces:
        size = cell_len(text)
        if size > left:
            if left > 0:
                found.append(Segment(set_cell_size(text, left - 1) + "…", style_of(app, role) + over))
            return found if left > 0 else _ellipsis(found)
        if text:
            found.append(Segment(text, style_of(app, role) + over))
        left -= size
    if left > 0:
        found.insert(0 if right else len(found), Segment(" " * left, over))
    return found


def _ellipsis(segments: list[Segment]) -> list[Segment]:
    """The same with an ellipsis as its last cell."""
    if segments:
        last = segments.pop()
        segments.append(Segment(set_cell_size(last.text, cell_len(last.text) - 1) + "…", last.style))
    return segments


def text_of(app: FlagplotApp, pieces: Iterable[Piece]) -> Text:
    """Pieces as one line of text."""
    line = Text(no_wrap=True, overflow="ellipsis", end="")
    for text, role in pieces:
        line.append(text, style_of(app, role))
    return line


class PieceLine(Widget):
    """A line of pieces; redrawn only when they changed."""

    DEFAULT_CSS = """
    PieceLine { height: 1; }
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pieces: tuple[Piece, ...] = ()

    def show_pieces(self, pieces: Iterable[Piece]) -> None:
        """Show these."""
        wanted = tuple(pieces)
        if wanted != self._pieces:
            self._pieces = wanted
            self.refresh()

    def render(self) -> Text:
        """The line."""
        line = text_of(cast("FlagplotApp", self.app), [(" ", "plain"), *self._pieces])
        line.truncate(self.size.width, overflow="ellipsis")
        return line


class PiecePane(TextPane):
    """Labels on the left, pieces on the right."""

    def show_rows(self, rows: Sequence[tuple[str, Sequence[Piece]]]) -> None:
        """Show labelled rows of pieces."""
        wanted = tuple((label, tuple(pieces)) for label, pieces in rows)
        if wanted == self._shown:
            return
        self._shown = wanted
        app = cast("FlagplotApp", self.app)
        grid = []
        for label, pieces in rows:
            text = Text()
            for words, role in pieces:
                text.append(words, style_of(app, role))
            grid.append((Text(label, app.role("dim")), text))
        self.show_grid(grid)

    @property
    def plain(self) -> str:
        """What is shown."""
        rows = cast("Sequence[tuple[str, Sequence[Piece]]]", self._shown or ())
        return "\n".join(f"{label} {''.join(text for text, _ in pieces)}".strip() for label, pieces in rows)


class PieceTable(VirtualTable):
    """A virtual table whose cells are made of pieces, each with a style of its own.

    Rows are marked only where `markable` says that marks mean something.
    """

    def __init__(self, *, empty: Sequence[str] = (), markable: bool = False) -> None:
        super().__init__(empty=empty)
        self.markable = markable

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Marks only where they mean something."""
        return self.markable or not action.startswith("mark")

    def set_piece_rows(
        self,
        keys: Sequence[Key],
        cells: Callable[[Key], Sequence[Sequence[Piece]]],
        columns: list[tuple[Column, int]],
        *,
        sorted_by: str = "",
        reverse: bool = False,
    ) -> None:
        """As `set_rows`, with pieces."""
        self.set_rows(keys, cast("Any", cells), columns, sorted_by=sorted_by, reverse=reverse)

    def _words(self, cell: Any) -> str:
        return "".join(text for text, _ in cell)

    def _row(self, index: int) -> list[Segment]:
        app = self.cockpit
        key = self.keys[index]
        marked, here = key in self.marks, index == self._at
        over = app.role("cursor" if self.has_focus else "cursor-blurred") if here else Style()
        segments = [Segment("▌" if marked else " ", app.role("mark") + over)]
        cells = cast("Sequence[Sequence[Piece]]", self._cells(key))
        for (column, width), pieces in zip(self.columns, cells, strict=False):
            segments += segments_of(app, pieces, width, over, column.right)
            segments.append(Segment(" ", over))
        used = 1 + sum(width + 1 for _, width in self.columns)
        segments.append(Segment(" " * max(0, self.size.width - used), over))
        return segments
