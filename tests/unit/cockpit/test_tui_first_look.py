"""What someone meets who has only just opened the cockpit: where the cursor stands, what lies over what."""

from __future__ import annotations

import msgspec
import pytest
from support import sample_cluster as sample
from textual.widgets._toast import Toast
from unit.cockpit.test_tui_queue import make, ready, screen_text, until

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.confirm import ConfirmDialog
from flagplot.tui.screens.help import HelpScreen
from flagplot.tui.screens.nodes import NodesView
from flagplot.tui.widgets.topline import TopLine
from flagplot.tui.widgets.virtual_table import fit_reason
from flagplot_wire.events import Event, JobChanged
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import State
from flagplot_wire.replies import EventsPushed


def end(app: FlagplotApp, number: int) -> None:
    """The job ends: the queue lists it behind all that have not."""
    status = msgspec.structs.replace(
        app.mirror.jobs[JobNumber(number)].status, state=State.COMPLETED, end_time=sample.NOW
    )
    app.mirror.take(
        EventsPushed((Event(app.mirror.seq + 1, sample.NOW, JobChanged(JobNumber(number), status, "ended")),))
    )
    app.show_now()


async def test_a_list_that_was_only_opened_stays_at_its_beginning() -> None:
    app, channel = make()
    async with app.run_test(size=(80, 16)) as pilot:
        rows = await ready(app, pilot)
        first = rows.cursor_key
        assert first is not None
        end(app, first)
        assert rows.keys.index(first) > 14, "the job left the first page"
        assert rows.cursor_key == rows.keys[0] != first and rows._top == 0
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert not isinstance(app.screen, ConfirmDialog) and channel.asked == []  # type: ignore[attr-defined]
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert f"Cancel job {rows.keys[0]}?" in screen_text(app)


async def test_a_cursor_that_was_placed_follows_its_job() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 16)) as pilot:
        rows = await ready(app, pilot)
        await pilot.press("down", "up")
        first = rows.cursor_key
        assert first is not None
        end(app, first)
        assert rows.cursor_key == first and rows._top > 0


async def test_the_first_match_is_under_the_cursor() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        rows = await ready(app, pilot)
        await pilot.press("G", "slash", *"state:r", "enter")
        await until(
            pilot, lambda: all(app.mirror.jobs[JobNumber(key)].status.state is State.RUNNING for key in rows.keys)
        )
        assert rows.cursor_key == rows.keys[0]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("(Resources) in 2 h", 18, "(Resources) in 2 h"),
        ("(Resources) in 2 h", 20, "(Resources) in 2 h  "),
        ("(Resources,Priority) in 59 min", 27, "(Resources,Prio…) in 59 min"),
        ("(Resources) in 19 min", 17, "(Reso…) in 19 min"),
        ("(Resources) in 3 h 59 min", 17, "(Resources) in 3…"),
        ("(never: no node has 16 h100)", 12, "(never: no …"),
        ("gpu[01-06,09,11]", 12, "gpu[01-06,0…"),
    ],
)
def test_where_a_reason_is_cut_its_time_stays(text: str, width: int, expected: str) -> None:
    assert fit_reason(text, width) == expected


async def test_folding_stays_with_the_array() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 40)) as pilot:
        rows = await ready(app, pilot)
        await pilot.press("z")
        element = next(key for key in rows.keys if app.mirror.jobs[JobNumber(key)].array_index is not None)
        rows.move_to(element)
        await pilot.press("z")
        assert rows.cursor_key == app.mirror.jobs[JobNumber(element)].array_number


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_a_notice_hides_one_line_and_no_line_of_state(size: tuple[int, int]) -> None:
    app, _ = make()
    async with app.run_test(size=size, notifications=True) as pilot:
        await ready(app, pilot)
        app.say("Job 41 COMPLETED: eval after 0:35")
        await until(pilot, lambda: app.screen.query(Toast))
        await pilot.pause()
        region = app.screen.query_one(Toast).region
        assert (region.y, region.height) == (1, 1) and region.right == size[0]
        assert "live" in screen_text(app).splitlines()[0]


async def test_no_title_of_a_view_is_cut() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await pilot.press("2")
        for width in range(72, 100):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            assert "…" not in app.query_one(TopLine).second().plain, width


async def test_a_zoom_that_goes_no_further_says_so() -> None:
    app, _ = make()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await ready(app, pilot)
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.active_view, NodesView))
        await pilot.press("plus", "plus", "plus")
        await until(pilot, lambda: "as large as they get" in screen_text(app))
        await pilot.press("4", "minus", *["minus"] * 12)
        await until(pilot, lambda: "as wide as it gets" in screen_text(app))


async def test_keys_are_written_as_on_the_keyboard() -> None:
    app, _ = make()
    async with app.run_test(size=(120, 60)) as pilot:
        await ready(app, pilot)
        for view in "1234567":
            await pilot.press(view, "question_mark")
            await until(pilot, lambda: isinstance(app.screen, HelpScreen))
            keys = [word for _, words, _ in app.screen._rows for word in words.split()]  # type: ignore[attr-defined]
            assert [one for one in keys if "_" in one and len(one) > 1] == []
            await pilot.press("escape")


async def test_the_cursor_goes_to_a_job_just_submitted_unless_it_was_moved() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        rows = await ready(app, pilot)
        wanted = rows.keys[7]
        app.await_job(JobNumber(wanted))
        app.show_now()
        assert rows.cursor_key == wanted
        app.await_job(JobNumber(99_999))
        app.show_now()
        assert rows.cursor_key == wanted
        await pilot.press("down")
        below = rows.cursor_key
        job = app.mirror.jobs[JobNumber(wanted)]
        app.mirror.jobs[JobNumber(99_999)] = msgspec.structs.replace(job, number=JobNumber(99_999))
        app.show_now()
        assert rows.cursor_key == below
