"""What views and dialogs ask of the app: styles, rights, and actions that never fail in silence."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from rich.style import Style
from textual.app import App

from flagplot.client.calls import Calls
from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.tui import rights
from flagplot.tui.roles import owner_colour, parse_style, role_style
from flagplot.tui.screens.confirm import Popup
from flagplot.tui.undo import KEPT, Undo
from flagplot.view.drains import Watched, end_of
from flagplot.view.fleet import Fleet
from flagplot.view.notices import passed, way_through
from flagplot_wire.errors import Refused
from flagplot_wire.replies import Acted, Welcome
from flagplot_wire.text import clean

T = TypeVar("T")


class Services(App[int]):
    """The app without its screens. `clock` gives epoch seconds."""

    def __init__(self, mirror: Mirror, calls: Calls, clock: Callable[[], int], read_only: bool) -> None:
        super().__init__()
        self.mirror, self.calls = mirror, calls
        self.fleet = Fleet()
        """The facts of all nodes, shared by the views of machines."""
        self.read_only = read_only
        self.confined = os.environ.get("FLAGPLOT_CONFINED") == "1"
        self.command_log: list[tuple[int, str, str]] = []
        """(time, command line, outcome) of every action, oldest first."""
        self.undos: list[tuple[int, Undo]] = []
        """What can be taken back, and when it was done; the last is taken back first."""
        self.watched: list[Watched] = []
        """Drains and reboots that were asked for here and are not through."""
        self._clock = clock
        self._roles: dict[str, Style] = {}
        self._owners: dict[str, int] = {}

    def now(self) -> int:
        """Epoch seconds."""
        return self._clock()

    def role(self, role: str) -> Style:
        """The style of a role (see `flagplot.tui.roles`)."""
        if role not in self._roles:
            self._roles[role] = role_style(role, self.theme_variables)
        return self._roles[role]

    def owner_colour(self, user: str) -> str:
        """The colour of a user, the same on every screen for the whole session."""
        return owner_colour(user, self.user, self.theme_variables, self._owners)

    @property
    def welcome(self) -> Welcome | None:
        """Who we are to the controller, once it told."""
        return self.mirror.welcome

    @property
    def user(self) -> str:
        """The name the controller knows us by (empty: not yet told)."""
        return self.mirror.welcome.user if self.mirror.welcome else ""

    @property
    def role_word(self) -> str:
        """The highest role."""
        return rights.role_word(self.mirror.welcome)

    def can(self, right: str, owner: str = "") -> bool:
        """True when we may; see `flagplot.tui.rights.why_not` for the rights."""
        return not self.why_not(right, owner)

    def why_not(self, right: str, owner: str = "") -> str:
        """A sentence why we may not (empty: we may)."""
        if self.read_only:
            return tr("This cockpit was started read-only.")
        return rights.why_not(self.mirror.welcome, right, owner)

    def perform(
        self,
        command_line: str,
        coro: Coroutine[Any, Any, T],
        *,
        success: str | Callable[[T], str],
        then: Callable[[T], None] | None = None,
        undo: Undo | None = None,
    ) -> None:
        """Run an action; success is a toast, failure a popup that stays, both are in the command log.

        `command_line` is the same action as a CLI command. `then` is called with the result on success,
        and `undo` kept.
        """
        if not self.mirror.connected:
            coro.close()
            self.command_log.append((self.now(), command_line, tr("not sent: no connection")))
            self.failure(tr("Not connected: nothing was sent"), [f"$ {command_line}", self.mirror.problem])
            return
        self.run_worker(self._perform(command_line, coro, success, then, undo), group="actions")

    async def _perform(
        self,
        command_line: str,
        coro: Coroutine[Any, Any, T],
        success: str | Callable[[T], str],
        then: Callable[[T], None] | None,
        undo: Undo | None,
    ) -> None:
        at = self.now()
        try:
            result = await coro
        except Refused as refused:
            self.command_log.append((at, command_line, tr("refused: {why}").format(why=refused.message)))
            self.failure(refused.message, [refused.hint, f"$ {command_line}"])
            return
        failed = [one for one in result.results if one.error] if isinstance(result, Acted) else []
        if failed:
            self.command_log.append((at, command_line, tr("failed for {count}").format(count=len(failed))))
            lines = [f"{one.target}: {one.message or one.error}" for one in failed]
            done = len(result.results) - len(failed) if isinstance(result, Acted) else 0
            self.failure(
                tr("Failed for {failed}, done for {done}").format(failed=len(failed), done=done),
                [*lines, f"$ {command_line}"],
            )
            return
        self.command_log.append((at, command_line, tr("done")))
        self.say(success if isinstance(success, str) else success(result))
        if undo is not None:
            self.undos = [*self.undos, (at, undo)][-KEPT:]
        if then is not None:
            then(result)

    def say(self, text: str) -> None:
        """A short toast."""
        self.notify(clean(text), markup=False, timeout=4)

    def copy_to_clipboard(self, text: str) -> None:
        """By OSC 52, and once more past a multiplexer, which keeps it to itself or drops it."""
        super().copy_to_clipboard(text)
        driver = self._driver
        if driver is not None and not self.is_headless and (through := way_through("auto", os.environ)) != "off":
            coded = base64.b64encode(text.encode()).decode()
            driver.write(passed(f"\x1b]52;c;{coded}\x07", through))

    def tell_ends(self) -> None:
        """Tell of the drains and reboots that are through."""
        for one in list(self.watched):
            if sentence := end_of(self.mirror, one):
                self.watched.remove(one)
                self.notify(clean(sentence), markup=False, timeout=30)
                self.bell()

    def failure(self, title: str, lines: Iterable[str] = ()) -> None:
        """A popup that stays."""
        self.push_screen(Popup(title, [line for line in lines if line]))

    def owner_style(self, user: str) -> Style:
        """The colour of a user as a style (none in themes without colour)."""
        key = f"owner:{user}"
        if key not in self._roles:
            self._roles[key] = parse_style(self.owner_colour(user))
        return self._roles[key]
