"""Panes of a job's page that ask or remember something: charts, dependencies, steps, history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.tui.widgets.pieces import PiecePane, PieceTable
from flagplot.view import depends, job_chart, job_story
from flagplot.view.bars import Piece
from flagplot.view.job import usage
from flagplot.view.queue import Column, job_target
from flagplot_wire.errors import Refused
from flagplot_wire.events import Event
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.requests import GetEvents
from flagplot_wire.steps import Step
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

LABEL = 11
"""Cells of the labels beside figures of nodes."""
EVERY_S = 5
EVENTS = 1_000


class ChartsPane(PiecePane):
    """Charts of what the job uses, as long as the page is open, and the figures of each node."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.id = name
        self.history = job_chart.JobHistory()

    def watch_job(self, mirror: Mirror, job: Job) -> None:
        """Remember the latest samples, whichever pane is shown."""
        self.history.take(mirror, job)

    def show_job(self, mirror: Mirror, job: Job, now: int) -> None:
        """Draw what is known."""
        width, height = self.size.width - 3, self.size.height
        rows: list[list[Piece]] = []
        if self.history.points:
            found = job_chart.charts(self.history, mirror, job)
            rows += [*job_chart.page(found, width, height - 4), [(job_chart.span_words(self.history), "dim")], []]
        rows += [[(f"{label:<{LABEL}}", "dim"), (text, "plain")] for label, text in job_chart.used_lines(job)]
        if job.status.used is None or not job.status.state.ended:
            rows += [
                [(f"{label:<{LABEL}}", "dim"), (text, role)] for label, text, role in usage(mirror, job, now, width)
            ]
        self.show_rows([("", row) for row in rows])


class DependsTable(PieceTable):
    """The tree in both directions; a row that names a job opens it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.id = name
        self._behind: dict[JobNumber, list[Job]] = {}
        self._version = -1
        self._rows: list[tuple[list[Piece], Job | None]] = []

    @property
    def job_here(self) -> Job | None:
        """The job under the cursor."""
        key = self.cursor_key
        return self._rows[key][1] if key is not None and key < len(self._rows) else None

    def show_job(self, mirror: Mirror, job: Job, now: int) -> None:
        """Draw both trees."""
        if mirror.version != self._version:
            self._version = mirror.version
            self._behind = depends.followers(mirror.jobs.values())
        ways = (
            (tr("It waits for"), depends.waits_for(mirror, job, now), tr("It waits for no other job.")),
            (tr("For it wait"), depends.waited_for_by(mirror, job, self._behind, now), tr("No job waits for it.")),
        )
        self._rows = []
        for title, links, nothing in ways:
            self._rows.append(([(title if links else nothing, "bold" if links else "dim")], None))
            self._rows += [(depends.link_pieces(mirror, link, now), link.job) for link in links]
        rows = self._rows
        columns = [(Column("link", tr("DEPENDENCIES  ✓ met  ○ waits  ✗ broken"), 20, 1), max(20, self.size.width - 3))]
        self.set_piece_rows(range(len(rows)), lambda key: (rows[key][0],) if key < len(rows) else (), columns)


class AskingPane(PiecePane):
    """What must be asked for: again when the job changed, or after some seconds."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.id = name
        self._asked: object = None
        self._trouble = ""

    def show_job(self, mirror: Mirror, job: Job, now: int) -> None:
        """Ask when due, and draw what was answered."""
        app = cast("FlagplotApp", self.app)
        wanted = (mirror.epoch, job.number, job.status, self.due(job, now))
        if mirror.connected and wanted != self._asked:
            self._asked = wanted
            self.run_worker(self._ask(app, job), group="pane", exclusive=True)
        rows = self.rows(mirror, job, now)
        if self._trouble:
            rows = [*rows, ("", [(tr("Not up to date: {why}").format(why=clean(self._trouble)), "warning")])]
        self.show_rows(rows)

    async def _ask(self, app: FlagplotApp, job: Job) -> None:
        try:
            await self.ask(app, job)
        except Refused as refused:
            self._trouble = refused.message
        else:
            self._trouble = ""
        app.show_now()

    def due(self, job: Job, now: int) -> int:
        """A number that changes when it is time to ask again although the job did not change."""
        raise NotImplementedError

    async def ask(self, app: FlagplotApp, job: Job) -> None:
        """Ask, and keep the answer; raises `Refused`."""
        raise NotImplementedError

    def rows(self, mirror: Mirror, job: Job, now: int) -> Sequence[job_story.Row]:
        """What to show."""
        raise NotImplementedError


class StepsPane(AskingPane):
    """Ranks and steps."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._steps: tuple[Step, ...] | None = None

    def due(self, job: Job, now: int) -> int:
        """While it runs, steps come and go."""
        return 0 if job.status.state.ended else now // EVERY_S

    async def ask(self, app: FlagplotApp, job: Job) -> None:
        """The steps."""
        self._steps = (await app.calls.steps(job_target(job))).steps

    def rows(self, mirror: Mirror, job: Job, now: int) -> Sequence[job_story.Row]:
        """Ranks, then steps."""
        rows = job_story.ranks(job.status.allocation, job.status.state.ended)
        if not rows:
            return [("", [(tr("It has not started: there are no ranks and no steps yet."), "dim")])]
        if self._steps is None:
            return [*rows, ("", [(tr("Asking for the steps …"), "dim")])]
        steps = job_story.step_rows(self._steps, now)
        return [*rows, ("", []), *(steps or [("", [(tr("No step has been run in it."), "dim")])])]


class HistoryPane(AskingPane):
    """Attempts, then what happened to the job."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._events: tuple[Event, ...] | None = None

    def due(self, job: Job, now: int) -> int:
        """All that happens to a job changes it."""
        return 0

    async def ask(self, app: FlagplotApp, job: Job) -> None:
        """Its events."""
        self._events = (await app.calls.events(GetEvents(limit=EVENTS, job=job_target(job)))).events

    def rows(self, mirror: Mirror, job: Job, now: int) -> Sequence[job_story.Row]:
        """Both."""
        events = self._events or ()
        tried = job_story.attempt_rows(job_story.attempts(events, job), now)
        rows = tried or [("", [(tr("It was not tried yet."), "dim")])]
        if self._events is None:
            return [*rows, ("", [(tr("Asking for what happened …"), "dim")])]
        return [*rows, ("", []), *job_story.story(events, mirror, job)]
