"""The right job is hit, however the list moves while a person presses keys, and no key breaks the cockpit."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator

import msgspec
import pytest
from support import sample_cluster as sample
from textual import events
from textual.pilot import Pilot

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.confirm import ConfirmDialog
from flagplot.tui.screens.queue import QueueView
from flagplot.view.queue import job_target
from flagplot_wire import events as ev
from flagplot_wire import requests
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import State
from flagplot_wire.replies import EventsPushed

SEED = int(os.environ.get("FLAGPLOT_SEED", random.randrange(1 << 30)))
FUZZ_S = float(os.environ.get("FLAGPLOT_FUZZ_S", "12"))
"""Seconds of random keys; `FLAGPLOT_FUZZ_S=600 pytest tests/integration/test_right_job.py` for minutes."""
KEYS = (
    *(
        "j",
        "k",
        "space",
        "v",
        "escape",
        "enter",
        "tab",
        "shift+down",
        "pagedown",
        "G",
        "g",
        "ctrl+a",
        "o",
        "r",
        "z",
        "a",
    ),
    *(
        "h",
        "u",
        "ctrl+d",
        "ctrl+k",
        "R",
        "e",
        "y",
        "n",
        "slash",
        "colon",
        "question_mark",
        "at",
        "1",
        "2",
        "3",
        "4",
        "5",
    ),
    *("left", "right", "up", "down", "backspace", "m", "t", "x", "[", "]", "0", "plus", "minus", "f2", "ctrl+r", "D"),
    *("l", "p", "d", "w", "漢", "é", "é", "i", "c", "b", "f", "s", "delete", "home", "end", "ctrl+u", "ctrl+p"),
)


@pytest.fixture(autouse=True)
def fixed_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(str(tmp_path))
    yield


class World:
    """A cockpit whose cluster moves."""

    def __init__(self, seed: int) -> None:
        print(f"FLAGPLOT_SEED={seed}")
        self.dice = random.Random(seed)
        self.mirror = sample.sample_mirror()
        calls, self.channel = sample.sample_calls(self.mirror)
        self.app = FlagplotApp(mirror=self.mirror, calls=calls, clock=lambda: int(sample.NOW), theme="dark")

    def event(self, body: ev.Body) -> None:
        """One event arrives."""
        self.mirror.take(EventsPushed((ev.Event(self.mirror.seq + 1, int(sample.NOW), body),)))

    def stir(self) -> None:
        """Jobs start, end, are forgotten and come (again)."""
        number = self.dice.choice(list(self.mirror.jobs))
        status = self.mirror.jobs[number].status
        match self.dice.randrange(4):
            case 0:
                self.event(ev.JobsForgotten((number,)))
            case 1:
                self.event(ev.JobAdded(self.dice.choice(sample.sample_jobs())))
            case _:
                state = self.dice.choice((State.PENDING, State.RUNNING, State.COMPLETED, State.FAILED))
                changed = msgspec.structs.replace(status, state=state, priority=self.dice.randrange(10_000))
                self.event(ev.JobChanged(number, changed, "changed"))

    def drawn(self) -> str:
        """The id on the cursor's line, as the screen has it."""
        app = self.app
        table = app.screen_stack[0].query_one(QueueView).table
        over = app.role("cursor" if table.has_focus else "cursor-blurred")
        region = table.region
        for strip in app.screen_stack[0]._compositor.render_strips()[region.y + 1 : region.bottom]:
            segments = [one for one in strip if one.text.strip(" ▌")]
            if segments and segments[0].style is not None and segments[0].style.bgcolor == over.bgcolor:
                return segments[0].text.split()[0].strip("▌")
        return ""

    def acted(self) -> list[tuple[str, ...]]:
        """The jobs of every action that was sent."""
        return [one.jobs for one in self.channel.asked if isinstance(one, requests.Act | requests.Update)]

    def named(self, target: str) -> str:
        """A target as the list shows it, without an array's waiting indices."""
        return re.sub(r"_\[.*", "", target).rstrip("…")


async def settle(pilot: Pilot[int]) -> None:
    """Wait until nothing is left to do."""
    for _ in range(3):
        await pilot.pause()


