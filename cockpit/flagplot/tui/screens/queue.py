"""The queue: every job, filtered and sorted as typed, acted on by mark or cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flagplot.client.mirror import Mirror
from flagplot.client.own_views import load_views, save_views
from flagplot.language import tr, tr_count
from flagplot.tui import commands
from flagplot.tui.keys import CHANGES, JOB_ACTIONS
from flagplot.tui.list_view import SortedView
from flagplot.tui.screens.columns import ColumnsDialog
from flagplot.tui.shell import open_shell
from flagplot.tui.widgets.virtual_table import VirtualTable
from flagplot.view.listing import Listing
from flagplot.view.queue import SORT_ORDER, QueueSpec, cells, columns_for, job_target
from flagplot.view.saved import Views, check_name
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.text import clean


class QueueView(SortedView[QueueSpec]):
    """The table of jobs."""

    title = "Queue"
    CHANGES = CHANGES
    NO_MATCH = "No job matches the filter"
    NOTHING = ("The queue is empty", "n submits a job · :submit does too · flagplot submit SCRIPT from a shell")
    ORDERS = SORT_ORDER
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="Open the job's page"),
        Binding(
            "slash",
            "app.filter",
            "Filter",
            priority=True,
            tooltip="Filter: words !not ~regex, user: state: part: node: account: qos:, gpu>2 age>2h",
        ),
        *JOB_ACTIONS,
        Binding("l", "open('output')", "Logs", tooltip="Follow the job's output"),
        Binding("o", "sort_next", "Sort", tooltip="Sort by the next column"),
        Binding("r", "reverse", "Reverse", tooltip="Reverse the order"),
        Binding("a", "toggle_ended", "Ended", tooltip="Show or hide jobs that ended"),
        Binding("z", "toggle_fold", "Arrays", tooltip="Arrays as one row, or every element"),
        Binding("x", "unfold_one", "This array", show=False, tooltip="Unfold the array under the cursor, or fold it"),
        Binding("c", "columns", "Columns", show=False, tooltip="Columns: which, in which order, sorted by which"),
        Binding("V", "next_view", "Next view", show=False, tooltip="The next saved view (:save NAME saves one)"),
        Binding("d", "open('detail')", "Describe", show=False),
        Binding("y", "open('script')", "Script", show=False),
        Binding("p", "open('why')", "Why pending", show=False),
        Binding("s", "shell", "Shell in the job", show=False),
        Binding("m", "only('user:me')", "Only mine", show=False),
        Binding("I", "sort('id')", "Sort by id", show=False),
        Binding("N", "sort('name')", "Sort by name", show=False),
        Binding("U", "sort('user')", "Sort by user", show=False),
        Binding("S", "sort('state')", "Sort by state", show=False),
        Binding("T", "sort('time')", "Sort by time", show=False),
        Binding("P", "sort('priority')", "Sort by priority", show=False),
        Binding("C", "sort('gpus')", "Sort by GPU count", show=False),
        Binding("O", "sort('queue')", "Queue order", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(QueueSpec())
        self.listing = Listing()
        self.views = Views()
        self.view_name = ""
        self._total = 0
        self.awaited: JobNumber | None = None
        """The job that was just submitted: the cursor goes to it once it is here, unless it was moved meanwhile."""

    def compose(self) -> ComposeResult:
        """Only the table."""
        yield VirtualTable()

    def on_mount(self) -> None:
        """Open as it was saved."""
        try:
            self.views = load_views()
        except Refused as refused:
            self.cockpit.failure(refused.message, [refused.hint] if refused.hint else [])
        self.spec = self.views.start

    @property
    def counts(self) -> str:
        """Filter, `5 of 20`, marks."""
        shown = tr_count("{count} job", "{count} jobs", len(self.listing.rows))
        if self.spec.filter:
            shown = tr("/{filter}  {count} of {total}").format(
                filter=clean(self.spec.filter), count=len(self.listing.rows), total=self._total
            )
        marks = (
            tr(" · {count} marked").format(count=len(self.table.marks)) if self.is_mounted and self.table.marks else ""
        )
        order = "" if self.spec.sort == "queue" else f" · by {self.spec.sort}"
        view = f"{self.view_name} · " if self.view_name else ""
        return f"{view}{shown}{order}{marks}"

    def show(self, mirror: Mirror, now: int) -> None:
        """Select anew when the mirror or the choice changed; redraw what changed on screen."""
        table, by_hand = self.table, self.spec != self.listing.spec
        if mirror.complete or not self.listing.rows:
            # While a snapshot comes in, its first jobs stay: they are those on top.
            table.took(self.listing.sync(mirror, self.spec, now), now)
            self._total = len(mirror.jobs)
        if table.marks:
            table.forget_marks(lambda key: JobNumber(key) in mirror.jobs)
        table.empty = self.empty_words(mirror)
        columns = columns_for(self.size.width - 1, self.spec.columns)
        fold = not self.spec.unfold
        table.set_rows(
            self.listing.rows,
            lambda key: cells(mirror, JobNumber(key), self.cockpit.now(), columns, fold),
            columns,
            sorted_by=self.spec.sort,
            reverse=self.spec.reverse,
            by_hand=by_hand,
        )
        if self.awaited is not None and self.awaited in mirror.jobs:
            table.move_to(self.awaited)
            self.awaited = None

    def nothing_yet(self) -> Sequence[str]:
        """Read-only there is no `n` to press."""
        if self.cockpit.read_only:
            return ("The queue is empty", "jobs appear here as soon as someone submits one")
        return super().nothing_yet()

    def aimed_jobs(self) -> list[Job]:
        """Those marked, else the one under the cursor."""
        jobs = self.cockpit.mirror.jobs
        return [jobs[JobNumber(key)] for key in self.table.chosen() if JobNumber(key) in jobs]

    def _targets(self) -> list[str]:
        return [job_target(job) for job in self.aimed_jobs()]

    def _under_cursor(self) -> Job | None:
        key = self.table.cursor_key
        return self.cockpit.mirror.jobs.get(JobNumber(key)) if key is not None else None

    def moved_away(self) -> bool:
        """True, once and with a word, when the job under the cursor went and another has taken its place."""
        if self.table.marks or not self.table.displaced:
            return False
        self.table.displaced = False
        targets = self._targets()
        self.cockpit.say(
            tr("The job under the cursor is gone; press again for job {job}").format(job=targets[0])
            if targets
            else tr("It is gone")
        )
        return True

    def _act(self, verb: str) -> None:
        if self.moved_away():
            return
        if targets := self._targets():
            commands.act(self.cockpit, verb, targets)
        else:
            self.cockpit.say(tr("No job under the cursor"))

    # keys

    def on_drawn_list_moved(self) -> None:
        """Marks are counted in the top line."""
        self.awaited = None
        self.cockpit.frame_changed()

    def action_open(self, tab: str = "") -> None:
        """The job page."""
        if (key := self.table.cursor_key) is not None:
            self.table.place()
            self.cockpit.open_job(JobNumber(key), tab)

    def action_sort(self, key: str) -> None:
        """Sort by a column; the same again reverses."""
        self.choose(self.spec.sorted_by(key))

    def action_toggle_ended(self) -> None:
        """Show or hide jobs that ended."""
        self.choose(replace(self.spec, ended=not self.spec.ended))

    def action_toggle_fold(self) -> None:
        """Arrays as one row, or every element; from an element to its array."""
        job = self._under_cursor()
        self.choose(replace(self.spec, unfold=not self.spec.unfold))
        if job is not None and job.array_index is not None and not self.spec.unfold:
            self.table.move_to(job.array_number)

    def action_unfold_one(self) -> None:
        """Unfold the array under the cursor, or fold it again; on an element, its array."""
        job = self._under_cursor()
        if job is None or not (job.is_array or job.array_index is not None):
            self.cockpit.say(tr("No array under the cursor"))
            return
        array = job.array_number if job.array_index is not None else job.number
        self.choose(replace(self.spec, unfolded=self.spec.unfolded ^ {array}))
        self.table.move_to(array)

    def action_columns(self) -> None:
        """Choose the columns."""
        fitting = [column.key for column, _ in columns_for(self.size.width - 1)]
        self.cockpit.push_screen(ColumnsDialog(self.spec, fitting), self._columns_chosen)

    def _columns_chosen(self, spec: QueueSpec | None) -> None:
        if spec is None:
            return
        self.choose(spec)
        start = replace(self.views.start, columns=spec.columns, sort=spec.sort, reverse=spec.reverse)
        self._save(replace(self.views, start=start))

    def _save(self, views: Views) -> bool:
        try:
            save_views(views)
        except Refused as refused:
            self.cockpit.failure(refused.message, [refused.hint] if refused.hint else [])
            return False
        self.views = views
        return True

    def save_view(self, name: str) -> None:
        """Save filter, columns and order by a name; raises `Refused` for a name that cannot be one."""
        spec = replace(self.spec, unfolded=frozenset())
        if self._save(replace(self.views, named={**self.views.named, check_name(name): spec})):
            self.view_name = name
            self.cockpit.say(tr("Saved: :view {name} and V bring it back").format(name=name))

    def show_view(self, name: str) -> None:
        """Bring back a saved view; raises `Refused` where there is none of that name."""
        if name not in self.views.named:
            raise Refused(
                "usage",
                f"There is no saved view {name}",
                "Known: " + (" ".join(sorted(self.views.named)) or "none; :save NAME"),
            )
        self.view_name = name
        self.choose(self.views.named[name])

    def action_next_view(self) -> None:
        """The saved views one after the other, then what the queue starts with."""
        names = sorted(self.views.named)
        if not names:
            self.cockpit.say(tr("No view is saved yet; :save NAME saves this one"))
            return
        at = names.index(self.view_name) + 1 if self.view_name in names else 0
        if at < len(names):
            self.show_view(names[at])
        else:
            self.view_name = ""
            self.choose(self.views.start)

    def action_shell(self) -> None:
        """A shell inside the job under the cursor."""
        if self.moved_away():
            return
        if (job := self._under_cursor()) is None:
            self.cockpit.say(tr("No job under the cursor"))
        else:
            open_shell(self.cockpit, job_target(job), job.status.state == "RUNNING", job.user)

    def action_submit(self) -> None:
        """The submit form."""
        commands.open_submit(self.cockpit)

    def action_resubmit(self) -> None:
        """The submit form with the job under the cursor."""
        if not self.moved_away() and (job := self._under_cursor()) is not None:
            commands.open_resubmit(self.cockpit, job_target(job))

    def action_edit(self) -> None:
        """The edit form for the marked jobs."""
        if not self.moved_away():
            commands.open_edit(self.cockpit, self._targets())

    def action_hold(self) -> None:
        """Hold pending jobs."""
        self._act("hold")

    def action_release(self) -> None:
        """Release held jobs."""
        self._act("release")

    def action_cancel(self) -> None:
        """Cancel, after asking."""
        self._act("cancel")

    def action_requeue(self) -> None:
        """Requeue, after asking."""
        self._act("requeue")
