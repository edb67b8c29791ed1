"""The job page and the edit form, driven by keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from support import sample_cluster as sample
from textual.pilot import Pilot
from textual.selection import SELECT_ALL
from textual.widgets import Input, Static

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.confirm import ConfirmDialog, Popup
from flagplot.tui.screens.edit import EditScreen
from flagplot.tui.screens.job import JobView
from flagplot.tui.widgets.job_panes import ChartsPane, DependsTable, StepsPane
from flagplot.tui.widgets.log_view import KEEP_BYTES, LogView, log_line, looks_binary, wrap_cells
from flagplot.tui.widgets.text_pane import TextPane
from flagplot_wire import replies, requests
from flagplot_wire.errors import Refused
from flagplot_wire.events import Event, JobChanged
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import State, Used


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
        await pilot.press("S")
        await until(pilot, lambda: "has not started" in pane(view, "steps"))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: view.tab == "history" and "not tried yet" in pane(view, "history"))
        await pilot.press("right_square_bracket")
        assert view.tab == "detail"


async def test_charts_grow_with_samples_on_any_tab_and_stay_when_the_job_ends() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 40)) as pilot:
        view = await open_page(app, pilot, 41)
        sample_now = app.mirror.samples["gpu03"]
        for later in (5, 10):
            app.mirror.take(replies.SamplesPushed((replace(sample_now, time=sample_now.time + later),)))
            app.show_now()
        charts = view.query_one(ChartsPane)
        assert [one.time - sample.NOW for one in charts.history.points] == [-2, 3, 8]
        await pilot.press("i")
        await until(pilot, lambda: "the last 10 s, sampled every 5s" in pane(view, "usage"))
        job = app.mirror.jobs[JobNumber(41)]
        used = Used(3_600_000, 32_768, 360)
        ended = replace(job.status, state=State.COMPLETED, end_time=sample.NOW, used=used)
        app.mirror.take(replies.EventsPushed((Event(108, sample.NOW, JobChanged(job.number, ended, "ended")),)))
        app.show_now()
        await until(pilot, lambda: "90 % busy in the mean of 4 GPUs" in pane(view, "usage"))
        assert "the last 10 s" in pane(view, "usage")


async def test_dependencies_lead_to_other_jobs() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "depends")
        await until(pilot, lambda: view.query_one(DependsTable).keys)
        await pilot.press("enter")
        assert app.trail[-1] == "job-41", "the first row names no job"
        await pilot.press("G", "enter")
        await until(pilot, lambda: app.trail[-1] == "job-56")
        assert isinstance(app.active_view, JobView) and app.active_view.tab == "depends"
        await pilot.press("d")
        assert "enter" not in app.screen.active_bindings


async def test_steps_and_history_are_asked_for_and_refusals_are_told() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 40)) as pilot:
        view = await open_page(app, pilot, 40, "steps")
        await until(pilot, lambda: "ranks 8-15" in pane(view, "steps"))
        assert "torchrun train.py --lr [/]" in pane(view, "steps")
        channel.answers[requests.GetSteps] = Refused("unavailable", "not now")
        view.query_one(StepsPane)._asked = None
        app.show_now()
        await until(pilot, lambda: "Not up to date: not now" in pane(view, "steps"))
        assert "ranks 8-15" in pane(view, "steps")
        app.open_job(JobNumber(68), "history")
        await until(pilot, lambda: app.trail[-1] == "job-68")
        page = app.screen_stack[0].query_one("#view-job-68", JobView)
        await until(pilot, lambda: "used more than 64 GiB" in pane(page, "history"))
        assert pane(page, "history").startswith("Attempt 1 ▲ out of memory")


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
        await until(pilot, lambda: view.tab == "detail" and not view.pane.reading)
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


class Sparse:
    """A file of ten gibibytes with a word at its top and lines at its end, as the channel of the sample slices it."""

    SIZE = 10 << 30
    TOP, END = b"the NEEDLE\n", b"".join(b"step %d\n" % step for step in range(20_000))

    def __init__(self) -> None:
        self.given = 0

    def __len__(self) -> int:
        return self.SIZE

    def __getitem__(self, some: slice) -> bytes:
        start, stop, _ = some.indices(self.SIZE)
        tail = self.SIZE - len(self.END)
        parts = (self.TOP[start:stop], bytes(max(0, min(stop, tail) - max(start, len(self.TOP)))))
        self.given += stop - start
        return b"".join((*parts, self.END[max(0, start - tail) : max(0, stop - tail)]))

    def lower(self) -> Sparse:
        return self

    def rfind(self, words: bytes, low: int, high: int) -> int:
        at = self.END.rfind(words, 0, max(0, high - self.SIZE + len(self.END)))
        return at + self.SIZE - len(self.END) if at >= 0 else self.TOP.lower().rfind(words, low, high)


async def test_ten_gibibytes_open_at_their_end_and_are_searched_backwards_without_being_read() -> None:
    app, channel = make()
    channel.output = file = Sparse()
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: "step 19999" in view.log.plain)
        assert view.log.end == Sparse.SIZE and file.given <= 2 * 65_536
        await pilot.press("slash", *"needle", "enter")
        await until(pilot, lambda: view.log.start == 0)
        assert view.log._rows[view.log._top] == "the NEEDLE" and view.log.tail_cut and not view.log.following
        assert "G goes to the end" in str(view.query_one("#log-state", Static).render())
        await pilot.press("G")
        await until(pilot, lambda: view.log.end == Sparse.SIZE and "step 19999" in view.log.plain)
        assert file.given <= 6 * 65_536


async def test_matches_before_what_is_held_are_found_one_by_one_and_the_last_word_is_that_there_is_none() -> None:
    app, channel = make()
    channel.output = b"".join(b"%06d %s\n" % (line, b"found" if line % 6_000 == 7 else b"-") for line in range(18_000))
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: "017999" in view.log.plain)
        await pilot.press("slash", *"found", "enter")
        for line in ("012007 found", "006007 found", "000007 found"):
            await until(pilot, lambda line=line: view.log._rows[view.log._top : view.log._top + 1] == [line])
            await until(pilot, lambda: view.pane._searching is None)
            await pilot.press("N")
        assert view.log.start == 0, "further up there is nothing: the matches go round"
        await pilot.press("escape", "G")
        await until(pilot, lambda: "017999" in view.log.plain)
        await pilot.press("slash", *"nowhere", "enter")
        await until(pilot, lambda: "nothing further up matches" in str(view.query_one("#log-state", Static).render()))


async def test_a_search_that_goes_on_is_stopped_by_escape() -> None:
    app, channel = make()
    channel.output = b"x\n" * 100_000
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: view.log.end == 200_000)
        asked = asyncio.Event()

        async def never(request: object) -> object:
            asked.set()
            return await asyncio.Event().wait()

        view.pane.cockpit.calls.channel.ask = never  # type: ignore[method-assign, assignment]
        await pilot.press("slash", *"nowhere", "enter")
        await asyncio.wait_for(asked.wait(), 10)
        await pilot.pause()
        assert "searching" in str(view.query_one("#log-state", Static).render())
        await pilot.press("escape")
        assert view.pane._searching is None and view.log.search == "nowhere"


async def test_an_older_agent_that_cannot_search_is_told_of() -> None:
    app, channel = make()
    channel.output = b"x\n" * 100_000
    async with app.run_test(size=(100, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await until(pilot, lambda: view.log.end == 200_000)
        ask = channel.ask

        async def older(request: Any) -> Any:
            return await ask(replace(request, search="") if isinstance(request, requests.ReadOutput) else request)

        channel.ask = older
        await pilot.press("slash", *"nowhere", "enter")
        await until(pilot, lambda: "older and cannot search" in str(view.query_one("#log-state", Static).render()))


async def test_two_files_stand_side_by_side_and_keys_go_to_one_of_them() -> None:
    app, channel = make()
    spec = app.mirror.jobs[JobNumber(41)].spec
    app.mirror.jobs[JobNumber(41)] = replace(app.mirror.jobs[JobNumber(41)], spec=replace(spec, stderr="e.txt"))
    async with app.run_test(size=(120, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await pilot.press("b")
        await until(pilot, lambda: {one.stream for one in channel.asked} == {"stdout", "stderr"})
        out, err = view.query_one("#output-stdout"), view.query_one("#output-stderr")
        assert out.region.y == err.region.y and out.region.right < err.region.x
        await pilot.press("t")
        assert view.pane is err and view.log.has_focus
        await pilot.press("k")
        assert not view.log.following and out.query_one(LogView).following
        await pilot.resize_terminal(90, 30)
        await until(pilot, lambda: out.region.x == err.region.x and out.region.bottom <= err.region.y)
        await pilot.press("b")
        assert not out.display and err.display
    app, _ = make()
    async with app.run_test(size=(120, 30)) as pilot:
        view = await open_page(app, pilot, 41, "output")
        await pilot.press("b")
        assert not view.query_one("#output-stderr").display, "both go into one file"


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
