"""Every key that the hints and the help of a view or a dialog name does something, on the sample cluster.

Each key is pressed in a cockpit which stands where the key has something to do: one of its own, or the one of the key
before where Esc leads back to exactly what was there. What counts is what a person could tell: the screen, what has the
keyboard, what was asked of the controller, whether it ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import sample_cluster as sample
from textual import _wait
from textual.app import App
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.help import help_rows
from flagplot_wire import requests

BACKGROUND = (
    requests.Explain, requests.ReadOutput, requests.GetScript, requests.GetEvents, requests.Estimate,
    requests.GetUsage, requests.GetFairshare, requests.GetStatus, requests.GetSteps,
)  # fmt: skip
"""What a page asks by itself."""


@dataclass(frozen=True)
class Place:
    """A view or dialog: the keys that lead there, and what some of its keys need first.

    `idle` are keys that rightly do nothing here, such as the one that leads to where one is already.
    """

    keys: tuple[str, ...] = ()
    first: dict[str, tuple[str, ...]] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()


DOWN = dict.fromkeys(("up", "k", "home", "g", "pageup", "ctrl+u", "ctrl+b"), ("down", "down"))
"""Ways up, which need to be below the top."""
COMMAND = (*("shift+tab",) * 9, *"true")
"""From the first field of the submit form to its command."""
SENDING = dict.fromkeys(("f2", "ctrl+s", "f5", "ctrl+enter"), COMMAND)
PLACES: dict[str, Place] = {
    "queue": Place(
        ("down", "down"), {"escape": ("space",), "x": ("slash", *"sweep", "enter")}, frozenset({"1", "ctrl+r"})
    ),
    "nodes": Place(("2", "down", "right"), {"0": ("minus",)}),
    "nodes-table": Place(("2", "t", "down", "down")),
    "gpus": Place(("3", "down", "down")),
    "timeline": Place(("4", "down", "down"), {"0": ("right",)}),
    "events": Place(("5", "down", "down")),
    "usage": Place(("6", "down", "down")),
    "usage-used": Place(("6", "tab", "down", "down"), {"right": ("left",)}),
    "pulse": Place(("7", "down", "right")),
    "job-detail": Place(("enter",), DOWN, frozenset({"d", "ctrl+r"})),
    "job-why": Place(("p",), DOWN, frozenset({"p"})),
    "job-output": Place(
        ("l", "k", "k"),
        {"right": ("w",), "left": ("w", "right"), "n": ("slash", *"loss", "enter"), "N": ("slash", *"loss", "enter")},
        frozenset({"l"}),
    ),
    "job-script": Place(("y",), DOWN, frozenset({"y"})),
    "job-usage": Place(("enter", "i"), DOWN, frozenset({"i"})),
    "job-depends": Place(("slash", *"after-41", "enter", "enter", "D", "down"), {}, frozenset({"D"})),
    "job-steps": Place(("enter", "S"), {}, frozenset({"S"})),
    "job-history": Place(("enter", "H"), {}, frozenset({"H"})),
    "node-jobs": Place(("2", "slash", *"gpu04", "enter", "enter", "down"), {}, frozenset({"ctrl+r"})),
    "node-text": Place(("2", "enter", "tab"), DOWN),
    "node-wiring": Place(("2", "slash", *"gpu04", "enter", "enter", "w")),
    "submit": Place(("n",), {**SENDING, "f8": (*"name",)}),
    "submit-start": Place(("n", "f4"), DOWN),
    "edit": Place(("e",)),
    "confirm": Place(("ctrl+d",)),
    "columns": Place(("c", "down"), {"0": ("space",)}),
    "failure": Place(("colon", *"job 999", "enter")),
    "help": Place(("question_mark",), DOWN),
    "command-log": Place(("h", "at")),
    "drain": Place(("2", "D")),
    "reserve": Place(("2", "a")),
    "command": Place(("colon",), {"up": (*"log", "enter", "escape", "colon"), "tab": (*"dr",)}),
    "filter": Place(("slash",), {}, frozenset({"up", "tab"})),
    "pick-file": Place(("n", "f3")),
}
ANSWER_S = 0.5
"""For so long a key is waited for before it counts as dead, and so long a place must stand still."""
BETWEEN_KEYS_S = 0.004
"""How long the process must be idle between the keys that lead somewhere (Textual's own pace is five times as long)."""
EVERYWHERE = ("queue", "job-detail", "node-jobs")
"""Where the app's own keys are pressed too; they are the same in every view."""


@pytest.fixture(autouse=True)
def fixed_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "FLAGPLOT_CONFINED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    work = tmp_path / "above" / "work"
    work.mkdir(parents=True)
    for number in range(3):
        (work / f"train{number}.sh").write_text("#!/bin/sh\ntrue\n")
    monkeypatch.chdir(work)


@contextmanager
def quickly() -> Iterator[None]:
    """Textual waits shorter for a process that is idle."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(_wait, "SLEEP_GRANULARITY", BETWEEN_KEYS_S)
        changed.setattr(_wait, "SLEEP_IDLE", BETWEEN_KEYS_S / 20)
        yield


class Visit:
    """A cockpit at a place."""

    def __init__(self, app: FlagplotApp, pilot: Pilot[int], channel: object) -> None:
        self.app, self.pilot, self.channel = app, pilot, channel

    async def settle(self) -> None:
        """Wait until nothing is left to load or draw."""
        for _ in range(100):
            await self.pilot.pause()
            if not any(worker.is_running for worker in self.app.workers) and self.app.active_view is not None:
                break
        for kind in (Input, TextArea):
            for box in self.app.screen.query(kind):
                box.cursor_blink = False
        if self.app.is_running:
            self.app.show_now()
            await self.pilot.pause()

    async def go(self, *keys: str) -> None:
        """Press keys one after the other, each as soon as the one before has done its work; then wait properly."""
        with quickly():
            await self.settle()
            for key in keys:
                await self.pilot.press(key)
                if len(key) > 1 or key.isdigit():
                    await self.settle()
        await self.settle()

    async def differs(self, before: object) -> bool:
        """True as soon as a person could tell a difference; false after `ANSWER_S` without one."""
        deadline = time.monotonic() + ANSWER_S
        while self.seen() == before:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.01)
            await self.settle()
        return True

    async def is_back(self, before: object, asked: list[object]) -> bool:
        """Press Esc and forget what was asked since; true where all is as it was."""
        if not self.app.is_running or self.app._exit:
            return False
        await self.go("escape")
        self.app.clear_notifications()
        self.channel.asked[:] = asked  # type: ignore[attr-defined]
        return self.seen() == before

    def seen(self) -> object:
        """All that a person could tell."""
        app = self.app
        lines = [
            [(segment.text, str(segment.style)) for segment in strip]
            for strip in app.screen._compositor.render_strips()[: app.size.height]
        ]
        asked = [one for one in self.channel.asked if not isinstance(one, BACKGROUND)]  # type: ignore[attr-defined]
        screens = [type(one).__name__ for one in app.screen_stack]
        return lines, screens, id(app.focused), asked, len(app._notifications), app._exit, app.clipboard


def keys_here(app: App[int], everywhere: bool) -> list[str]:
    """The keys that help lists here; where there is none (dialogs, the prompt) those that we bind ourselves."""
    if len(app.screen_stack) > 1 or isinstance(app.focused, Input):
        start = app.focused or app.screen
        within = [node for node in start.ancestors_with_self if node is not app]
        return sorted({key for node in within for kind in type(node).__mro__ for key in keys_of(kind)})
    bindings = app.screen.active_bindings
    return [key for key, one in bindings.items() if help_rows([one]) and (everywhere or one.node is not app)]


def keys_of(kind: type) -> set[str]:
    """The keys that a class of ours binds itself."""
    own = kind.__dict__.get("BINDINGS", ()) if kind.__module__.startswith("flagplot.") else ()
    return {key.strip() for binding in own if isinstance(binding, Binding) for key in binding.key.split(",")}


@asynccontextmanager
async def visiting(place: Place, key: str = "") -> AsyncIterator[Visit]:
    """A cockpit that stands at a place, where `key` has something to do."""
    mirror = sample.sample_mirror()
    calls, channel = sample.sample_calls(mirror)
    app = FlagplotApp(mirror=mirror, calls=calls, clock=lambda: int(sample.NOW), theme="dark")
    async with app.run_test(size=(80, 24)) as pilot:
        app.animation_level = "none"
        visit = Visit(app, pilot, channel)
        await visit.go(*place.keys, *place.first.get(key, ()))
        yield visit


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", PLACES)
async def test_every_key_does_something(name: str) -> None:
    place = PLACES[name]
    async with visiting(place) as visit:
        keys = keys_here(visit.app, everywhere=name in EVERYWHERE)
        assert not await visit.differs(visit.seen()), "the screen does not stand still"
    assert keys
    assert sorted(await dead_keys(place, keys)) == sorted(place.idle)


async def dead_keys(place: Place, keys: list[str]) -> list[str]:
    """Those that do nothing."""
    dead = []
    left = sorted(keys, key=lambda key: place.first.get(key, ()))
    while left:
        first = place.first.get(left[0], ())
        async with visiting(place, left[0]) as visit:
            before, asked = visit.seen(), list(visit.channel.asked)  # type: ignore[attr-defined]
            while left and place.first.get(left[0], ()) == first:
                key = left.pop(0)
                with quickly():
                    await visit.pilot.press(key)
                if not await visit.differs(before):
                    dead.append(key)
                elif not await visit.is_back(before, asked):
                    break
    return dead
