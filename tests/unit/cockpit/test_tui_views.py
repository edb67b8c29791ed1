"""Columns and saved views of the queue, driven by keys."""

from __future__ import annotations

from support import sample_cluster as sample
from textual.pilot import Pilot

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.columns import ColumnsDialog
from flagplot.tui.screens.queue import QueueView
from flagplot.view.queue import COLUMNS
from flagplot_wire.events import Event, JobsForgotten
from flagplot_wire.ids import JobNumber
from flagplot_wire.replies import EventsPushed


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


async def test_zero_takes_the_columns_that_fit() -> None:
    app = make()
    async with app.run_test(size=(80, 24)) as pilot:
        queue = await queue_of(app, pilot)
        fitting = [column.key for column, _ in queue.table.columns]
        await keys(pilot, "c", "J", "space", "0")
        assert isinstance(app.screen, ColumnsDialog) and "[x]" in str(app.screen.body())
        boxes = [line for line in str(app.screen.body()).splitlines() if "[x]" in line]
        assert len(boxes) == len(fitting) < len(COLUMNS)
        await keys(pilot, "enter")
        assert queue.spec.columns == () and [column.key for column, _ in queue.table.columns] == fitting


async def test_no_shell_in_the_neighbour_of_a_job_that_went() -> None:
    app = make()
    async with app.run_test(size=(80, 24)) as pilot:
        queue = await queue_of(app, pilot)
        gone = queue.table.cursor_key
        assert gone is not None
        app.mirror.take(EventsPushed((Event(app.mirror.seq + 1, sample.NOW, JobsForgotten((JobNumber(gone),))),)))
        app.show_now()
        await keys(pilot, "s")
        assert [note.message for note in app._notifications][-1].startswith("The job under the cursor is gone")
        await keys(pilot, "s")
        assert [note.message for note in app._notifications][-1] == "Not connected to the controller"
