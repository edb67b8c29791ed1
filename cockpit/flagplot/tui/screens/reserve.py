"""The form of a reservation: which nodes, from when, how long, for whom; it shows whom it hits and the same command."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Button, Input, Static

from flagplot.language import later, tr
from flagplot.tui.keys import FIELD_KEYS
from flagplot.tui.screens.drain import SHOWN
from flagplot.view.reservations import FLAGS, Draft, hits, local_offset, read_form
from flagplot.view.words import and_more
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.requests import ChangePolicy
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

FIELDS = (
    ("nodes", "gpu01,gpu[03-08]"),
    ("name", "night-run"),
    ("start", later("now, now+2hours, 18:00, 2026-12-24T18:00")),
    ("duration", later("2:00:00 or 1-12 (days-hours)")),
    ("users", "ann,bob"),
    ("accounts", "physics"),
    ("flags", ", ".join(FLAGS)),
    ("comment", ""),
)


class ReserveDialog(ModalScreen[None]):
    """Make a reservation on some nodes; checked as it is typed, and by the controller."""

    DEFAULT_CSS = """
    ReserveDialog { align: center middle; }
    ReserveDialog > Vertical {
        width: 78; max-width: 97%; height: auto; max-height: 96%;
        border: round $primary; padding: 0 1; background: $surface;
    }
    ReserveDialog .title { text-style: bold; }
    ReserveDialog .row { height: 1; }
    ReserveDialog .label { width: 10; color: $text-muted; }
    ReserveDialog Input { width: 1fr; height: 1; border: none; padding: 0 1; background: $boost; }
    ReserveDialog Input:focus { background: $primary 30%; }
    ReserveDialog #reserve-hits { height: auto; margin-top: 1; }
    ReserveDialog VerticalScroll { height: auto; max-height: 5; }
    ReserveDialog VerticalScroll Static { height: auto; }
    ReserveDialog #reserve-line { height: auto; max-height: 3; color: $text-muted; }
    ReserveDialog #reserve-line.-bad { color: $error; }
    ReserveDialog .buttons { height: auto; align-horizontal: right; }
    ReserveDialog Button { margin-left: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *FIELD_KEYS,
        Binding("escape", "dismiss", "Close"),
        Binding("ctrl+s,f2,f5", "reserve", "Reserve"),
        Binding("enter", "next", "Next field", show=False, priority=True),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Previous field", show=False),
    ]

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._hosts = clean(compress_hosts(names)) if names else ""

    def compose(self) -> ComposeResult:
        """Fields, whom it hits, the command, buttons."""
        with Vertical():
            yield Static(Content(tr("Reserve nodes")), classes="title")
            for name, example in FIELDS:
                with Horizontal(classes="row"):
                    yield Static(Content(name), classes="label")
                    yield Input(
                        {"nodes": self._hosts, "start": "now"}.get(name, ""),
                        placeholder=tr(example),
                        id=f"reserve-{name}",
                        compact=True,
                        suggester=SuggestFromList(list(FLAGS)) if name == "flags" else None,
                    )
            yield Static(Content(""), id="reserve-hits")
            with VerticalScroll(can_focus=False):
                yield Static(Content(""), id="reserve-jobs")
            yield Static(Content(""), id="reserve-line")
            with Horizontal(classes="buttons"):
                yield Button(Content(tr("Close (Esc)")), id="no", compact=True)
                yield Button(Content(tr("Reserve (F2)")), id="yes", variant="primary", compact=True)

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    def on_mount(self) -> None:
        """Start where something is missing."""
        self.query_one("#reserve-name" if self._hosts else "#reserve-nodes", Input).focus()
        self._check()

    def _check(self) -> Draft | None:
        """Read the form and show whom it hits; None, and why, where something is missing or wrong."""
        app = self.cockpit
        form = {name: self.query_one(f"#reserve-{name}", Input).value for name, _ in FIELDS}
        line = self.query_one("#reserve-line", Static)
        try:
            draft = read_form(form, app.mirror, app.now(), local_offset(app.now()))
        except Refused as refused:
            line.add_class("-bad")
            line.update(Content(clean(f"{refused.message}{': ' + refused.hint if refused.hint else ''}")))
            self._tell("", [])
            return None
        line.remove_class("-bad")
        line.update(Content(clean(f"$ {draft.command_line}")))
        self._tell(*hits(app.mirror, draft, app.now()))
        return draft

    def _tell(self, words: str, lines: list[str]) -> None:
        more = [and_more(len(lines) - SHOWN)] if len(lines) > SHOWN else []
        self.query_one("#reserve-hits", Static).update(Content(words))
        self.query_one("#reserve-jobs", Static).update(Content("\n".join([*lines[:SHOWN], *more])))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Check as typed."""
        self._check()

    def action_next(self) -> None:
        """Enter goes to the next field, before the next key is read; on a button it presses that."""
        if isinstance(self.focused, Button):
            self.focused.press()
        else:
            self.focus_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A button answers."""
        if event.button.id == "yes":
            self.action_reserve()
        else:
            self.dismiss()

    def action_reserve(self) -> None:
        """Send it; the form stays until the controller has taken it."""
        if (draft := self._check()) is None:
            self.cockpit.say(tr("Not sent: the line below tells what is missing"))
            return
        request = ChangePolicy("add", "reservation", (draft.name,), dict(draft.values))
        self.cockpit.perform(
            draft.command_line,
            self.cockpit.calls.change_policy(request),
            success=tr("Reserved {nodes}: {name}").format(nodes=compress_hosts(draft.nodes), name=draft.name),
            then=lambda _: self._close(),
        )

    def _close(self) -> None:
        if self.is_current:
            self.dismiss()
