"""The nodes: a map of cells or a table like `sinfo`, filtered as typed; drain and resume by mark or cursor."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.tui import commands
from flagplot.tui.list_view import SortedView
from flagplot.tui.main_view import MainView
from flagplot.tui.screens.confirm import ConfirmDialog
from flagplot.tui.widgets.fleet_map import FleetMap
from flagplot.tui.widgets.pieces import PieceLine, PieceTable
from flagplot.view.columns import spread
from flagplot.view.drains import Draining, drainings, progress_line
from flagplot.view.fleet import group, groupings_of
from flagplot.view.fleet_map import FILLS, ZOOMS, cell_size, choose_zoom, lay_out, legend, summary, widest
from flagplot.view.node_list import COLUMNS, SORTS, NodeSpec, cells, select
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.text import clean


class NodesView(SortedView[NodeSpec]):
    """Map and table over the same nodes, cursor and filter."""

    DEFAULT_CSS = """
    NodesView ContentSwitcher { height: 1fr; }
    NodesView #node-legend { background: $surface; }
    """
    title = "Nodes"
    CHANGES = frozenset({"drain", "resume", "reboot", "reserve"})
    NO_MATCH = "No node matches the filter"
    NOTHING = (
        "There are no nodes yet",
        "a node appears here when its agent first reports · flagplot up starts one",
    )
    ORDERS = tuple(SORTS)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="The node's page"),
        Binding("D,ctrl+d", "drain", "Drain", tooltip="Drain: no new jobs, after asking for the reason"),
        Binding("u", "resume", "Resume", tooltip="Give drained nodes back to jobs, after asking"),
        Binding("a", "reserve", "Reserve", show=False, tooltip="Reserve the nodes: for whom, from when, how long"),
        Binding("R", "reboot", "Reboot", show=False, tooltip="Drain, reboot when no job is left, and back; asks first"),
        Binding(
            "slash",
            "app.filter",
            "Filter",
            priority=True,
            tooltip="Filter: words, state: user: part: type: switch: rack:, free>3",
        ),
        Binding("t", "toggle_table", "Table", tooltip="Map or table"),
        Binding("plus,equals_sign", "zoom(1)", "Zoom", tooltip="Larger cells"),
        Binding("minus", "zoom(-1)", "Smaller cells", show=False),
        Binding("b", "group", "Group", tooltip="Group by switch, rack, partition, GPU type, not at all"),
        Binding("c", "fill", "Fill", tooltip="Cells filled by GPUs, CPUs or memory"),
        Binding("0", "zoom_fit", "Cells that fit", show=False),
        Binding("o", "sort_next", "Sort"),
        Binding("r", "reverse", "Reverse", show=False),
        Binding("f", "only('free>0')", "Only with free GPUs", show=False),
        Binding("m", "only('user:me')", "Only with my jobs", show=False),
        Binding("x", "only('state:drain,down,unknown')", "Only out of service", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(NodeSpec())
        self.zoom = ""
        """The zoom that was chosen; empty: the largest that fits."""
        self._shown: object = None
        self._names: list[str] = []
        self._drainings: list[Draining] = []
        self._laid_out: object = None
        self._grouped: object = None
        self._groups: list[tuple[str, list[str]]] = []

    def compose(self) -> ComposeResult:
        """The map, the table, the line of the node under the cursor, the legend."""
        with ContentSwitcher(initial="node-map"):
            yield _with_id(FleetMap(), "node-map")
            yield _with_id(PieceTable(markable=True), "node-table")
        yield PieceLine(id="node-drains")
        yield PieceLine(id="node-summary")
        yield PieceLine(id="node-legend")

    @property
    def map(self) -> FleetMap:
        """The map."""
        return self.query_one(FleetMap)

    @property
    def table(self) -> PieceTable:
        """The table."""
        return self.query_one(PieceTable)

    @property
    def as_table(self) -> bool:
        """True while the table is shown."""
        return self.query_one(ContentSwitcher).current == "node-table"

    @property
    def cursor(self) -> str:
        """The name of the node under the cursor; empty when there is none."""
        if not self.as_table:
            return self.map.cursor_name
        key = self.table.cursor_key
        return "" if key is None else self.cockpit.fleet.name(key)

    @property
    def counts(self) -> str:
        """Filter, number, marks, grouping or order."""
        total = len(self.cockpit.mirror.nodes)
        shown = tr_count("{count} node", "{count} nodes", len(self._names))
        if self.spec.filter:
            shown = tr("/{filter}  {count} of {total}").format(
                filter=clean(self.spec.filter), count=len(self._names), total=total
            )
        if not self.is_mounted:
            return shown
        marks = len(self.table.marks if self.as_table else self.map.marks)
        if marks:
            return shown + tr(" · {count} marked").format(count=marks)
        if self.as_table or self.spec.filter:
            return shown
        order = "" if self.spec.sort == "node" else f" · {self.spec.sort} first"
        order += "" if self.spec.fill == "GPUs" else f" · {tr(self.spec.fill)}"
        return (
            shown + ("" if self.spec.group == "none" else tr(" · by {group}").format(group=tr(self.spec.group))) + order
        )

    def show(self, mirror: Mirror, now: int) -> None:
        """Lay out anew when something moved; redraw what changed on screen."""
        fleet = self.cockpit.fleet
        fleet.update(mirror, now)
        body = self.query_one(ContentSwitcher).size
        wanted = (mirror.version, fleet.changes, self.spec, self.zoom, self.as_table, body)
        if wanted != self._shown and body.width:
            self._shown = wanted
            self._names = select(mirror, fleet, self.spec)
            self._drainings = drainings(fleet.facts.values())
            self.map.empty = self.table.empty = self.empty_words(mirror)
            if self.as_table:
                self._show_table(mirror)
            else:
                self._show_map(mirror)
        self._show_lines()

    def _show_map(self, mirror: Mirror) -> None:
        fleet = self.cockpit.fleet
        size = self.query_one(ContentSwitcher).size
        sites = (tuple(mirror.partitions.values()), mirror.places)
        wanted = (fleet.shape, self._names, self.spec, self.zoom, size, sites)
        if wanted == self._laid_out:
            self.map.facts_changed()
            return
        self._laid_out = wanted
        grouped = (fleet.shape, self._names, self.spec.group, sites)
        if grouped != self._grouped:
            self._grouped, self._groups = grouped, group(mirror, fleet, self._names, self.spec.group)
        groups = self._groups
        if self.zoom:
            layout = lay_out(groups, cell_size(self.zoom, widest(fleet, self._names), self.spec.fill), size.width)
        else:
            layout = choose_zoom(groups, fleet, size.width, size.height, self.spec.fill)
        self.map.set_map(fleet, groups, layout)

    def _show_table(self, mirror: Mirror) -> None:
        fleet = self.cockpit.fleet
        columns = spread(COLUMNS, self.size.width - 1)
        self.table.forget_marks(lambda key: fleet.name(key) in fleet.facts)
        self.table.set_piece_rows(
            [fleet.key(name) for name in self._names],
            lambda key: cells(mirror, fleet.facts[fleet.name(key)], columns) if fleet.name(key) in fleet.facts else (),
            columns,
            sorted_by=self.spec.sort,
            reverse=self.spec.reverse,
        )

    def _show_lines(self) -> None:
        fleet = self.cockpit.fleet
        fact = fleet.facts.get(self.cursor)
        room = self.size.width - 3
        on_the_way = progress_line(self._drainings, self.cockpit.now())
        drains = self.query_one("#node-drains", PieceLine)
        drains.display = bool(on_the_way)
        drains.show_pieces(on_the_way)
        self.query_one("#node-summary", PieceLine).show_pieces(summary(fact, self.cockpit.now()) if fact else ())
        shown = [name for name in self._names if name in fleet.facts]
        size = None if self.as_table else self.map.layout_map.size
        self.query_one("#node-legend", PieceLine).show_pieces(legend(fleet.counts(shown), room, size))

    def focus_target(self) -> Widget:
        """The map or the table."""
        return self.table if self.as_table else self.map

    def clear_marks(self) -> bool:
        """Those of what is shown."""
        return self.table.clear_marks() if self.as_table else self.map.clear_marks()

    def chosen(self) -> list[str]:
        """The marked nodes, else the one under the cursor."""
        if self.as_table:
            return [self.cockpit.fleet.name(key) for key in self.table.chosen()]
        return self.map.chosen()

    def aimed_nodes(self) -> list[str]:
        """Those marked, else the one under the cursor."""
        return self.chosen()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Cells and groups are the map's."""
        if action in ("zoom", "zoom_fit", "group", "fill") and self.as_table:
            return False
        return super().check_action(action, parameters)

    # keys

    def on_fleet_map_opened(self) -> None:
        """A click opens."""
        self.action_open()

    def on_drawn_list_moved(self) -> None:
        """Tell of the node under the cursor."""
        self._show_lines()
        self.cockpit.frame_changed()

    def action_open(self) -> None:
        """The node's page."""
        if self.cursor:
            self.cockpit.open_node(self.cursor)

    def action_toggle_table(self) -> None:
        """Map or table, with the same node under the cursor and the same marks."""
        name, fleet = self.cursor, self.cockpit.fleet
        if self.as_table:
            self.map.marks = {fleet.name(key) for key in self.table.marks}
        else:
            self.table.marks = {fleet.key(one) for one in self.map.marks}
        self.query_one(ContentSwitcher).current = "node-map" if self.as_table else "node-table"
        self.cockpit.show_now()
        if name and self.as_table:
            self.table.move_to(fleet.key(name))
        elif name:
            self.map.move_to(name)
        self.focus_target().focus()

    def action_zoom(self, step: int) -> None:
        """Larger or smaller cells than now."""
        wanted = ZOOMS.index(self.map.layout_map.size.zoom) + step
        if not 0 <= wanted < len(ZOOMS):
            self.cockpit.say(
                tr("The cells are as large as they get" if step > 0 else "The cells are as small as they get")
            )
            return
        self.zoom = ZOOMS[wanted]
        self.cockpit.show_now()

    def action_zoom_fit(self) -> None:
        """The largest cells that fit."""
        self.zoom = ""
        self.cockpit.show_now()

    def action_group(self) -> None:
        """The next grouping that tells something of this cluster."""
        ways = groupings_of(self.cockpit.mirror, self.cockpit.fleet)
        at = ways.index(self.spec.group) if self.spec.group in ways else -1
        self.choose(replace(self.spec, group=ways[(at + 1) % len(ways)]))

    def action_fill(self) -> None:
        """Show the fill of another thing."""
        self.choose(replace(self.spec, fill=FILLS[(FILLS.index(self.spec.fill) + 1) % len(FILLS)]))

    def action_drain(self) -> None:
        """Ask for the reason, then drain."""
        commands.open_drain(self.cockpit, self.chosen())

    def action_reboot(self) -> None:
        """Ask for the reason, then drain and reboot."""
        commands.open_drain(self.cockpit, self.chosen(), reboot=True)

    def action_reserve(self) -> None:
        """The form of a reservation."""
        commands.open_reserve(self.cockpit, self.chosen())

    def action_resume(self) -> None:
        """Give nodes back, after asking."""
        confirm_resume(self, self.chosen())


def confirm_resume(view: MainView, names: list[str]) -> None:
    """Ask, then give those of the nodes back that are drained."""
    app = view.cockpit
    if refusal := app.why_not("resume"):
        app.failure(tr("Not allowed"), [refusal])
        return
    nodes = app.mirror.nodes
    drained = [name for name in names if name in nodes and nodes[name].drain is not None]
    if not drained:
        app.say(tr("Nothing to resume: not drained") if names else tr("No node under the cursor"))
        return

    def go(yes: bool | None) -> None:
        if yes:
            commands.resume_nodes(app, drained)

    lines = []
    for name in drained:
        drain = nodes[name].drain
        lines.append(f"{name}  {drain.reason if drain else ''}")
    what = drained[0]
    if len(drained) > 1:
        what = tr("{count} nodes ({names})").format(count=len(drained), names=compress_hosts(drained))
    note = tr("New jobs may start on them at once.") if len(drained) > 1 else tr("New jobs may start on it at once.")
    app.push_screen(
        ConfirmDialog(tr("Resume {nodes}?").format(nodes=what), lines, yes=tr("Yes, resume"), note=note), go
    )


def _with_id(widget: Widget, name: str) -> Widget:
    widget.id = name
    return widget
