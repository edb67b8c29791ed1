"""The timeline: every node with its jobs until their limits and the starts that are planned on it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.tui.list_view import ListView
from flagplot.tui.widgets.pieces import PieceLine, PieceTable
from flagplot.tui.widgets.virtual_table import VirtualTable
from flagplot.view import timeline
from flagplot.view.bars import Piece
from flagplot.view.queue import Column
from flagplot.view.reservations import lines_of
from flagplot.view.timeline import JOB_BITS, RESERVED, SCALES, Bar, Window
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.policy import Reservation
from flagplot_wire.text import clean


class TimelineView(ListView):
    """The chart."""

    title = "Timeline"
    NO_MATCH = "No node matches the filter"
    NOTHING = ("There are no nodes yet", "running jobs and planned starts appear here, node by node")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="The job's or the node's page"),
        Binding("plus,equals_sign", "scale(-1)", "Nearer", tooltip="Less time on the screen"),
        Binding("minus", "scale(1)", "Wider", tooltip="More time on the screen"),
        Binding("right,l", "shift(1)", "Later"),
        Binding("left,h", "shift(-1)", "Earlier"),
        Binding("0", "now", "Now"),
        Binding("z", "fold", "Fold", tooltip="Nodes alone, or with their jobs"),
        Binding("slash", "app.filter", "Filter", priority=True, tooltip="Filter the nodes"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.scale = timeline.DEFAULT_SCALE
        self.offset_cells = 0
        self.folded = False
        self._selected: object = None
        self._keys: list[int] = []
        self._bars: dict[int, dict[int, Bar]] = {}
        self._ids: dict[str, int] = {}

    def compose(self) -> ComposeResult:
        """The chart and the legend."""
        yield PieceTable()
        yield PieceLine(id="timeline-legend")

    @property
    def table(self) -> PieceTable:
        """The chart."""
        return self.query_one(PieceTable)

    @property
    def counts(self) -> str:
        """Filter, scale."""
        shown = f"/{clean(self.filter)}  " if self.filter else ""
        return f"{shown}{timeline.scale_words(self.scale)}"

    def show(self, mirror: Mirror, now: int) -> None:
        """Bring the chart up to date; the window moves with the clock."""
        fleet = self.cockpit.fleet
        fleet.update(mirror, now)
        width = self.size.width
        if not width:
            return
        chosen = (mirror.version, fleet.changes, self.filter, self.folded)
        if chosen != self._selected:
            self._selected = chosen
            self._bars.clear()
            self._planned = timeline.planned_by_node(mirror)
            self._keys = timeline.rows(mirror, fleet, self.filter, self.folded, self._ids)
        names = 16 if width < 100 else 22
        view = timeline.window(now, self.scale, self.offset_cells, width - names - 4)
        columns = [
            (Column("row", "NODE, JOBS", names), names),
            (Column("time", timeline.axis(view, now), view.cells), view.cells),
        ]
        self.table.empty = self.empty_words(mirror)
        self.table.set_piece_rows(self._keys, lambda key: self._cells(key, view, now), columns)
        self.query_one("#timeline-legend", PieceLine).show_pieces(
            [
                ("█", "plain"),
                (f" {tr('ran')}  ", "dim"),
                ("▒", "plain"),
                (f" {tr('to its limit')}  ", "dim"),
                ("░", "plain"),
                (f" {tr('planned')}  ", "dim"),
                ("→", "plain"),
                (f" {tr('no limit')}  ", "dim"),
                ("═", "state-planned"),
                (f" {tr('reserved')}  ", "dim"),
                ("▃", "faint"),
                (f" {tr('GPUs held')}", "dim"),
            ]
        )

    def _cells(self, key: int, view: Window, now: int) -> tuple[tuple[Piece, ...], ...]:
        mirror, fleet = self.cockpit.mirror, self.cockpit.fleet
        node_key, number = key >> JOB_BITS, key & ((1 << JOB_BITS) - 1)
        fact = fleet.facts.get(fleet.name(node_key))
        if fact is None:
            return ((), ())
        if not number:
            look = fact.appearance
            strip = timeline.node_strip(mirror, fact, view, now)
            return ((f"{look.glyph} {fact.name}", look.role),), tuple(strip)
        if number >= RESERVED:
            one = self._reservation(number)
            if one is None:
                return ((), ())
            return tuple(timeline.reservation_label(one)), tuple(timeline.reservation_strip(one, view, now))
        if node_key not in self._bars:
            bars = timeline.bars_of(mirror, fact, self._planned)
            self._bars[node_key] = {int(bar.job.number): bar for bar in bars}
        found = self._bars[node_key].get(number)
        return (tuple(timeline.label(found)), tuple(timeline.job_strip(found, view, now))) if found else ((), ())

    def _reservation(self, number: int) -> Reservation | None:
        name = next((name for name, place in self._ids.items() if place == number - RESERVED), "")
        return self.cockpit.mirror.reservations.get(name)

    def escape(self) -> bool:
        """The filter, then the shift."""
        if super().escape():
            return True
        if self.offset_cells:
            self.action_now()
            return True
        return False

    def aimed_jobs(self) -> list[Job]:
        """The job under the cursor."""
        number = JobNumber((self.table.cursor_key or 0) & ((1 << JOB_BITS) - 1))
        jobs = self.cockpit.mirror.jobs
        return [jobs[number]] if number in jobs else []

    def aimed_nodes(self) -> list[str]:
        """The node under the cursor, or of the job there."""
        key = self.table.cursor_key
        return [] if key is None else [self.cockpit.fleet.name(key >> JOB_BITS)]

    def exported(self) -> VirtualTable | None:
        """A chart is no list."""
        return None

    # keys

    def action_open(self) -> None:
        """The job's or the node's page."""
        key = self.table.cursor_key
        if key is None:
            return
        number = key & ((1 << JOB_BITS) - 1)
        if number >= RESERVED:
            if (one := self._reservation(number)) is not None:
                lines = lines_of(self.cockpit.mirror, one, self.cockpit.now())
                self.cockpit.failure(tr("Reservation {name}").format(name=one.name), lines)
        elif number:
            self.cockpit.open_job(JobNumber(number))
        else:
            self.cockpit.open_node(self.cockpit.fleet.name(key >> JOB_BITS))

    def action_scale(self, step: int) -> None:
        """More or less time on the screen."""
        if not 0 <= self.scale + step < len(SCALES):
            self.cockpit.say(tr("This is as near as it gets" if step < 0 else "This is as wide as it gets"))
            return
        self.scale += step
        self.cockpit.show_now()

    def action_shift(self, step: int) -> None:
        """Look further ahead or back."""
        self.offset_cells += step
        self.cockpit.show_now()

    def action_now(self) -> None:
        """Back to now."""
        self.offset_cells = 0
        self.cockpit.show_now()

    def action_fold(self) -> None:
        """Nodes alone, or with their jobs."""
        self.folded = not self.folded
        self.cockpit.show_now()
