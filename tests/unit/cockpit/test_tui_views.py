"""Columns and saved views of the queue, driven by keys."""

from __future__ import annotations

from support import sample_cluster as sample
from textual.pilot import Pilot

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.queue import QueueView


def make() -> FlagplotApp:
    mirror = sample.sample_mirror()
    calls, _ = sample.sample_calls(mirror)
    return FlagplotApp(mirror=mirror, calls=calls, clock=lambda: sample.NOW)


async def queue_of(app: FlagplotApp, pilot: Pilot[object]) -> QueueView:
    for _ in range(200):
        await pilot.pause(0.02)
        if app.active_view is not None and app.screen_stack[0].query_one(QueueView).table.keys:
            return app.screen_stack[0].query_one(QueueView)
    raise AssertionError("the queue never came")


async def keys(pilot: Pilot[object], *names: str) -> None:
    await pilot.press(*names)
    await pilot.pause()
    await pilot.pause()


async def test_views_and_columns_are_there_again_in_the_next_cockpit() -> None:
    app = make()
    async with app.run_test(size=(120, 40)) as pilot:
        queue = await queue_of(app, pilot)
        await keys(pilot, "slash", *"user:", "enter")
        await keys(pilot, "slash", *"bob", "enter")
        assert queue.spec.filter == "user:bob", "what is typed goes on with the filter in force"
        await keys(pilot, "colon", *"save bobs", "enter")
        await keys(pilot, "escape")
        await keys(pilot, "c")
        await keys(pilot, "down", "down", "space", "enter")
        assert queue.spec.columns[:3] == ("id", "partition", "user")
    app = make()
    async with app.run_test(size=(120, 40)) as pilot:
        queue = await queue_of(app, pilot)
        assert queue.spec.filter == "" and "name" not in queue.spec.columns
        await keys(pilot, "V")
        assert queue.spec.filter == "user:bob" and queue.spec.columns == ()
        await keys(pilot, "V")
        assert queue.spec.filter == "" and queue.spec.columns[0] == "id"
        await keys(pilot, "colon", *"view bobs", "enter")
        assert queue.spec.filter == "user:bob"
