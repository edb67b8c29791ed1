"""Usage: the fair tree, who used what in a week, how well my jobs used what they held, what my limits leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from flagplot.client.mirror import Mirror
from flagplot.language import later, tr, tr_count
from flagplot.tui.list_view import ListView
from flagplot.tui.widgets.pieces import PieceLine, PieceTable
from flagplot.view import efficiency, usage
from flagplot.view.bars import Piece
from flagplot.view.columns import spread
from flagplot.view.tree import Branch, branches
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.policy import ROOT, FairshareRow
from flagplot_wire.replies import UsageReport
from flagplot_wire.requests import GetFairshare, GetUsage
from flagplot_wire.text import clean

TITLES = {
    "share": later("Fair share"),
    "used": later("Who used what"),
    "mine": later("My efficiency"),
    "left": later("Quota left"),
}
PANES = tuple(TITLES)
EVERY_S = 30
"""While the view is on screen it is asked for anew so often."""
WIDE = (150, 40)
"""From this size on all panes are shown."""


class UsageView(ListView):
    """Four panes: one at a time, or all where there is room."""

    DEFAULT_CSS = """
    UsageView #usage-body { height: 1fr; layout: vertical; }
    UsageView.-wide #usage-body { layout: grid; grid-size: 2 2; grid-gutter: 1 2; }
    UsageView Vertical { display: none; height: 1fr; }
    UsageView Vertical.-chosen, UsageView.-wide Vertical { display: block; }
    UsageView #usage-tabs, UsageView .pane-title { background: $surface; }
    UsageView .pane-title { display: none; }
    UsageView.-wide .pane-title { display: block; }
    UsageView.-wide #usage-tabs { display: none; }
    """
    title = "Usage"
    NO_MATCH = "No line matches the filter"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Jobs", tooltip="The jobs of the account or user, or the job's page"),
        Binding("right_square_bracket,tab", "pane(1)", "Next pane"),
        Binding("left_square_bracket,shift+tab", "pane(-1)", "Previous pane", show=False),
        Binding("x", "fold", "Fold", tooltip="Fold or unfold the account under the cursor"),
        Binding("z", "fold_all", "Fold all", tooltip="Accounts alone, or with everybody in them"),
        Binding("b", "by_user", "By user", tooltip="Who used what by user, or by account"),
        Binding("left", "week(1)", "Earlier", tooltip="The week before"),
        Binding("right", "week(-1)", "Later", tooltip="The week after"),
        Binding("slash", "app.filter", "Filter", priority=True, tooltip="Filter: words of accounts, users and jobs"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.pane = PANES[0]
        self.back = 0
        self.by_user = False
        self._folded: dict[str, frozenset[str]] = {"share": frozenset(), "used": frozenset()}
        self._tree: list[FairshareRow] = []
        self._report = UsageReport()
        self._trouble = ""
        self._asked: object = None
        self._shown: object = None
        self._keys: dict[tuple[str, str], int] = {}
        self._branches: dict[int, Branch] = {}

    def compose(self) -> ComposeResult:
        """The panes' titles, the panes, a line for the one in use."""
        yield PieceLine(id="usage-tabs")
        with Container(id="usage-body"):
            for name in PANES:
                with Vertical(id=f"usage-{name}"):
                    yield PieceLine(classes="pane-title")
                    yield PieceTable()
        yield PieceLine(id="usage-line")

    @property
    def table(self) -> PieceTable:
        """The table of the pane in use."""
        return self.table_of(self.pane)

    def table_of(self, pane: str) -> PieceTable:
        """A pane's table."""
        return self.query_one(f"#usage-{pane} PieceTable", PieceTable)

    @property
    def counts(self) -> str:
        """Filter, and the time looked at."""
        return f"/{clean(self.filter)}  " * bool(self.filter) + self._when() * (self.pane == "used")

    def _when(self) -> str:
        return usage.week_words(*usage.week(self.cockpit.now(), self.back))

    # asking

    def entered(self) -> None:
        """Ask when shown."""
        self._ask_when_due()

    def _ask_when_due(self) -> None:
        mirror = self.cockpit.mirror
        wanted = (mirror.epoch, self.back, self.cockpit.now() // EVERY_S)
        if mirror.connected and wanted != self._asked:
            self._asked = wanted
            self.run_worker(self._ask(), group="usage", exclusive=True)

    async def _ask(self) -> None:
        since, until = usage.week(self.cockpit.now(), self.back)
        try:
            tree = await self.cockpit.calls.fairshare(GetFairshare())
            report = await self.cockpit.calls.usage(GetUsage(since, until, jobs=50))
        except Refused as refused:
            self._trouble = refused.message
        else:
            self._trouble, self._tree, self._report = "", list(tree.rows), report
        self._shown = None
        self.cockpit.show_now()

    # showing

    def show(self, mirror: Mirror, now: int) -> None:
        """Bring the panes up to date."""
        self._ask_when_due()
        size = self.size
        wanted = (self.pane, self.by_user, self.filter, tuple(self._folded.items()), size, now // 60)
        if wanted == self._shown or not size.width:
            return
        self._shown = wanted
        wide = size.width >= WIDE[0] and size.height >= WIDE[1] - 4
        self.set_class(wide, "-wide")
        self._branches.clear()
        for name in PANES:
            self.query_one(f"#usage-{name}").set_class(name == self.pane, "-chosen")
            self.table_of(name).empty = self._empty(mirror, name)
            self.query_one(f"#usage-{name} PieceLine", PieceLine).show_pieces(self._title(name))
        self.query_one("#usage-tabs", PieceLine).show_pieces(self._tabs())
        width = (size.width - 2) // 2 - 1 if wide else size.width - 1
        self._show_share(width)
        self._show_used(width)
        self._show_mine(width, now)
        self._show_left(width)
        self._show_line()

    def _tabs(self) -> list[Piece]:
        pieces: list[Piece] = []
        for name in PANES:
            pieces += [(f" {tr(TITLES[name])} ", "tab-on" if name == self.pane else "tab"), (" ", "plain")]
        return pieces

    def _title(self, name: str) -> list[Piece]:
        extra = {
            "used": self._when(),
            "mine": tr_count("{count} last job", "{count} last jobs", len(self._report.ended)),
        }.get(name, "")
        return [(f" {tr(TITLES[name])} ", "tab-on" if name == self.pane else "tab"), (f"  {extra}", "dim")]

    def _empty(self, mirror: Mirror, name: str) -> Sequence[str]:
        if self._trouble:
            return (tr("Usage cannot be had"), clean(self._trouble))
        if not mirror.complete or not self._tree or self.filter:
            return self.empty_words(mirror)
        return {
            "share": (tr("There are no accounts"), tr("flagplot account add makes one")),
            "used": (tr("No job ran in this time"), tr("← looks at the week before")),
            "mine": (tr("None of your jobs has ended yet"), tr("what they used shows here when they have")),
        }.get(name, (tr("No limit holds for you"), tr("administrators set them: flagplot account modify --max-gpus N")))

    def nothing_yet(self) -> Sequence[str]:
        """The answer is on its way."""
        return (tr("Asking the controller …"), "")

    def _key(self, kind: str, name: str) -> int:
        return self._keys.setdefault((kind, name), len(self._keys))

    def _show_share(self, width: int) -> None:
        columns = spread(usage.TREE_COLUMNS, width)
        shown: dict[int, tuple[Branch, FairshareRow]] = {}
        for at, branch in branches(usage.tree_names(self._tree), self._folded["share"], self.filter):
            key = self._key("share", f"{branch.account}/{branch.user}")
            shown[key] = (branch, self._tree[at])
            self._branches[key] = branch
        self.table_of("share").set_piece_rows(
            list(shown), lambda key: usage.share_cells(*shown[key], columns) if key in shown else (), columns
        )

    def _show_used(self, width: int) -> None:
        columns = spread(usage.USED_COLUMNS, width)
        names, rows = usage.used_rows(self._report.used, self.by_user)
        total, most = usage.total_of(self._report.used), usage.largest(rows)
        shown = {}
        for at, branch in branches(names, self._folded["used"], self.filter):
            key = self._key("used", f"{branch.account}/{branch.user}")
            shown[key] = (branch, rows[at])
            self._branches[key] = branch
        self.table_of("used").set_piece_rows(
            list(shown),
            lambda key: usage.used_cells(*shown[key], total, most, columns) if key in shown else (),
            columns,
        )

    def _show_mine(self, width: int, now: int) -> None:
        columns = spread(efficiency.COLUMNS, width)
        wanted = self.filter.lower()
        ended = {int(one.number): one for one in self._report.ended if wanted in f"{one.display_id} {one.name}".lower()}
        self.table_of("mine").set_piece_rows(
            list(ended), lambda key: efficiency.cells(ended[key], now, columns) if key in ended else (), columns
        )

    def _show_left(self, width: int) -> None:
        columns = spread(efficiency.QUOTA_COLUMNS, width)
        wanted = self.filter.lower()
        quotas = dict(enumerate(self._report.quotas))
        keys = [key for key, one in quotas.items() if wanted in f"{one.whose} {one.limit}".lower()]
        self.table_of("left").set_piece_rows(
            keys, lambda key: efficiency.quota_cells(quotas[key], columns) if key in quotas else (), columns
        )

    def _show_line(self) -> None:
        pieces: list[Piece]
        if self.pane == "mine":
            pieces = efficiency.mean_words(self._report.ended)
        elif self.pane == "used":
            total = usage.total_of(self._report.used)
            gpu, cpu = usage.hours_words(total.gpu_s), usage.hours_words(total.cpu_s)
            words = tr("{gpu} GPU-hours, {cpu} CPU-hours").format(gpu=gpu, cpu=cpu)
            jobs = tr_count(" of {count} job", " of {count} jobs", total.jobs)
            pieces = [(f"{self._when()}: ", "dim"), (words, "bold"), (jobs, "dim")]
        elif self.pane == "share":
            pieces = [(tr("shares and usage are parts of the account above · FAIRSHARE: 1 is served first"), "dim")]
        else:
            pieces = [(tr("held by running jobs · GPU minutes: used and promised"), "dim")]
        if self._trouble:
            pieces = [(tr("Not up to date: {why}").format(why=clean(self._trouble)), "warning")]
        self.query_one("#usage-line", PieceLine).show_pieces(pieces)

    def escape(self) -> bool:
        """The filter, then the week."""
        if super().escape():
            return True
        if self.back:
            self.action_week(-self.back)
            return True
        return False

    # keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Folding is for trees, weeks for what was used."""
        if action in ("week", "by_user"):
            return self.pane == "used" and not (action == "week" and parameters == (-1,) and not self.back)
        if action in ("fold", "fold_all"):
            return self.pane in self._folded and not (self.pane == "used" and self.by_user)
        return super().check_action(action, parameters)

    def action_pane(self, step: int) -> None:
        """The next or previous pane."""
        self.pane = PANES[(PANES.index(self.pane) + step) % len(PANES)]
        self.cockpit.show_now()
        self.table.focus()

    def on_descendant_focus(self) -> None:
        """A click into a pane takes it."""
        pane = next((name for name in PANES if self.table_of(name).has_focus), self.pane)
        if pane != self.pane:
            self.pane = pane
            self.cockpit.show_now()

    def action_week(self, step: int) -> None:
        """Another week."""
        self.back = max(0, self.back + step)
        self._ask_when_due()
        self.cockpit.show_now()

    def action_by_user(self) -> None:
        """Users over all accounts, or accounts with their users."""
        self.by_user = not self.by_user
        self.cockpit.show_now()

    def _branch(self) -> Branch | None:
        key = self.table.cursor_key
        return self._branches.get(key) if key is not None and self.pane in self._folded else None

    def action_fold(self) -> None:
        """Fold or unfold the account under the cursor; on a user, theirs."""
        if (branch := self._branch()) is None:
            return
        folded = self._folded[self.pane] ^ {branch.account}
        self._folded = {**self._folded, self.pane: folded}
        self.cockpit.show_now()
        self.table.move_to(self._key(self.pane, f"{branch.account}/"))

    def action_fold_all(self) -> None:
        """Fold every account, or none."""
        accounts = {branch.account for branch in self._branches.values() if not branch.user and branch.account != ROOT}
        folded = frozenset() if self._folded[self.pane] else frozenset(accounts)
        self._folded = {**self._folded, self.pane: folded}
        self.cockpit.show_now()

    def action_open(self) -> None:
        """The jobs of what is under the cursor, or the job's page."""
        key = self.table.cursor_key
        if key is None:
            return
        if self.pane == "mine":
            self.cockpit.open_job(JobNumber(key))
        elif self.pane == "left":
            self.cockpit.action_view("queue", efficiency.quota_filter(self._report.quotas[key]))
        elif (branch := self._branches.get(key)) is not None:
            words = [f"user:{branch.user}"] * bool(branch.user) + [f"account:{branch.account}"] * bool(branch.account)
            self.cockpit.action_view("queue", " ".join(words) if branch.account != ROOT or branch.user else "")
