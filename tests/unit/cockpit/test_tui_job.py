"""The job page and the edit form, driven by keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import sample_cluster as sample
from textual.pilot import Pilot
from textual.selection import SELECT_ALL
from textual.widgets import Input, Static

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.confirm import ConfirmDialog, Popup
from flagplot.tui.screens.edit import EditScreen
from flagplot.tui.screens.job import JobView
from flagplot.tui.widgets.log_view import KEEP_BYTES, LogView, log_line, looks_binary, wrap_cells
from flagplot.tui.widgets.text_pane import TextPane
from flagplot_wire import replies, requests
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber


def make(**options: object) -> tuple[FlagplotApp, Any]:
    mirror = sample.sample_mirror()
    calls, channel = sample.sample_calls(mirror)
    return FlagplotApp(mirror=mirror, calls=calls, clock=lambda: sample.NOW, **options), channel  # type: ignore[arg-type]


async def until(pilot: Pilot[Any], condition: Callable[[], object]) -> None:
    for _ in range(250):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("the condition never came true")


async def open_page(app: FlagplotApp, pilot: Pilot[Any], number: int, tab: str = "") -> JobView:
    await until(pilot, lambda: app.trail)
    app.open_job(JobNumber(number), tab)
    await until(pilot, lambda: isinstance(app.active_view, JobView) and app.active_view.has_class("-active"))
    view = app.active_view
    assert isinstance(view, JobView)
    await pilot.pause()
    return view


def pane(view: JobView, name: str) -> str:
    return view.query_one(f"#{name}", TextPane).plain


async def test_enter_opens_and_escape_goes_back() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.active_view is not None)
        await pilot.pause(0.3)
        await pilot.press("enter")
        await until(pilot, lambda: app.trail == ["queue", "job-40"])
        await until(pilot, lambda: app.crumbs == ["Queue", "job 40"])
        await pilot.press("escape")
        await until(pilot, lambda: app.trail == ["queue"])


async def test_tabs_show_detail_why_script_usage() -> None:
    app, channel = make()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await open_page(app, pilot, 55)
        assert "4 nodes" in pane(view, "detail")
        await pilot.press("p")
        await until(pilot, lambda: "llama-pretrain" in pane(view, "why"))
        assert any(isinstance(one, requests.Explain) for one in channel.asked)
        await pilot.press("y")
        await until(pilot, lambda: "#SBATCH -J x[/red]" in pane(view, "script"))
        await pilot.press("i")
        await until(pilot, lambda: "does not run" in pane(view, "usage"))
        await pilot.press("right_square_bracket")
        assert view.tab == "detail"


async def test_script_of_another_is_refused_in_words() -> None:
    app, channel = make()
    channel.answers[requests.GetScript] = Refused("not_permitted", "the script is bob's")
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "script")
        await until(pilot, lambda: "the script is bob's" in pane(view, "script"))


async def test_output_is_followed_from_the_end() -> None:
    app, channel = make()
    channel.output = b"x" * 99 + b"\n"
    channel.output *= 10_000
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: view.log.end == 1_000_000)
        assert channel.asked[0].offset == -65_536 and view.log.start == 1_000_000 - 65_536
        channel.output += b"the newest line\n"
        await until(pilot, lambda: "the newest line" in view.log.plain)
        assert view.log._rows[view.log._top : view.log._top + view.log.size.height][-1] == "the newest line"
        await pilot.press("k")
        assert not view.log.following
        channel.output += b"even newer\n"
        await until(pilot, lambda: "even newer" in view.log.plain)
        assert view.log._rows[view.log._top + view.log.size.height - 1] != "even newer"
        await pilot.press("g", "g")
        await until(pilot, lambda: view.log.start == 1_000_000 - 2 * 65_536)
        await pilot.press("f")
        assert view.log.following


async def test_output_is_polled_only_while_shown() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: channel.asked)
        await pilot.press("d")
        await until(pilot, lambda: view.tab == "detail" and not view._reading)
        asked = len(channel.asked)
        await pilot.pause(1.3)
        assert len(channel.asked) == asked


async def test_matches_go_round() -> None:
    app, channel = make()
    channel.output = b"".join(b"%d %s\n" % (line, b"found" if line in (3, 50, 150) else b"-") for line in range(200))
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: "199 -" in view.log.plain)
        await pilot.press("slash", *"found", "enter")
        seen = [view.log._rows[view.log._top]]
        for key in "nnnNN":
            await pilot.press(key)
            seen.append(view.log._rows[view.log._top])
        assert [line.split()[0] for line in seen] == ["150", "3", "50", "150", "50", "3"]


async def test_lines_move_sideways_only_while_they_do_not_wrap() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: "step 199" in view.log.plain)
        assert "right" not in app.screen.active_bindings
        await pilot.press("right", "w", "right")
        assert view.log._left == 16
        assert "not wrapped" in str(view.query_one("#log-state", Static).render())


@pytest.mark.parametrize(
    ("command", "tab"), [("why", "why"), ("logs", "output"), ("script", "script"), ("job", "detail")]
)
async def test_commands_open_the_tabs(command: str, tab: str) -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.trail)
        await pilot.press("colon", *command, "space", *"61", "enter")
        await until(pilot, lambda: isinstance(app.active_view, JobView))
        view = app.active_view
        assert isinstance(view, JobView) and (view.number, view.tab) == (61, tab)


async def test_interrupt_copies_what_the_mouse_has_selected() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "script")
        await until(pilot, lambda: "train.py" in pane(view, "script"))
        assert "super+c" not in app.screen.active_bindings
        app.screen.selections = {view.query_one("#script", TextPane).query_one(Static): SELECT_ALL}
        assert "super+c" in app.screen.active_bindings
        await pilot.press("ctrl+c")
        assert app.is_running and "srun python train.py" in app.clipboard
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)


async def test_output_search_streams_and_truncation() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: "step 199" in view.log.plain)
        await pilot.press("slash", *"step", "space", *"42", "enter")
        await until(pilot, lambda: view.log.search == "step 42")
        assert view.log._rows[view.log._top].startswith("step 42")
        await pilot.press("escape")
        assert view.log.search == ""
        await pilot.press("t")
        await until(pilot, lambda: channel.asked[-1].stream == "stderr")
        channel.output = b"anew\n"
        await until(pilot, lambda: view.log.plain == "anew")


async def test_output_that_cannot_be_read_says_why() -> None:
    app, channel = make()
    channel.answers[requests.ReadOutput] = Refused("unavailable", "gpu03 does not answer")
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: "gpu03 does not answer" in str(view.query_one("#log-state").render()))


def test_log_lines_are_made_safe() -> None:
    assert log_line(b"50%\r100%\r") == "100%"
    assert log_line(b"\x1b[31mred\x1b[0m") == "red"
    assert "\x1b" not in log_line(b"\x1b]52;c;AAAA\x07") and "\x9b" not in log_line("\x9b31m".encode())
    assert log_line(b"a\tb") == "a       b"
    assert looks_binary(bytes(range(256))) and not looks_binary("日本語\n".encode() * 50)
    assert wrap_cells("日本語abc", 4) == ["日本", "語ab", "c"]


async def test_a_binary_log_is_shown_safely() -> None:
    app, channel = make()
    channel.output = bytes(range(256)) * 400
    async with app.run_test(size=(80, 24)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: view.log.binary and view.log.size_of_file)
        await pilot.pause(0.1)
        strips = app.screen._compositor.render_strips()
        assert all(char.isprintable() for strip in strips for char in strip.text)


async def test_a_log_keeps_a_bounded_part() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        view = await open_page(app, pilot, 41, "detail")
        log = view.query_one(LogView)
        piece = (b"y" * 63 + b"\n") * 1_024
        for at in range(0, 3 * KEEP_BYTES, len(piece)):
            log.take(at, piece, 10_000_000_000)
        assert log.end == 3 * KEEP_BYTES and log.end - log.start <= KEEP_BYTES
        assert len(log._lines) == (log.end - log.start) // 64 - 1


async def test_keys_act_on_the_job_and_elements_are_named() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        await open_page(app, pilot, 53)
        await pilot.press("ctrl+k")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: requests.Act("cancel", ("50_2",)) in channel.asked)
        await open_page(app, pilot, 57)
        await pilot.press("u")
        await until(pilot, lambda: requests.Act("release", ("57",)) in channel.asked)
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))


async def test_a_forgotten_job_stays_readable() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 64)
        app.mirror.take(replies.ForecastsPushed())
        del app.mirror.jobs[JobNumber(64)]
        app.show_now()
        await pilot.pause()
        assert "completed" in pane(view, "detail")


async def test_edit_sends_only_what_changed() -> None:
    app, channel = make()
    async with app.run_test(size=(80, 24)) as pilot:
        await open_page(app, pilot, 55)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, EditScreen))
        box = app.screen.query_one("#edit-time_limit", Input)
        assert box.value == "1-00:00:00" and box.has_focus
        box.value = "2:00:00"
        await pilot.press("f2")
        await until(pilot, lambda: channel.asked and not isinstance(app.screen, EditScreen))
        assert requests.Update(("55",), time_limit="2:00:00") in channel.asked
        assert app.command_log[-1][1] == "flagplot update 55 --time=2:00:00"


async def test_editing_a_running_job_leaves_what_cannot_change() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        await open_page(app, pilot, 41)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, EditScreen))
        assert app.screen.query_one("#edit-partition", Input).disabled
        assert not app.screen.query_one("#edit-time_limit", Input).disabled


async def test_a_refused_edit_keeps_the_form() -> None:
    app, channel = make()
    channel.answers[requests.Update] = Refused("conflict", "55 has just started")
    async with app.run_test(size=(80, 24)) as pilot:
        await open_page(app, pilot, 55)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, EditScreen))
        app.screen.query_one("#edit-time_limit", Input).value = "soon"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        await pilot.press("escape")
        assert not channel.asked
        app.screen.query_one("#edit-time_limit", Input).value = "30"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        await pilot.press("escape")
        assert isinstance(app.screen, EditScreen)
        assert app.screen.query_one("#edit-time_limit", Input).value == "30"


async def test_several_at_once_share_the_time_limit() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.active_view is not None)
        await pilot.pause(0.3)
        await pilot.press("slash", *"user:mallory", "enter", "ctrl+a", "e")
        await until(pilot, lambda: isinstance(app.screen, EditScreen))
        app.screen.query_one("#edit-time_limit", Input).value = "30"
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert not channel.asked and app.screen.query_one("#no").has_focus
        shown = "\n".join(line.text for line in app.screen._compositor.render_strips())
        assert f"Change {len(sample.HOSTILE)} jobs?" in shown and "→ time limit 1-00:00:00 → 30:00" in shown
        await pilot.press("y")
        await until(pilot, lambda: channel.asked)
        assert channel.asked[0].time_limit == "30" and len(channel.asked[0].jobs) == len(sample.HOSTILE)
        await until(pilot, lambda: len(app.screen_stack) == 1)


async def test_a_bulk_edit_is_sent_to_those_it_changes() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.active_view is not None)
        await pilot.press("slash", *"user:bob", "enter", "ctrl+a", "e")
        await until(pilot, lambda: isinstance(app.screen, EditScreen))
        for name in ("nice", "priority"):
            assert not app.screen.query_one(f"#edit-{name}", Input).disabled
        app.screen.query_one("#edit-partition", Input).value = "debug"
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, EditScreen))
        assert not channel.asked
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: channel.asked)
        pending = [job for job in app.mirror.jobs.values() if job.user == "bob" and job.status.state == "PENDING"]
        assert pending and channel.asked[0].jobs == tuple(str(job.number) for job in pending)
        assert app.command_log[-1][1] == f"flagplot update {' '.join(channel.asked[0].jobs)} --partition=debug"
