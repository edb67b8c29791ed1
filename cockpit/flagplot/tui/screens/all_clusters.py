"""The queues of all clusters as one list, each over a connection of its own; a silent one stops no other."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flagplot.client.live import Live
from flagplot.client.mirror import Mirror
from flagplot.client.target import Entry
from flagplot.tui.list_view import SortedView
from flagplot.tui.widgets.pieces import PieceLine
from flagplot.tui.widgets.virtual_table import VirtualTable
from flagplot.view.all_clusters import STRIDE, Member, columns, merged, row_cells, state_words
from flagplot.view.queue import SORT_ORDER, QueueSpec, job_target
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.text import clean, counted


class AllClustersView(SortedView[QueueSpec]):
    """`entries` are all clusters; that of `here` is shown from the cockpit's own mirror."""

    title = "All clusters"
    NO_MATCH = "No job matches the filter"
    NOTHING = ("The queues are empty", "jobs of every cluster appear here")
    ORDERS = SORT_ORDER
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open there", tooltip="Go to its cluster and open the job's page"),
        Binding("slash", "app.filter", "Filter", priority=True, tooltip="Filter as in the queue, and cluster:NAME"),
        Binding("o", "sort_next", "Sort", tooltip="Sort by the next column"),
        Binding("r", "reverse", "Reverse", tooltip="Reverse the order"),
        Binding("a", "toggle_ended", "Ended", tooltip="Show or hide jobs that ended"),
        Binding("z", "toggle_fold", "Arrays", tooltip="Arrays as one row, or every element"),
        Binding("m", "only('user:me')", "Only mine", show=False),
        Binding("escape", "app.back", "Back", show=False),
    ]

    def __init__(self, entries: list[Entry], here: str) -> None:
        super().__init__(QueueSpec())
        self._entries, self._here = entries, here
        self.members: list[Member] = []
        self._keys: list[int] = []
        self._shown: object = None

    def compose(self) -> ComposeResult:
        """The table, and how each cluster is."""
        yield VirtualTable()
        yield PieceLine(id="cluster-line")

    def on_mount(self) -> None:
        """Connect to the others."""
        for entry in self._entries:
            if entry.name == self._here:
                self.members.append(Member(entry.name, self.cockpit.mirror))
                continue
            live = Live(entry.target, telemetry=False)
            self.members.append(Member(entry.name, live.mirror))
            self.run_worker(self._follow(live), group=f"cluster-{len(self.members)}")

    async def _follow(self, live: Live) -> None:
        try:
            await live.run()
        except Refused as refused:
            live.mirror.problem = refused.message

    @property
    def version(self) -> int:
        """Grows with every change of any cluster."""
        return sum(one.mirror.version for one in self.members)

    @property
    def counts(self) -> str:
        """Filter, number, order."""
        total = sum(len(one.mirror.jobs) for one in self.members)
        shown = counted(len(self._keys), "job")
        if self.spec.filter:
            shown = f"/{clean(self.spec.filter)}  {len(self._keys)} of {total}"
        return shown + ("" if self.spec.sort == "queue" else f" · by {self.spec.sort}")

    def show(self, mirror: Mirror, now: int) -> None:
        """Select anew when a cluster or the choice changed."""
        by_hand = self._shown is None or self.spec != self._shown[1]  # type: ignore[index]
        wanted = (self.version, self.spec, now // 60)
        if wanted != self._shown:
            self._shown = wanted
            self._keys = merged(self.members, self.spec, now)
        table, shown, fold = self.table, columns(self.size.width - 1), not self.spec.unfold
        complete = any(one.mirror.complete for one in self.members)
        table.empty = self.empty_words(mirror) if complete else ("Waiting for the controllers", "")
        table.set_rows(
            self._keys,
            lambda key: row_cells(self.members, key, self.cockpit.now(), shown, fold),
            shown,
            sorted_by=self.spec.sort,
            reverse=self.spec.reverse,
            by_hand=by_hand,
        )
        pieces = [state_words(one, now) for one in self.members]
        self.query_one("#cluster-line", PieceLine).show_pieces(
            [piece for text, role in pieces for piece in ((text, role), ("   ", "dim"))]
        )

    # keys

    def action_open(self) -> None:
        """Go to its cluster and open the job's page there."""
        if (key := self.table.cursor_key) is None:
            return
        member, number = self.members[key // STRIDE], JobNumber(key % STRIDE)
        job = member.mirror.jobs.get(number)
        if member.name == self._here:
            self.cockpit.open_job(number)
        elif job is not None:
            self.cockpit.go_to_cluster(member.name, f"job {job_target(job)}")

    def action_toggle_ended(self) -> None:
        """Show or hide jobs that ended."""
        self.choose(replace(self.spec, ended=not self.spec.ended))

    def action_toggle_fold(self) -> None:
        """Arrays as one row, or every element."""
        self.choose(replace(self.spec, unfold=not self.spec.unfold))
