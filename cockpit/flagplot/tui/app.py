"""The cockpit: a top line, one main view, hints; and the services that views use."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol

from textual import events
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import Input, TextArea

from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.tui import clusters as several
from flagplot.tui import commands
from flagplot.tui.clusters import Clusters
from flagplot.tui.keymap import Own
from flagplot.tui.looks import Looks
from flagplot.tui.main_view import MainView
from flagplot.tui.navigation import Navigation
from flagplot.tui.notices import Notices
from flagplot.tui.registry import VIEWS
from flagplot.tui.screens.base import BaseScreen
from flagplot.tui.screens.confirm import TooSmall
from flagplot.tui.undo import undo
from flagplot.tui.widgets.hints import Hints
from flagplot.tui.widgets.prompt import Prompt
from flagplot.tui.widgets.topline import TopLine
from flagplot.view.history import History
from flagplot_wire.errors import Refused
from flagplot_wire.job import State

TICK_S = 0.2
"""A view is brought up to date at most five times a second."""
SMALLEST = (60, 16)


class LiveConnection(Protocol):
    """What the app needs of the connection (`flagplot.client.live.Live`)."""

    mirror: Mirror
    calls: Calls

    async def run(self) -> None:
        """Connect, keep the mirror up to date, reconnect for ever."""

    @property
    def connection(self) -> Connection | None:
        """The connection of the moment."""


class FlagplotApp(Navigation):
    """The cockpit over a mirror and calls. With `live` None nothing is connected (tests)."""

    TITLE = "flagplot"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    * { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
    #body { height: 1fr; }
    #body > MainView { display: none; }
    #body > MainView.-active { display: block; }
    ToastRack { dock: top; align: right top; margin: 1 0 0 0; overflow: hidden hidden; }
    Toast { width: auto; max-width: 60; padding: 0 1; margin: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *[Binding(entry.key, f"view('{entry.name}')", entry.title, show=False) for entry in VIEWS],
        Binding("slash", "filter", "Filter", show=False),
        Binding("colon", "command", "Command", show=False, priority=True),
        Binding("question_mark,f1", "help", "Keys", show=False),
        Binding("at", "command_log", "Command log", show=False),
        Binding("escape", "back", "Back", show=False),
        Binding("alt+left,less_than_sign", "travel(-1)", "Where I was before", show=False),
        Binding("alt+right,greater_than_sign", "travel(1)", "Where I was after that", show=False),
        Binding("q,ctrl+q", "quit", "Quit", show=False),
        Binding("ctrl+c", "interrupt", "Close the form, or quit", show=False, priority=True),
        Binding("Y", "copy", "Copy ids or names", show=False, tooltip="Copy the marked ids or names to the clipboard"),
        Binding(
            "X",
            "command('export ')",
            "Export …",
            show=False,
            tooltip="Export: the list as CSV or JSON, the screen as SVG",
        ),
        Binding(
            "Z,ctrl+z",
            "undo",
            "Undo",
            show=False,
            tooltip="Undo the last hold, release, drain, resume or edit, after asking",
        ),
        Binding("K", "clusters", "Clusters", show=False, tooltip="Pick another cluster, or the queues of all"),
        Binding("ctrl+r", "refresh_now", "Redraw", show=False),
    ]

    def __init__(
        self,
        *,
        mirror: Mirror,
        calls: Calls,
        clock: Callable[[], int] | None = None,
        live: LiveConnection | None = None,
        read_only: bool = False,
        theme: str | None = None,
        looks: Looks | None = None,
        clusters: Clusters | None = None,
        first_line: str = "",
    ) -> None:
        self.own: Own = Own()
        self.clusters: Clusters = clusters or Clusters()
        self._first_line = first_line
        self.looks = looks or Looks()
        self._line_filters = self.looks.filters()
        super().__init__(mirror, calls, clock or (lambda: int(time.time())), read_only)
        if self.looks.still:
            self.animation_level = "none"
        self.live = live
        self.views = VIEWS
        self.notices = Notices(self)
        self.trail = []
        self.history = History()
        self.draft: dict[str, str] = {}
        self._theme_wanted = theme or ("mono" if self.looks.mono else None)
        self._seen: tuple[int, int, str] = (-1, -1, "")
        self._counted = -1
        self.running = self.pending = 0
        self._not_before = 0.0
        self._settled = False

    def frame_changed(self) -> None:
        """Redraw the top line and the hints where their text changed."""
        base = self.screen_stack[0]
        base.query_one(TopLine).update_if_changed()
        base.query_one(Hints).update_if_changed()

    # life

    def get_default_screen(self) -> BaseScreen:
        """The screen under all dialogs."""
        return BaseScreen(id="_default")

    def compose(self) -> ComposeResult:
        """The frame."""
        yield TopLine()
        yield Container(id="body")
        yield Hints()
        yield Prompt()

    def on_mount(self) -> None:
        """Take the theme, show the queue, connect."""
        commands.start_theme(self, self._theme_wanted)
        self.notices.start()
        self.set_keymap(self.own.keymap)
        if self.clusters.problem is not None:
            self.failure(self.clusters.problem.message, [self.clusters.problem.hint])
        if self.own.problems:
            self.failure(tr("Some of your keys and commands cannot be used"), self.own.problems)
        self.theme_changed_signal.subscribe(self, lambda _: self._repaint())
        self.action_view("queue")
        self.set_interval(TICK_S, self.tick)
        if self.live is not None:
            self.run_worker(self._connect(self.live), group="connection")

    async def _connect(self, live: LiveConnection) -> None:
        try:
            await live.run()
        except Refused as refused:
            self.mirror.problem = refused.message
            self.failure(refused.message, [refused.hint])

    def _repaint(self) -> None:
        self._roles.clear()
        self._seen = (-1, -1, "")
        self.refresh(layout=True)
        for widget in self.screen_stack[0].query("*"):
            widget.refresh()

    def tick(self) -> None:
        """Bring the screen up to date when something changed, at least once a second for ages and times."""
        view = self.active_view
        seen = (self.mirror.version, self.now(), self.trail[-1] if self.trail else "")
        if view is None or seen == self._seen or time.monotonic() < self._not_before:
            return
        self._seen = seen
        began = time.monotonic()
        if self._counted != self.mirror.version:
            self._counted = self.mirror.version
            counts = self.mirror.counts
            self.running, self.pending = counts[State.RUNNING], counts[State.PENDING]
        self.notices.look()
        self.tell_ends()
        view.show(self.mirror, self.now())
        self.frame_changed()
        # A huge cluster may make one pass slow: leave the keyboard nine tenths of the time.
        took = time.monotonic() - began
        self._not_before = time.monotonic() + (9 * took if took > 0.05 and self.mirror.complete else 0.0)
        if self.mirror.complete and not self._settled:
            # What a snapshot brought stays; collections that walk all of it would stop the keyboard.
            self._settled = True
            gc.collect()
            gc.freeze()
            if self._first_line:
                commands.run_line(self, self._first_line)

    def show_now(self) -> None:
        """Bring the screen up to date without waiting for the next tick."""
        self._seen, self._not_before = (-1, -1, ""), 0.0
        self.tick()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What every line passes through before it is sent."""
        return [*super().get_line_filters(), *self._line_filters]

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Keep the cursor of a field from blinking where nothing shall move."""
        if self.looks.still and isinstance(event.widget, (Input, TextArea)):
            event.widget.cursor_blink = False

    def on_resize(self, event: events.Resize) -> None:
        """Say so while the terminal is too small."""
        small = event.size.width < SMALLEST[0] or event.size.height < SMALLEST[1]
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall(SMALLEST))
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    # keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Unbind what would do nothing here: a filter without a list, a next field where there is but one."""
        # `/` and `:` act before the next key is read, so that fast typing lands in the prompt; in a field they are text.
        if action == "command":
            return not isinstance(self.focused, (Input, TextArea))
        if action == "filter":
            view = self.active_view
            typing = isinstance(self.screen_stack[0].focused, (Input, TextArea))
            return view is not None and view.can_filter and not typing
        if action in ("focus_next", "focus_previous"):
            return len(self.screen.focus_chain) > 1
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        """Open the filter prompt where the view has one."""
        view = self.active_view
        if view is not None and view.can_filter:
            self.screen_stack[0].query_one(Prompt).open("/", view.filter_text, [])
            self.call_after_refresh(self.frame_changed)

    def action_command(self, text: str = "") -> None:
        """Open the command prompt."""
        self.screen_stack[0].query_one(Prompt).open(":", text, commands.completions(self))
        self.call_after_refresh(self.frame_changed)

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Filter as the person types."""
        if (view := self.active_view) is not None:
            view.filter_changed(event.text)

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Keep the filter, or run the command."""
        self._close_prompt()
        if event.kind == ":":
            commands.run_line(self, event.text)
        elif (view := self.active_view) is not None:
            view.filter_accepted()

    def on_prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        """Close the prompt; a filter being typed is cleared."""
        self._close_prompt()
        if event.kind == "/" and (view := self.active_view) is not None:
            view.filter_changed("")

    def _close_prompt(self) -> None:
        self.screen_stack[0].query_one(Prompt).close()
        if (view := self.active_view) is not None:
            self.screen_stack[0].set_focus(view.focus_target())
        self.call_after_refresh(self.frame_changed)

    def action_help(self) -> None:
        """Every key that works here."""
        from flagplot.tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(list(self.screen.active_bindings.values())))

    def action_command_log(self) -> None:
        """What was run, as CLI commands."""
        from flagplot.tui.screens.command_log import CommandLog

        self.push_screen(CommandLog(self.command_log))

    def action_copy(self) -> None:
        """Copy the ids or names of what is marked."""
        if (view := self.active_view) is not None and (text := view.copied()):
            self.copy_to_clipboard(text)
            self.say(tr("Copied {text}").format(text=text if len(text) < 40 else text[:39] + "…"))
        else:
            self.say(tr("There is nothing to copy here"))

    def action_plugin(self, name: str) -> None:
        """Run a command of one's own."""
        from flagplot.tui.plugins import run_plugin

        run_plugin(self, [name])

    def action_undo(self) -> None:
        """Take back the last action that can be."""
        undo(self)

    def action_clusters(self) -> None:
        """Pick another cluster."""
        several.pick(self)

    def all_clusters(self) -> MainView:
        """A fresh page of all clusters."""
        from flagplot.tui.screens.all_clusters import AllClustersView

        return AllClustersView(self.clusters.entries, self.clusters.here)

    def go_to_cluster(self, name: str, line: str = "") -> None:
        """Leave this cluster for another, where `line` is run as a command once it has answered."""
        if self.is_web:
            self.failure(tr("A page shows one cluster"), [f"flagplot --cluster {name} web serves that one"])
            return
        self.clusters.following = (name, line)
        self.exit(0)

    def action_refresh_now(self) -> None:
        """Redraw everything."""
        self._repaint()
        self.show_now()

    def action_interrupt(self) -> None:
        """Copy what is selected, else close the form, else quit."""
        if marked := self.screen.get_selected_text():
            self.copy_to_clipboard(marked)
            self.screen.clear_selection()
            self.say(tr("Copied"))
            return
        if len(self.screen_stack) == 1:
            self.exit(0)
            return
        box = self.focused
        if isinstance(box, (Input, TextArea)) and box.selected_text:
            self.copy_to_clipboard(box.selected_text)
        else:
            self.screen.dismiss()

    async def action_quit(self) -> None:
        """Leave; jobs go on."""
        self.exit(0)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: our own commands, and the themes."""
        yield from commands.palette(self)


def run(target: Any, *, read_only: bool = False, theme: str | None = None, looks: Looks | None = None) -> int:
    """Open the cockpit on a cluster; returns the exit code. Refused without a terminal."""
    from flagplot.tui.start import run_cockpits

    if not (sys.stdin.isatty() and sys.__stderr__ is not None and sys.__stderr__.isatty()):
        raise Refused(
            "no_terminal",
            "The cockpit needs a terminal, and this is none",
            "flagplot queue, nodes and gpus print instead; over ssh, ask for a terminal with -t",
        )
    return run_cockpits(target, read_only=read_only, theme=theme, looks=looks or Looks())
