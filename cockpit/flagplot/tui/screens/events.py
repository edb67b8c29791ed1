"""The journal: what happened, newest first; Enter goes to the job or node concerned."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.tui.list_view import ListView
from flagplot.tui.widgets.pieces import PieceLine, PieceTable
from flagplot.view.bars import Piece
from flagplot.view.columns import spread
from flagplot.view.events import EventRow, age, select
from flagplot.view.queue import Column
from flagplot.view.words import clock_time
from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job
from flagplot_wire.requests import GetEvents
from flagplot_wire.text import clean

COLUMNS = (
    Column("time", "WHEN", 11),
    Column("what", "WHAT", 12),
    Column("target", "JOB, NODE", 10, 1),
    Column("text", "DETAIL", 20, 6),
    Column("by", "BY", 8),
    Column("seq", "No", 7, right=True, from_width=100),
)
PIECE = 1_000


class EventsView(ListView):
    """The table of events."""

    title = "Events"
    NO_MATCH = "No event matches the filter"
    NOTHING = ("Nothing has happened yet", "starts, ends, drains and losses appear here as they happen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="The job's or the node's page"),
        Binding(
            "slash", "app.filter", "Filter", priority=True, tooltip="Filter: words that must occur, !word that must not"
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._older: list[ev.Event] = []
        self._asked_epoch = -1
        self._trouble = ""
        self._shown: object = None
        self._rows: dict[int, EventRow] = {}

    def compose(self) -> ComposeResult:
        """The table, and the event under the cursor in full."""
        yield PieceTable()
        yield PieceLine(id="event-line")

    @property
    def table(self) -> PieceTable:
        """The table."""
        return self.query_one(PieceTable)

    @property
    def counts(self) -> str:
        """Filter and number."""
        shown = f"/{clean(self.filter)}  " if self.filter else ""
        return shown + tr_count("{count} event", "{count} events", len(self._rows))

    def entered(self) -> None:
        """Ask for what happened before we came, once per controller."""
        mirror = self.cockpit.mirror
        if mirror.connected and self._asked_epoch != mirror.epoch:
            self._asked_epoch = mirror.epoch
            self.run_worker(self._ask(), group="events", exclusive=True)

    async def _ask(self) -> None:
        try:
            answer = await self.cockpit.calls.events(GetEvents(limit=PIECE))
        except Refused as refused:
            self._trouble, self._asked_epoch = refused.message, -1
        else:
            self._trouble, self._older = "", list(answer.events)
        self._shown = None
        self.cockpit.show_now()

    def show(self, mirror: Mirror, now: int) -> None:
        """Bring the table up to date."""
        width = self.size.width
        wanted = (mirror.version, self.filter, len(self._older), width, now // 30)
        if wanted != self._shown and width:
            self._shown = wanted
            rows = select(mirror, self._older, self.filter)
            self._rows = {row.seq: row for row in rows}
            columns = spread(COLUMNS, width - 1)
            self.table.empty = self.empty_words(mirror)
            self.table.set_piece_rows(
                [row.seq for row in rows],
                lambda key: self._cells(key, now, columns),
                columns,
            )
        self._show_line()

    def _cells(self, key: int, now: int, columns: list[tuple[Column, int]]) -> tuple[tuple[Piece, ...], ...]:
        row = self._rows.get(key)
        if row is None:
            return ()
        cells: dict[str, Piece] = {
            "time": (age(row.time, now), "dim"),
            "what": (f"{row.glyph} {row.what}", row.role),
            "target": (row.target, "plain"),
            "text": (row.text, "plain"),
            "by": (clean(row.by) or "-", f"owner:{row.by}" if row.by else "dim"),
            "seq": (str(row.seq), "dim"),
        }
        return tuple((cells[column.key],) for column, _ in columns)

    def _show_line(self) -> None:
        row = self._row()
        pieces: list[Piece] = []
        if self._trouble:
            pieces = [(tr("Earlier events cannot be had: {why}").format(why=clean(self._trouble)), "warning")]
        elif row is not None:
            pieces = [(f"{clock_time(row.time)}  ", "dim"), (f"{row.what} {row.target}  ", row.role)]
            pieces.append((row.text, "plain"))
        self.query_one("#event-line", PieceLine).show_pieces(pieces)

    def _row(self) -> EventRow | None:
        key = self.table.cursor_key
        return self._rows.get(key) if key is not None else None

    def aimed_jobs(self) -> list[Job]:
        """The job of the event under the cursor."""
        row = self._row()
        found = self.cockpit.mirror.jobs.get(row.job) if row is not None and row.job else None
        return [] if found is None else [found]

    def aimed_nodes(self) -> list[str]:
        """The node of the event under the cursor."""
        row = self._row()
        return [row.node] if row is not None and row.node else []

    # keys

    def on_drawn_list_moved(self) -> None:
        """Tell of the event under the cursor in full."""
        self._show_line()

    def action_open(self) -> None:
        """The job's or the node's page."""
        row = self._row()
        if row is None:
            return
        if row.job:
            self.cockpit.open_job(row.job)
        elif row.node:
            self.cockpit.open_node(row.node)
        else:
            self.cockpit.say(tr("This event concerns no single job or node"))
