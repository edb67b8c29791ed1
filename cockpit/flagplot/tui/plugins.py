"""Runs a person's own commands (`plugins.toml`) on what is marked or under the cursor."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from flagplot.client.own_command import run_beside
from flagplot.client.own_files import confined
from flagplot.language import tr
from flagplot.tui.screens.confirm import ConfirmDialog
from flagplot.view.own_keys import Plugin
from flagplot.view.queue import job_target
from flagplot.view.variables import environment, fill, values_of_job, values_of_nodes
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

SHELL = "/bin/sh"


def run_plugin(app: FlagplotApp, rest: list[str]) -> None:
    """Run the plugin of a name, after asking where it wants that; what is wrong with it is told in a popup."""
    view = app.active_view
    plugin = next((one for one in app.own.plugins if rest and one.name == rest[0]), None)
    if plugin is None or view is None:
        known = " ".join(one.name for one in app.own.plugins) or "none; plugins.toml has them"
        app.failure(tr("There is no such command of yours"), [f"Known: {known}"])
    elif plugin not in app.own.of_view(view.part):
        scope = tr("Its scope is: {names}").format(names=" ".join(plugin.scopes))
        app.failure(tr("{name} does not work here").format(name=plugin.name), [scope])
    elif plugin.dangerous and app.read_only:
        app.say(tr("This cockpit was started read-only."))
    elif not confined() and not view.moved_away():
        _ask(app, plugin, values_here(app))


def values_here(app: FlagplotApp) -> dict[str, list[str]]:
    """The variables of what an action would mean on the view on screen."""
    view = app.active_view
    if view is None:
        return {}
    cluster = app.welcome.cluster if app.welcome else ""
    jobs, nodes = view.aimed_jobs(), view.aimed_nodes()
    found = values_of_nodes(nodes, app.user, cluster)
    if jobs:
        targets = [job_target(job) for job in jobs]
        found = {**values_of_job(jobs[0], cluster, targets, targets[0]), **({} if not nodes else found)}
        found["USER"] = [clean(jobs[0].user)]
    return found


def _ask(app: FlagplotApp, plugin: Plugin, values: dict[str, list[str]]) -> None:
    try:
        # What a shell reads stays as the person wrote it; the values come in its environment.
        command = [SHELL, "-c", plugin.command[0]] if plugin.shell else fill(plugin.command, values)
    except Refused as refused:
        app.failure(
            tr("{name} was not run").format(name=plugin.name),
            [refused.message, refused.hint, f"plugins.toml line {plugin.line}"],
        )
        return

    def go(yes: bool | None) -> None:
        if yes:
            run = _beside if plugin.background else _in_place
            app.run_worker(run(app, plugin, command, environment(values)), group="plugin")

    if not plugin.confirm and not plugin.dangerous:
        go(True)
        return
    shown = [f"$ {shlex.join(command)}"]
    if plugin.shell:
        shown += [
            f"{name}={shlex.quote(value)}" for name, value in environment(values).items() if f"${name}" in command[2]
        ]
    app.push_screen(
        ConfirmDialog(f"{plugin.description}?", shown, yes=tr("Yes, run"), destructive=plugin.dangerous), go
    )


async def _beside(app: FlagplotApp, plugin: Plugin, command: list[str], more: dict[str, str]) -> None:
    try:
        code, output = await run_beside(command, more)
    except Refused as refused:
        _ended(app, plugin, command, refused.message, [])
        return
    lines = output.strip().splitlines()[-12:]
    _ended(app, plugin, command, "done" if code == 0 else f"ended with {code}", lines)


async def _in_place(app: FlagplotApp, plugin: Plugin, command: list[str], more: dict[str, str]) -> None:
    outcome = "done"
    try:
        with app.suspend():
            code = await _foreground(command, more)
            if code:
                outcome = f"ended with {code}"
    except SuspendNotSupported:
        outcome = "this terminal cannot be lent: set background = true"
    except (OSError, ValueError) as wrong:
        outcome = f"cannot be run: {wrong}"
    app.refresh(layout=True)
    _ended(app, plugin, command, outcome, [])


async def _foreground(command: list[str], more: dict[str, str]) -> int:
    """Run in the cockpit's place; Ctrl+C is for the command alone."""
    # A handler, unlike being ignored, is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **more})
        return await process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _ended(app: FlagplotApp, plugin: Plugin, command: list[str], outcome: str, lines: list[str]) -> None:
    app.command_log.append((app.now(), shlex.join(command), outcome))
    if outcome != "done":
        app.failure(f"{plugin.name}: {outcome}", [*lines, f"$ {shlex.join(command)}"])
    elif plugin.background:
        app.say(f"{plugin.name}: {lines[-1] if lines else 'done'}")
