"""Every GPU as a row: its shards in the owners' colours, who holds it, how busy and how full it is."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.tui.list_view import SortedView
from flagplot.tui.widgets.pieces import PieceLine, PieceTable
from flagplot.view.bars import Piece, number
from flagplot.view.columns import spread
from flagplot.view.gpus import COLUMNS, SORTS, STRIDE, Cells, GpuSpec, cells, find, select
from flagplot_wire.text import clean, counted


class GpuTable(PieceTable):
    """Names a node once on the screen, and in every row of a file."""

    def exported_row(self, key: int) -> list[str]:
        """The row with its node."""
        node = clean(self.cockpit.fleet.name(key // STRIDE))
        row = zip(self.columns, super().exported_row(key), strict=False)
        return [node if column.key == "node" else text for (column, _), text in row]


class GpusView(SortedView[GpuSpec]):
    """The table of GPUs."""

    title = "GPUs"
    NO_MATCH = "No GPU matches the filter"
    NOTHING = ("No node has reported a GPU", "GPUs appear here when an agent finds some · 2 shows the nodes")
    ORDERS = tuple(SORTS)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open job", tooltip="The job that holds most of it; its node when it is free"),
        Binding("w", "node", "Node", tooltip="The page of its node"),
        Binding(
            "slash",
            "app.filter",
            "Filter",
            priority=True,
            tooltip="Filter: words, free room held shared idle outsider, busy>50",
        ),
        Binding("f", "only('room')", "Free", tooltip="Only GPUs with room for a job"),
        Binding("m", "only('user:me')", "Mine", tooltip="Only GPUs that my jobs hold"),
        Binding("x", "only('outsider')", "Outsiders", tooltip="Only GPUs with processes that no job owns"),
        Binding("o", "sort_next", "Sort"),
        Binding("r", "reverse", "Reverse"),
    ]

    def __init__(self) -> None:
        super().__init__(GpuSpec())
        self._shown: object = None
        self._keys: list[int] = []
        self._first: set[int] = set()

    def compose(self) -> ComposeResult:
        """The table, and a line of totals."""
        yield GpuTable()
        yield PieceLine(id="gpu-totals")

    @property
    def table(self) -> GpuTable:
        """The table."""
        return self.query_one(GpuTable)

    @property
    def counts(self) -> str:
        """Filter, number, order."""
        shown = counted(len(self._keys), "GPU")
        if self.spec.filter:
            total = sum(len(fact.gpus) for fact in self.cockpit.fleet.facts.values())
            shown = f"/{clean(self.spec.filter)}  {len(self._keys)} of {total}"
        return shown

    def show(self, mirror: Mirror, now: int) -> None:
        """Select anew when something moved; redraw what changed on screen."""
        fleet = self.cockpit.fleet
        fleet.update(mirror, now)
        width = self.size.width
        if (mirror.version, self.spec, width) == self._shown or not width:
            return
        self._shown = (mirror.version, self.spec, width)
        self._keys = select(mirror, fleet, self.spec)
        before = [-1, *[key // STRIDE for key in self._keys]]
        self._first = {key for key, last in zip(self._keys, before, strict=False) if key // STRIDE != last}
        columns = spread(COLUMNS, width - 1)

        def row(key: int) -> Cells:
            found = find(fleet, key)
            return cells(*found, columns, key in self._first) if found else ()

        self.table.empty = self.empty_words(mirror)
        self.table.set_piece_rows(self._keys, row, columns, sorted_by=self.spec.sort, reverse=self.spec.reverse)
        self.query_one("#gpu-totals", PieceLine).show_pieces(self._totals())

    def _totals(self) -> list[Piece]:
        facts = self.cockpit.fleet.facts.values()
        held = sum(fact.gpus_held for fact in facts)
        total = sum(len(fact.gpus) for fact in facts)
        free = sum(fact.gpus_free for fact in facts)
        outsiders = sum(bool(one.outsiders) for fact in facts for one in fact.gpus)
        faults = sum(bool(one.trouble) for fact in facts for one in fact.gpus)
        unknown = sum(not fact.known for fact in facts)
        pieces: list[Piece] = [
            (tr("{held} of {total} held").format(held=number(round(held, 1)), total=total), "bold"),
            ("  " + tr("{count} free").format(count=free), "good"),
        ]
        if faults:
            pieces.append(("  ✗ " + tr("{count} faulty").format(count=faults), "bad"))
        if outsiders:
            pieces.append(("  ! " + tr("{count} with outsiders").format(count=outsiders), "bad"))
        if unknown:
            pieces.append(("  ? " + tr_count("{count} node unknown", "{count} nodes unknown", unknown), "dim"))
        if self.size.width >= 116:
            pieces.append(("   █ " + tr("held, in the owner's colour") + "  ░ " + tr("free"), "dim"))
        return pieces

    def aimed_nodes(self) -> list[str]:
        """The node of the GPU under the cursor."""
        key = self.table.cursor_key
        return [] if key is None else [self.cockpit.fleet.name(key // STRIDE)]

    # keys

    def action_open(self) -> None:
        """The job that holds most of it; its node when it is free."""
        key = self.table.cursor_key
        found = None if key is None else find(self.cockpit.fleet, key)
        if found is None:
            return
        node, fact = found
        if fact.shares:
            self.cockpit.open_job(fact.shares[0].job)
        else:
            self.cockpit.open_node(node.node.name)

    def action_node(self) -> None:
        """The node's page."""
        if (key := self.table.cursor_key) is not None:
            self.cockpit.open_node(self.cockpit.fleet.name(key // STRIDE))
