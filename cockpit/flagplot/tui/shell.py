"""A shell in a job, in place of the cockpit's screen, over the cockpit's own connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from flagplot.language import tr
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


def open_shell(app: FlagplotApp, target: str, running: bool, owner: str) -> None:
    """Suspend the cockpit, open the shell, come back; says why where that cannot be."""
    connection = app.live.connection if app.live is not None else None
    if not running:
        app.say(tr("Job {job} is not running: a shell needs its nodes").format(job=target))
    elif app.read_only:
        app.say(tr("This cockpit was started read-only."))
    elif connection is None:
        app.say(tr("Not connected to the controller"))
    else:
        app.run_worker(_shell(app, target, owner != app.user), group="shell", exclusive=True)


async def _shell(app: FlagplotApp, target: str, as_owner: bool) -> None:
    from flagplot.cli.run import carry
    from flagplot.cli.shell import shell_spec

    assert app.live is not None and app.live.connection is not None
    line = f"flagplot shell {target}{' --as-owner' if as_owner else ''}"
    code = 0
    try:
        with app.suspend():
            print(
                "flagplot: " + tr("shell in job {job}; exit brings the cockpit back").format(job=clean(target)),
                flush=True,
            )
            code = await carry(app.live.connection, target, shell_spec(""), as_owner=as_owner)
    except SuspendNotSupported:
        app.say(tr("No shell here: this terminal cannot be lent. Elsewhere: {line}").format(line=line))
        return
    except Refused as refused:
        app.command_log.append((app.now(), line, f"refused: {refused.message}"))
        app.failure(refused.message, [refused.hint, f"$ {line}"])
        return
    app.command_log.append((app.now(), line, f"ended with {code}"))
    app.refresh(layout=True)
