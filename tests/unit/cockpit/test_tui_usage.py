"""The usage view, driven by keys."""

from __future__ import annotations

from support import sample_cluster as sample
from textual.pilot import Pilot

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.queue import QueueView
from flagplot.tui.screens.usage import UsageView
from flagplot.view.usage import week
from flagplot_wire.errors import Refused
from flagplot_wire.requests import GetUsage


async def opened(app: FlagplotApp, pilot: Pilot[int], *keys: str) -> UsageView:
    await press(app, pilot, "6")
    view = app.screen_stack[0].query_one(UsageView)
    await press(app, pilot, *keys)
    return view


async def press(app: FlagplotApp, pilot: Pilot[int], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        for _ in range(200):
            await pilot.pause()
            if app.active_view is not None and not any(worker.is_running for worker in app.workers):
                break


def make() -> tuple[FlagplotApp, sample.FakeChannel]:
    mirror = sample.sample_mirror()
    calls, channel = sample.sample_calls(mirror)
    return FlagplotApp(mirror=mirror, calls=calls, clock=lambda: int(sample.NOW)), channel


async def test_folds_follow_the_account_under_the_cursor() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        view = await opened(app, pilot, "down", "down", "down", "x")
        labels = ["".join(text for text, _ in view._branches[key].label) for key in view.table.keys]
        assert [label.strip() for label in labels][2:4] == ["▸ lattice", "▾ optics"]
        assert view.table.keys.index(view.table.cursor_key or 0) == 2, "the cursor went to the account of alice"
        await press(app, pilot, "x")
        assert len(view.table.keys) == 10
        await press(app, pilot, "z")
        assert len(view.table.keys) == 3
        await press(app, pilot, "z")
        assert len(view.table.keys) == 10


async def test_enter_shows_the_jobs_and_esc_leads_back() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        view = await opened(app, pilot, "down", "down", "down", "down", "enter")
        queue = app.active_view
        assert isinstance(queue, QueueView) and queue.filter_text == "user:bob account:lattice"
        assert app.trail == ["usage", "queue"]
        await press(app, pilot, "escape", "escape")
        assert app.active_view is view
        await press(app, pilot, "left_square_bracket", "down", "enter")
        assert queue.filter_text == "account:lattice"
        await press(app, pilot, "escape", "escape", "left_square_bracket", "enter")
        assert app.trail[-1] == "job-64"


async def test_other_weeks_are_asked_for() -> None:
    app, channel = make()
    async with app.run_test(size=(80, 24)) as pilot:
        view = await opened(app, pilot, "tab", "left", "left", "right", "b")
        asked = [(one.since, one.until) for one in channel.asked if isinstance(one, GetUsage)]
        assert asked == [week(sample.NOW, back) for back in (0, 1, 2, 1)]
        assert view.by_user and len(view.table.keys) == 5
        await press(app, pilot, "escape")
        assert view.back == 0


async def test_a_refusal_is_told_and_what_was_there_stays() -> None:
    app, channel = make()
    async with app.run_test(size=(80, 24)) as pilot:
        view = await opened(app, pilot, "tab")
        rows = list(view.table.keys)
        channel.answers[GetUsage] = Refused("unavailable", "the store is being\x1b[2J repaired")
        await press(app, pilot, "left")
        line = "".join(strip.text for strip in app.screen._compositor.render_strips()[-2:])
        assert "Not up to date: the store is being" in line and "\x1b" not in line
        assert view.table.keys == rows


async def test_all_panes_where_there_is_room_and_a_command_with_a_filter() -> None:
    app, _ = make()
    async with app.run_test(size=(200, 60)) as pilot:
        await press(app, pilot, "colon", *"usage erin", "enter")
        view = app.active_view
        assert isinstance(view, UsageView) and view.filter_text == "erin"
        assert [len(view.table_of(name).keys) for name in ("share", "used", "mine", "left")] == [3, 0, 0, 0]
        await press(app, pilot, "escape")
        assert all(view.table_of(name).size.height > 10 for name in ("share", "used", "mine", "left"))
