"""The dialog of drains and reboots: which nodes, which jobs are on them and until when, and the reason, which is required."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from flagplot.language import tr, tr_count
from flagplot.tui.keys import FIELD_KEYS
from flagplot.tui.undo import of_drain
from flagplot.view.drains import Watched
from flagplot.view.node_list import affected
from flagplot.view.words import and_more
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts, expand_hosts
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

SHOWN = 100
"""Jobs listed; beyond them their number is told."""


class DrainDialog(ModalScreen[None]):
    """Drain nodes, or drain and `reboot` them; nothing happens without a reason."""

    DEFAULT_CSS = """
    DrainDialog { align: center middle; }
    DrainDialog > Vertical {
        width: 76; max-width: 96%; height: auto; max-height: 94%;
        border: round $warning; padding: 0 1; background: $surface;
    }
    DrainDialog .title { text-style: bold; }
    DrainDialog Horizontal { height: auto; }
    DrainDialog .label { width: 8; color: $text-muted; }
    DrainDialog Input { width: 1fr; }
    DrainDialog .jobs { height: auto; max-height: 8; margin: 1 0; }
    DrainDialog .jobs Static { height: auto; }
    DrainDialog .note { color: $text-muted; height: auto; }
    DrainDialog #drain-error { color: $error; height: auto; }
    DrainDialog .buttons { align-horizontal: right; }
    DrainDialog Button { margin-left: 2; min-width: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *FIELD_KEYS,
        Binding("escape", "dismiss", "Close"),
        Binding("ctrl+s", "drain", "Drain"),
    ]

    def __init__(self, names: list[str], reason: str = "", reboot: bool = False) -> None:
        super().__init__()
        self._reboot, self._verb = reboot, "reboot" if reboot else "drain"
        self._hosts, self._reason = clean(compress_hosts(names)) if names else "", reason

    def compose(self) -> ComposeResult:
        """Nodes, jobs, reason, buttons."""
        with Vertical():
            yield Static(Content(tr("Reboot nodes" if self._reboot else "Drain nodes")), classes="title")
            with Horizontal():
                yield Static(Content(tr("nodes")), classes="label")
                yield Input(self._hosts, placeholder="gpu01,gpu[03-08]", id="drain-nodes", compact=True)
            with Horizontal():
                yield Static(Content(tr("reason")), classes="label")
                yield Input(self._reason, placeholder=tr("why: required"), id="drain-reason", compact=True)
            with VerticalScroll(classes="jobs", can_focus=False):
                yield Static(Content(""), id="drain-jobs")
            yield Static(Content(""), id="drain-note", classes="note")
            yield Static(Content(""), id="drain-error")
            with Horizontal(classes="buttons"):
                yield Button(Content(tr("Close (Esc)")), id="no", compact=False)
                yield Button(Content(tr("Reboot (^s)" if self._reboot else "Drain (^s)")), id="yes", variant="warning")

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    def on_mount(self) -> None:
        """Start where something is missing."""
        who = clean(self.cockpit.user) or tr("you")
        what = tr("Running jobs go on; no new job starts there.")
        if self._reboot:
            what = tr(
                "Running jobs go on; each node reboots when its last job has ended, and takes jobs again after that."
            )
        self.query_one("#drain-note", Static).update(
            Content(what + tr(" Recorded with your name, {user}, and the time.").format(user=who))
        )
        self.query_one("#drain-reason" if self._hosts else "#drain-nodes", Input).focus()
        self._show_jobs()

    def _wanted(self) -> list[str]:
        """The names typed; raises `Refused` that tells what is wrong with them."""
        text = self.query_one("#drain-nodes", Input).value.strip()
        if not text:
            raise Refused("usage", tr("Which nodes? Write names such as gpu01,gpu[03-08]"))
        names = expand_hosts(text)
        unknown = [name for name in names if name not in self.cockpit.mirror.nodes]
        if unknown:
            raise Refused(
                "not_found", tr("There is no node {nodes} in this cluster").format(nodes=compress_hosts(unknown))
            )
        return names

    def _show_jobs(self) -> None:
        try:
            names = self._wanted()
        except Refused as refused:
            self.query_one("#drain-jobs", Static).update(Content(clean(refused.message)))
            return
        lines = affected(self.cockpit.mirror, names, self.cockpit.now())
        count = tr_count("{count} node", "{count} nodes", len(names))
        done = tr("rebooted" if self._reboot else "drained")
        if not lines:
            title = tr("No job runs there: {nodes} {done} at once").format(nodes=count, done=done)
        else:
            title = tr("{jobs} on {nodes}, {done} when they end:").format(
                jobs=tr_count("{count} job", "{count} jobs", len(lines)), nodes=count, done=done
            )
        more = [and_more(len(lines) - SHOWN)] if len(lines) > SHOWN else []
        self.query_one("#drain-jobs", Static).update(Content("\n".join([title, *lines[:SHOWN], *more])))

    def on_input_changed(self, event: Input.Changed) -> None:
        """The jobs follow the nodes typed."""
        self.query_one("#drain-error", Static).update(Content(""))
        if event.input.id == "drain-nodes":
            self._show_jobs()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes to the reason, then drains."""
        if event.input.id == "drain-nodes":
            self.query_one("#drain-reason", Input).focus()
        else:
            self.action_drain()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A button answers."""
        if event.button.id == "yes":
            self.action_drain()
        else:
            self.dismiss()

    def action_drain(self) -> None:
        """Drain, when nodes and reason are there."""
        error = self.query_one("#drain-error", Static)
        try:
            names = self._wanted()
        except Refused as refused:
            error.update(Content(clean(refused.message)))
            self.query_one("#drain-nodes", Input).focus()
            return
        reason = self.query_one("#drain-reason", Input).value.strip()
        if not reason:
            error.update(Content(tr("A reason is required: the next person will ask why")))
            self.query_one("#drain-reason", Input).focus()
            return
        app, hosts = self.cockpit, compress_hosts(names)
        self.dismiss()
        call = app.calls.reboot if self._reboot else app.calls.drain
        watched = Watched(tuple(names), reason, self._reboot)
        app.perform(
            f"flagplot {self._verb} {hosts} --reason {quote(reason)}",
            call(tuple(names), reason),
            success=(tr("To reboot: {nodes}: {why}") if self._reboot else tr("Draining {nodes}: {why}")).format(
                nodes=hosts, why=reason
            ),
            then=lambda _: app.watched.append(watched),
            undo=None
            if self._reboot
            else of_drain(app.calls, app.mirror.nodes, names, tr("Drained {nodes}").format(nodes=hosts)),
        )


def quote(text: str) -> str:
    """A text as a shell takes it."""
    import shlex

    return shlex.quote(text)
