"""One node's page: state and hardware, its GPUs with their holders, the jobs on it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.tui import commands
from flagplot.tui.main_view import MainView
from flagplot.tui.screens.nodes import confirm_resume
from flagplot.tui.widgets.pieces import PieceLine, PiecePane, PieceTable
from flagplot.tui.widgets.virtual_table import VirtualTable
from flagplot.view import gpus
from flagplot.view.columns import spread
from flagplot.view.fleet import NodeFact
from flagplot.view.fleet_map import summary
from flagplot.view.node_list import JOB_COLUMNS, job_cells, page
from flagplot.view.wiring import draw
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.text import clean

WIDE = 150
"""From this width on the tables stand beside the text."""


class NodeView(MainView):
    """Text above (or beside) two tables; Tab goes round."""

    DEFAULT_CSS = """
    NodeView > Horizontal { height: 1fr; layout: vertical; }
    NodeView.-wide > Horizontal { layout: horizontal; }
    NodeView #node-text { height: auto; min-height: 4; width: 1fr; margin-bottom: 1; }
    NodeView #node-wiring { height: 1fr; display: none; }
    NodeView.-wired #node-wiring { display: block; }
    NodeView.-wired > Horizontal { display: none; }
    NodeView Vertical { height: 1fr; width: 1fr; }
    NodeView.-wide Vertical { width: 3fr; height: 1fr; }
    NodeView.-wide #node-text { width: 2fr; height: 1fr; }
    NodeView #node-gpus { height: 9; margin-bottom: 1; }
    NodeView #node-jobs { height: 1fr; }
    """
    CHANGES = frozenset({"drain", "resume", "reboot", "reserve"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open job", tooltip="The job under the cursor"),
        Binding("D,ctrl+d", "drain", "Drain", tooltip="Drain: no new jobs, after asking for the reason"),
        Binding("u", "resume", "Resume", tooltip="Give it back to jobs, after asking"),
        Binding(
            "w", "wiring", "Wiring", tooltip="Sockets, cores and GPUs as they are wired, and whose jobs are on each"
        ),
        Binding("a", "reserve", "Reserve", show=False, tooltip="Reserve the nodes: for whom, from when, how long"),
        Binding("R", "reboot", "Reboot", show=False, tooltip="Drain, reboot when no job is left, and back; asks first"),
        Binding("tab", "app.focus_next", "Next pane"),
        Binding("escape", "app.back", "Back"),
    ]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.node_name = name
        self._last: NodeFact | None = None

    def compose(self) -> ComposeResult:
        """Head, text, tables."""
        yield PieceLine(id="node-head")
        wiring = PiecePane()
        wiring.id = "node-wiring"
        yield wiring
        with Horizontal():
            text = PiecePane()
            text.id = "node-text"
            yield text
            with Vertical():
                table = PieceTable(empty=(tr("It has no GPU"),))
                table.id = "node-gpus"
                yield table
                table = PieceTable(empty=(tr("No job is on it"),))
                table.id = "node-jobs"
                yield table

    @property
    def crumb(self) -> str:
        """The node's name."""
        return tr("node {name}").format(name=clean(self.node_name))

    @property
    def gpu_table(self) -> PieceTable:
        """The GPUs."""
        return self.query_one("#node-gpus", PieceTable)

    @property
    def job_table(self) -> PieceTable:
        """The jobs."""
        return self.query_one("#node-jobs", PieceTable)

    def show(self, mirror: Mirror, now: int) -> None:
        """Bring the page up to date; a node that was removed stays as it was last."""
        fleet = self.cockpit.fleet
        fleet.update(mirror, now)
        fact = self._last = fleet.facts.get(self.node_name, self._last)
        if fact is None or not self.size.width:
            return
        self.set_class(self.size.width >= WIDE, "-wide")
        gone = [] if self.node_name in fleet.facts else [(tr("  removed from the cluster"), "bad")]
        self.query_one("#node-head", PieceLine).show_pieces([*summary(fact, now)[:2], *gone, *summary(fact, now)[2:]])
        if self.has_class("-wired"):
            lines = draw(fact, self.size.width - 3, now)
            self.query_one("#node-wiring", PiecePane).show_rows([("", line) for line in lines])
            return
        self.query_one("#node-text", PiecePane).show_rows(page(mirror, fact, now))
        self._show_gpus(fact)
        self._show_jobs(fact, now)

    def _show_gpus(self, fact: NodeFact) -> None:
        table = self.gpu_table
        rows = max(1, min(len(fact.gpus), 8 if self.size.height < 40 else 16))
        table.styles.height = rows + 1
        table.display = bool(fact.gpus)
        columns = spread([column for column in gpus.COLUMNS if column.key != "node"], self._room(table))
        by_index = {one.gpu.index: one for one in fact.gpus}
        table.set_piece_rows(
            sorted(by_index),
            lambda key: gpus.cells(fact, by_index[key], columns, True) if key in by_index else (),
            columns,
        )

    def _show_jobs(self, fact: NodeFact, now: int) -> None:
        table = self.job_table
        tables = 2 + len(fact.gpus[:8]) + max(3, min(len(fact.jobs) + 1, self.size.height // 4))
        self.query_one("#node-text").styles.max_height = (
            None if self.has_class("-wide") else max(4, self.size.height - tables - 2)
        )
        columns = spread(JOB_COLUMNS, self._room(table))
        by_number = {int(job.number): job for job in fact.jobs}
        table.set_piece_rows(
            sorted(by_number),
            lambda key: job_cells(by_number[key], fact, now, columns) if key in by_number else (),
            columns,
        )

    def _room(self, table: Widget) -> int:
        wide = self.size.width * 3 // 5 if self.has_class("-wide") else self.size.width
        return min(wide, table.size.width or wide) - 1

    def aimed_nodes(self) -> list[str]:
        """This one."""
        return [self.node_name]

    def aimed_jobs(self) -> list[Job]:
        """The job under the cursor."""
        jobs, key = self.cockpit.mirror.jobs, self.job_table.cursor_key
        return [jobs[JobNumber(key)]] if key is not None and JobNumber(key) in jobs else []

    def copied(self) -> str:
        """The node's name."""
        return self.node_name

    def focus_target(self) -> Widget:
        """The jobs, or the drawing."""
        return self.query_one("#node-wiring") if self.has_class("-wired") else self.job_table

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The drawing has no cursor."""
        return not (action == "open" and self.has_class("-wired")) and super().check_action(action, parameters)

    def escape(self) -> bool:
        """Out of the drawing, then away."""
        if self.has_class("-wired"):
            self.action_wiring()
            return True
        return False

    # keys

    def action_wiring(self) -> None:
        """The drawing in place of text and tables, or back."""
        self.toggle_class("-wired")
        self.cockpit.show_now()
        self.call_after_refresh(self.focus_target().focus)

    def on_virtual_table_opened(self, event: VirtualTable.Opened) -> None:
        """A click opens."""
        self.action_open()

    def action_open(self) -> None:
        """The job under the cursor of the table that has the focus."""
        if self.gpu_table.has_focus:
            key = self.gpu_table.cursor_key
            fact = next((one for one in self._last.gpus if one.gpu.index == key), None) if self._last else None
            if fact is not None and fact.shares:
                self.cockpit.open_job(fact.shares[0].job)
            else:
                self.cockpit.say(tr("No job holds this GPU"))
        elif (key := self.job_table.cursor_key) is not None:
            self.cockpit.open_job(JobNumber(key))

    def action_drain(self) -> None:
        """Ask for the reason, then drain."""
        commands.open_drain(self.cockpit, [self.node_name])

    def action_reboot(self) -> None:
        """Ask for the reason, then drain and reboot."""
        commands.open_drain(self.cockpit, [self.node_name], reboot=True)

    def action_reserve(self) -> None:
        """The form of a reservation."""
        commands.open_reserve(self.cockpit, [self.node_name])

    def action_resume(self) -> None:
        """Give it back, after asking."""
        confirm_resume(self, [self.node_name])
