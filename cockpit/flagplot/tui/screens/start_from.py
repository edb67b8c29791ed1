"""What the submit form may start from: a list of templates and last jobs, filtered as typed, with the script below."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from flagplot.client.own_templates import load_templates
from flagplot.language import tr
from flagplot.tui.widgets.pieces import PieceTable
from flagplot.view.columns import spread
from flagplot.view.queue import Column
from flagplot.view.starting import Offer, offers
from flagplot.view.words import and_more
from flagplot_wire.errors import Refused
from flagplot_wire.replies import Templates
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

COLUMNS = (Column("kind", "FROM", 6), Column("name", "NAME", 12, 1), Column("words", "", 20, 3))


class StartFrom(ModalScreen[Offer]):
    """Enter takes the one under the cursor, Esc leaves. The site's templates come with the controller's answer."""

    DEFAULT_CSS = """
    StartFrom { align: center middle; }
    StartFrom > Vertical {
        width: 110; max-width: 97%; height: 90%; border: round $primary; background: $surface; padding: 0 1;
    }
    StartFrom Input { margin-bottom: 1; }
    StartFrom PieceTable { height: 3fr; }
    StartFrom #start-script { height: 2fr; min-height: 5; margin-top: 1; color: $text-muted; background: $boost; }
    StartFrom #start-note { height: auto; max-height: 3; color: $warning; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Start from it", priority=True),
        Binding("escape", "dismiss", "Leave", priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "move(10)", "Page down", show=False, priority=True),
        Binding("pageup", "move(-10)", "Page up", show=False, priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._own, self._site = load_templates(), Templates()
        self._offers: list[Offer] = []

    def compose(self) -> ComposeResult:
        """The filter, the list, the script."""
        with Vertical():
            yield Static(Content(tr("Start from a template or one of your last jobs")))
            yield Input(placeholder=tr("type to find"), id="start-filter", compact=True)
            yield PieceTable()
            yield Static(Content(""), id="start-note")
            yield Static(Content(""), id="start-script")

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    @property
    def table(self) -> PieceTable:
        """The list."""
        return self.query_one(PieceTable)

    def on_mount(self) -> None:
        """Show what is here, ask for the rest."""
        self.query_one(Input).focus()
        self._tell(self._own.problems)
        self.call_after_refresh(self._show)
        self.run_worker(self._ask(), exclusive=True)

    async def _ask(self) -> None:
        try:
            self._site = await self.cockpit.calls.templates()
        except Refused as refused:
            self._tell([*self._own.problems, tr("The site's templates: {why}").format(why=refused.message)])
            return
        self._tell([*self._own.problems, *self._site.problems])
        self._show()

    def _tell(self, problems: tuple[str, ...] | list[str]) -> None:
        more = [and_more(len(problems) - 2)] if len(problems) > 3 else []
        shown = list(problems[: 2 if more else 3])
        self.query_one("#start-note", Static).update(Content("\n".join(clean(line) for line in [*shown, *more])))

    def _show(self) -> None:
        text = self.query_one(Input).value
        app = self.cockpit
        found = offers(self._own.templates, self._site.templates, app.mirror.jobs.values(), app.user, app.now())
        self._offers = [offer for offer in found if offer.matches(text)]
        columns = spread(COLUMNS, self.table.size.width - 1)
        self.table.empty = [tr("Nothing fits what you typed") if found else tr("No templates and no jobs of yours yet")]
        self.table.set_piece_rows(range(len(self._offers)), self._cells, columns)
        self._show_script()

    def _cells(self, key: int) -> tuple[tuple[tuple[str, str], ...], ...]:
        if key >= len(self._offers):
            return ()
        offer = self._offers[key]
        return (((offer.kind, "dim"),), ((clean(offer.key), "bold"),), ((offer.words, "plain"),))

    def _show_script(self) -> None:
        offer = self._chosen
        text = "" if offer is None else offer.script
        if offer is not None and offer.kind == "job":
            text = tr("Its script comes from the controller when you take it.")
        self.query_one("#start-script", Static).update(Content(clean(text, keep_newlines=True)))

    @property
    def _chosen(self) -> Offer | None:
        key = self.table.cursor_key
        return self._offers[key] if key is not None and key < len(self._offers) else None

    # keys

    def on_input_changed(self) -> None:
        """Find as typed; the cursor goes to the first."""
        self._show()
        self.table.action_end(False)
        self._show_script()

    def on_drawn_list_moved(self) -> None:
        """Another script."""
        self._show_script()

    def on_virtual_table_opened(self) -> None:
        """A click takes."""
        self.action_take()

    def on_resize(self) -> None:
        """Columns as the width allows."""
        self.call_after_refresh(self._show)

    def action_move(self, rows: int) -> None:
        """Move the cursor; the filter keeps the keyboard."""
        self.table.go_down(rows)

    def action_take(self) -> None:
        """Take the one under the cursor."""
        if (offer := self._chosen) is not None:
            self.dismiss(offer)