@pytest.mark.parametrize("key", ["ctrl+d", "h"])
@pytest.mark.parametrize("shown_first", [True, False], ids=["shown", "not-yet-shown"])
async def test_the_list_moves_while_the_key_is_pressed(key: str, shown_first: bool) -> None:
    """Whether the move has reached the screen or not, the job that was under the cursor is the one that is hit."""
    world = World(SEED)
    app, dice = world.app, world.dice
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("slash", *"state:pd", "enter", *["j"] * dice.randrange(1, 5))
        await settle(pilot)
        table = app.screen_stack[0].query_one(QueueView).table
        wanted = table.cursor_key
        assert wanted is not None
        drawn = world.drawn()
        shown = job_target(world.mirror.jobs[JobNumber(wanted)])
        assert drawn and world.named(drawn) == shown
        for other in list(table.keys):
            if other != wanted:
                job = world.mirror.jobs[JobNumber(other)]
                status = msgspec.structs.replace(job.status, priority=dice.randrange(1_000_000))
                world.event(ev.JobChanged(job.number, status, "moved"))
        if shown_first:
            app.show_now()
        await pilot.press(key)
        await settle(pilot)
        if key == "ctrl+d":
            assert isinstance(app.screen, ConfirmDialog)
            app.show_now()
            await pilot.press("y")
        await settle(pilot)
        assert world.acted() == [(shown,)]


async def test_no_other_job_is_hit_when_the_one_under_the_cursor_goes() -> None:
    """A job ends and is forgotten as the key comes down: its neighbour under the cursor needs a second press."""
    world = World(SEED)
    app = world.app
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("j", "j")
        table = app.screen_stack[0].query_one(QueueView).table
        before = table.cursor_key
        assert before is not None
        world.event(ev.JobsForgotten((JobNumber(before),)))
        app.show_now()
        await pilot.press("ctrl+d")
        await settle(pilot)
        assert not isinstance(app.screen, ConfirmDialog)
        await pilot.press("ctrl+d")
        await settle(pilot)
        assert isinstance(app.screen, ConfirmDialog)
        await pilot.press("y")
        await settle(pilot)
        neighbour = table.cursor_key
        assert neighbour is not None and neighbour != before
        assert world.acted() == [(job_target(world.mirror.jobs[JobNumber(neighbour)]),)]


@pytest.mark.slow
async def test_random_keys_neither_crash_nor_hit_another_job() -> None:
    """Each action that is sent names what was marked, or else under the cursor, on the screen before the key."""
    world = World(SEED)
    app, dice = world.app, world.dice
    until, pressed = time.monotonic() + FUZZ_S, 0
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        asked: tuple[str, ...] | None = None
        while time.monotonic() < until or pressed <= 50:
            if dice.random() < 0.3:
                world.stir()
            if dice.random() < 0.2:
                app.show_now()
            view = app.active_view
            in_queue = isinstance(view, QueueView) and len(app.screen_stack) == 1
            if isinstance(app.screen, ConfirmDialog):
                targets = tuple(app.screen._targets)
                asked = tuple(line.split()[0] for line in targets)
            elif in_queue and isinstance(view, QueueView):
                marked = view.table.marks or ({view.table.cursor_key} if view.table.cursor_key is not None else set())
                jobs = world.mirror.jobs
                asked = tuple(job_target(jobs[JobNumber(one)]) for one in marked if JobNumber(one) in jobs)
            else:
                asked = None
            before = len(world.acted())
            key = dice.choice(KEYS)
            await pilot.press(key)
            pressed += 1
            await settle(pilot)
            fresh = world.acted()[before:]
            if asked is not None and fresh:
                assert [sorted(one) for one in fresh] == [sorted(asked)], (key, pressed)
            if len(app.screen_stack) > 4:
                await pilot.press("escape", "escape")
    print(f"{pressed} keys")
    assert app.return_code in (0, None) and app._exception is None
    assert pressed > 50


async def test_what_is_typed_right_behind_the_slash_is_the_filter() -> None:
    """A fast typist is not answered by the queue's keys (`e` edits, `d` describes, `h` holds)."""
    world = World(SEED)
    app = world.app
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        for key in ("slash", *"held:pd", "enter"):
            app.post_message(events.Key(key, key if len(key) == 1 else "/" if key == "slash" else None))
        view = app.active_view
        for _ in range(100):
            await settle(pilot)
            if isinstance(view, QueueView) and view.filter_text:
                break
        assert isinstance(view, QueueView) and len(app.screen_stack) == 1
        assert view.filter_text == "held:pd" and world.acted() == []
