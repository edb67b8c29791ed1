"""Tells of the ends of one's own jobs: a toast, a notice of the desktop, the bell, and the person's own command."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING

from flagplot.client.own_command import run_beside
from flagplot.client.own_files import confined, read_own
from flagplot.language import tr
from flagplot.view.notices import Settings, Told, Watch, command_values, read, terminal_words, words
from flagplot.view.variables import environment, fill
from flagplot_wire.errors import Refused

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

GAP_S = 5.0
"""Between one notice and the next; what comes meanwhile makes one together."""
COMMAND_S = 60.0
MOST_COMMANDS = 100
"""Commands that wait for their turn; jobs beyond that are told on the screen alone."""


class Notices:
    """One cockpit's notices."""

    def __init__(self, app: FlagplotApp) -> None:
        self._app = app
        self._watch = Watch()
        self._waiting: list[Told] = []
        self._commands: list[Told] = []
        self._not_before = 0.0

    @property
    def settings(self) -> Settings:
        """What the person chose."""
        return self._watch.settings

    def start(self) -> None:
        """Read the settings; what is wrong in them is told, and the usual ones hold."""
        try:
            self._watch.settings = read_own("notices.toml", read, Settings())
        except Refused as refused:
            self._app.failure(refused.message, [refused.hint])

    def look(self) -> None:
        """Tell what is new in the mirror; called at every tick."""
        told = self._watch.look(self._app.mirror, self._app.user)
        self._waiting += told
        if told and self.settings.command and not confined():
            self._commands += told[: MOST_COMMANDS - len(self._commands)]
            if self._commands:
                self._app.run_worker(self._run_commands(), group="notice-command")
        if self._waiting and time.monotonic() >= self._not_before:
            self._not_before = time.monotonic() + GAP_S
            self.tell(*words(self._waiting))
            self._waiting.clear()

    def tell(self, title: str, text: str) -> None:
        """One notice, on the screen and in the terminal's ways."""
        app = self._app
        app.say(f"{title}: {text}" if text else title)
        driver = app._driver
        if driver is not None and not app.is_headless:
            driver.write(terminal_words(title, text, self.settings, os.environ))

    async def _run_commands(self) -> None:
        app, jobs, self._commands = self._app, self._commands, []
        cluster = app.welcome.cluster if app.welcome else ""
        for one in jobs:
            values = command_values(one, cluster)
            try:
                command = fill(self.settings.command, values)
                code, output = await run_beside(command, environment(values), COMMAND_S)
                outcome = "done" if code == 0 else f"ended with {code}: {output.strip()[-200:]}"
            except Refused as refused:
                command, outcome = list(self.settings.command), refused.message
            app.command_log.append((app.now(), shlex.join(command), outcome))
            if outcome != "done":
                app.say(tr("The command of notices.toml failed: {why}").format(why=outcome))


def show_settings(app: FlagplotApp, _: list[str]) -> None:
    """`:notices`: what is told and how, with a notice to try it."""
    settings = app.notices.settings
    app.failure(
        "Notices of your jobs",
        [
            f"on: {' '.join(settings.on) or 'nothing'}"
            + (f", after {settings.at_least_s} s" * bool(settings.at_least_s)),
            f"desktop: {settings.desktop}, through: {settings.through}, bell: {'yes' if settings.bell else 'no'}",
            f"command: {shlex.join(settings.command) or 'none'}",
            "They are set in notices.toml (flagplot-config(5)). One was sent now, to try it.",
        ],
    )
    app.notices.tell("Notices work", "this is how the end of a job is told")
