"""Ranges of marks that follow their jobs, and rows that changed, told for one cycle."""

from __future__ import annotations

import msgspec
from support import sample_cluster as sample
from unit.cockpit.test_tui_queue import ready, screen_text, until

from flagplot.tui.app import FlagplotApp
from flagplot.tui.widgets.virtual_table import CYCLE_S
from flagplot_wire.events import Event, JobAdded, JobSpecChanged
from flagplot_wire.ids import JobNumber
from flagplot_wire.replies import EventsPushed


def take(app: FlagplotApp, body: object) -> None:
    app.mirror.take(EventsPushed((Event(app.mirror.seq + 1, sample.NOW, body),)))  # type: ignore[arg-type]
    app.show_now()


async def test_a_range_is_of_the_jobs_that_stand_there_and_follows_them() -> None:
    mirror = sample.sample_mirror()
    app = FlagplotApp(mirror=mirror, calls=sample.sample_calls(mirror)[0], clock=lambda: sample.NOW)
    async with app.run_test(size=(100, 30)) as pilot:
        rows = await ready(app, pilot)
        await pilot.press("I", "space")
        first = next(iter(rows.marks))
        await pilot.press("down", "down")
        last = rows.cursor_key
        # A job comes above the cursor while the range is being chosen.
        take(app, JobAdded(sample.job(39, "zoe", "newcomer", sample.gpus(1), sample.pending(1, 1))))
        await until(pilot, lambda: 39 in rows.keys)
        assert rows.cursor_key == last
        await pilot.press("v")
        keys = list(rows.keys)
        wanted = set(keys[keys.index(first) : keys.index(last) + 1])
        assert rows.marks == wanted and len(wanted) == 4 and 39 not in wanted
        take(app, JobAdded(sample.job(38, "zoe", "another", sample.gpus(1), sample.pending(1, 1))))
        await pilot.press("r")
        await until(pilot, lambda: rows.reverse and 38 in rows.keys)
        assert rows.marks == wanted and rows.cursor_key == last


async def test_a_changed_row_is_marked_for_one_cycle() -> None:
    mirror, clock = sample.sample_mirror(), [sample.NOW]
    app = FlagplotApp(mirror=mirror, calls=sample.sample_calls(mirror)[0], clock=lambda: clock[0])
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        assert "▸" not in screen_text(app)
        job = mirror.jobs[JobNumber(41)]
        take(app, JobSpecChanged(job.number, msgspec.structs.replace(job.spec, name="renamed"), "changed"))
        await pilot.pause()
        (line,) = [line for line in screen_text(app).splitlines() if "▸" in line]
        assert line.startswith("▸41 ") and "renamed" in line
        clock[0] += CYCLE_S - 1
        app.show_now()
        await pilot.pause()
        assert "▸" in screen_text(app)
        clock[0] += 1
        app.show_now()
        await pilot.pause()
        assert "▸" not in screen_text(app) and "renamed" in screen_text(app)
