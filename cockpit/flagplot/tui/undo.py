"""What can be taken back: an action that has an inverse leaves it here, and is undone after asking."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flagplot.client.calls import Calls
from flagplot.language import tr
from flagplot.tui.screens.confirm import ConfirmDialog
from flagplot.view.words import about
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.node import Node
from flagplot_wire.replies import Acted
from flagplot_wire.requests import Act, Update

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

KEPT = 20
INVERSE = {"hold": "release", "release": "hold"}


@dataclass(frozen=True, slots=True)
class Undo:
    """What was done in words (`Held 41`), the lines that take it back, and the call that does."""

    done: str
    lines: tuple[str, ...]
    call: Callable[[], Coroutine[Any, Any, Acted]]


def of_act(calls: Calls, verb: str, jobs: Sequence[str], done: str) -> Undo | None:
    """The inverse of holding and releasing; the other verbs have none."""
    if (back := INVERSE.get(verb)) is None:
        return None
    request = Act(back, tuple(jobs))  # type: ignore[arg-type]
    return Undo(done, (f"flagplot {back} {' '.join(jobs)}",), lambda: calls.act(request))


def of_drain(calls: Calls, nodes: Mapping[str, Node], names: Sequence[str], done: str) -> Undo | None:
    """Giving those back that were in service before; None where all were drained already."""
    fresh = [name for name in names if name in nodes and nodes[name].drain is None]
    if not fresh:
        return None
    return Undo(done, (f"flagplot resume {compress_hosts(fresh)}",), lambda: calls.resume(tuple(fresh)))


def of_resume(calls: Calls, nodes: Mapping[str, Node], names: Sequence[str], done: str) -> Undo | None:
    """Draining again, each for the reason that it had."""
    by_reason: dict[str, list[str]] = {}
    for name in names:
        if name in nodes and (drain := nodes[name].drain) is not None:
            by_reason.setdefault(drain.reason, []).append(name)
    if not by_reason:
        return None
    lines = tuple(
        f"flagplot drain {compress_hosts(some)} --reason {shlex.quote(reason)}" for reason, some in by_reason.items()
    )
    calls_back = [partial(calls.drain, tuple(some), reason) for reason, some in by_reason.items()]
    return Undo(done, lines, partial(_all, calls_back))


def of_update(
    calls: Calls, before: Mapping[str, Mapping[str, str | int]], done: str, lines: Sequence[str]
) -> Undo | None:
    """Changing every job back to what it was; `before` are the fields of each."""
    requests = [Update((job,), **fields) for job, fields in before.items()]  # type: ignore[arg-type]
    return Undo(done, tuple(lines), partial(_all, [partial(calls.update, request) for request in requests]))


async def _all(work: Sequence[Callable[[], Coroutine[Any, Any, Acted]]]) -> Acted:
    """One call after the other, their results together."""
    found = [await one() for one in work]
    return Acted(tuple(result for acted in found for result in acted.results))


def undo(app: FlagplotApp, _: Sequence[str] = ()) -> None:
    """`:undo`: take back the last action that can be, after asking."""
    if not app.undos:
        app.say(tr("Nothing to undo; holds, releases, drains, resumes and edits of this session can be"))
        return
    at, last = app.undos[-1]

    def go(yes: bool | None) -> None:
        if yes and app.undos and app.undos[-1] == (at, last):
            app.undos.pop()
            app.perform(" ; ".join(last.lines), last.call(), success=tr("Undone: {what}").format(what=last.done))

    ago = f"{last.done}, {about(max(0, app.now() - at))} ago"
    app.push_screen(ConfirmDialog("Undo this?", [ago, *(f"$ {line}" for line in last.lines)], yes=tr("Yes, undo")), go)
