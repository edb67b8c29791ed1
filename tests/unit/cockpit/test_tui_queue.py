"""The cockpit's frame and queue, driven by keys."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from support import sample_cluster as sample
from textual.pilot import Pilot

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.command_log import CommandLog
from flagplot.tui.screens.confirm import ConfirmDialog, Popup, TooSmall
from flagplot.tui.screens.help import HelpScreen
from flagplot.tui.screens.queue import QueueView
from flagplot.tui.widgets.hints import Hints
from flagplot.tui.widgets.topline import TopLine
from flagplot.tui.widgets.virtual_table import VirtualTable
from flagplot_wire import requests
from flagplot_wire.errors import Refused
from flagplot_wire.events import Event, JobChanged, JobsForgotten
from flagplot_wire.ids import JobNumber
from flagplot_wire.replies import EventsPushed


def make(**options: object) -> tuple[FlagplotApp, object]:
    mirror = sample.sample_mirror(**{key: options.pop(key) for key in ("user", "roles", "connected") if key in options})
    calls, channel = sample.sample_calls(mirror)
    return FlagplotApp(mirror=mirror, calls=calls, clock=lambda: sample.NOW, **options), channel  # type: ignore[arg-type]


async def until(pilot: Pilot[object], condition: Callable[[], object]) -> None:
    for _ in range(200):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("the condition never came true")


def table(app: FlagplotApp) -> VirtualTable:
    return app.screen_stack[0].query_one(QueueView).table


async def ready(app: FlagplotApp, pilot: Pilot[object]) -> VirtualTable:
    await until(pilot, lambda: app.active_view is not None and table(app).keys and table(app).columns)
    await pilot.pause()
    return table(app)


def screen_text(app: FlagplotApp) -> str:
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join(line.text[:width] for line in lines[:height])


async def test_top_line_tells_where_we_are() -> None:
    app, _ = make()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(app, pilot)
        first = app.query_one(TopLine).first().plain
        for word in ("demo", "SIMULATED", "alice", "admin", "11 running", "live"):
            assert word in first


async def test_disconnected_shows_the_age_and_actions_fail_loudly() -> None:
    app, channel = make(connected=False)
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        assert "42 s old, reconnecting" in app.query_one(TopLine).first().plain
        assert "llama-pretrain" in screen_text(app)
        await pilot.press("h")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "Not connected" in screen_text(app)
        assert channel.asked == []  # type: ignore[attr-defined]
        await pilot.press("escape")
        assert not isinstance(app.screen, Popup)


async def test_cancel_names_its_targets_and_starts_on_no() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        rows = await ready(app, pilot)
        first, second = rows.keys[0], rows.keys[1]
        await pilot.press("space", "space", "ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        text = screen_text(app)
        assert str(first) in text and str(second) in text and "llama-pretrain" in text
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, ConfirmDialog))
        assert channel.asked == []  # type: ignore[attr-defined]
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: channel.asked)  # type: ignore[attr-defined]
        assert channel.asked == [requests.Act("cancel", (str(first), str(second)))]  # type: ignore[attr-defined]
        await until(pilot, lambda: app.command_log)
        assert app.command_log[0][1:] == (f"flagplot cancel {first} {second}", "done")
        await pilot.press("@")
        await until(pilot, lambda: isinstance(app.screen, CommandLog))
        assert f"$ flagplot cancel {first} {second}" in screen_text(app)


async def test_failures_stay_on_screen() -> None:
    app, channel = make()
    channel.answers[requests.Act] = Refused("conflict", "41 is not pending", "only pending jobs can be held")  # type: ignore[attr-defined]
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        await pilot.press("h")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "41 is not pending" in screen_text(app)
        assert "only pending jobs can be held" in screen_text(app)


async def test_filter_as_typed_and_escape_order() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        rows = await ready(app, pilot)
        everything = len(rows.keys)
        await pilot.press("slash", *"user:bob")
        await until(pilot, lambda: 0 < len(rows.keys) < 10)
        assert all(app.mirror.jobs[JobNumber(key)].user == "bob" for key in rows.keys)
        await pilot.press("enter", "space")
        assert rows.marks
        assert "/user:bob" in app.query_one(TopLine).second().plain
        await pilot.press("escape")
        assert not rows.marks and len(rows.keys) < 10
        await pilot.press("escape")
        await until(pilot, lambda: len(rows.keys) == everything)


async def test_empty_filter_says_what_to_do() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        rows = await ready(app, pilot)
        await pilot.press("slash", *"zzzz", "enter")
        await until(pilot, lambda: not rows.keys)
        await pilot.pause()
        assert "No job matches" in screen_text(app) and "Esc clears it" in screen_text(app)


async def test_cursor_and_marks_follow_the_job() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        rows = await ready(app, pilot)
        await pilot.press("j", "j", "j", "space")
        marked, under = set(rows.marks), rows.cursor_key
        await pilot.press("I")
        await until(pilot, lambda: rows.sorted_by == "id")
        assert rows.cursor_key == under and rows.marks == marked
        gone = next(iter(marked))
        app.mirror.take(EventsPushed((Event(app.mirror.seq + 1, sample.NOW, JobsForgotten((JobNumber(gone),))),)))
        await until(pilot, lambda: gone not in rows.keys)
        assert not rows.marks and rows.cursor_key == under


async def test_only_changed_lines_are_redrawn() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        rows = await ready(app, pilot)
        await pilot.pause(0.3)
        drawn = sample.watch_lines(rows)
        app.show_now()
        await pilot.pause(0.1)
        assert drawn == []
        job = app.mirror.jobs[JobNumber(42)]
        held = msgspec.structs.replace(job.status, start_time=job.status.start_time - 1)
        app.mirror.take(
            EventsPushed((Event(app.mirror.seq + 1, sample.NOW, JobChanged(JobNumber(42), held, "started")),))
        )
        await until(pilot, lambda: drawn)
        await pilot.pause(0.3)
        assert drawn == [1 + rows.keys.index(JobNumber(42))]


async def test_a_hundred_thousand_rows_scroll() -> None:
    app, _ = make()
    model = app.mirror.jobs[JobNumber(61)]
    for number in range(1_000, 101_000):
        app.mirror.jobs[JobNumber(number)] = msgspec.structs.replace(model, number=JobNumber(number))
    async with app.run_test(size=(120, 40)) as pilot:
        rows = await ready(app, pilot)
        assert len(rows.keys) > 100_000
        drawn = sample.watch_lines(rows)
        await pilot.press("G", "k", "k", "pageup")
        await pilot.pause()
        assert 0 < len(drawn) < 40 * 10
        assert rows.cursor_key == rows.keys[len(rows.keys) - 3 - rows._page]


async def test_read_only_unbinds_what_changes_things() -> None:
    app, channel = make(read_only=True)
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(app, pilot)
        assert "READ-ONLY" in app.query_one(TopLine).first().plain
        keys = set(app.screen.active_bindings)
        assert not {"n", "e", "h", "u", "ctrl+d", "ctrl+k", "R"} & keys
        await pilot.press("ctrl+d", "h", "n")
        await pilot.pause()
        assert len(app.screen_stack) == 1 and channel.asked == []  # type: ignore[attr-defined]
        await pilot.press("colon", *"cancel 41", "enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "read-only" in screen_text(app)


async def test_what_is_not_ours_is_refused_with_the_reason() -> None:
    app, channel = make(user="alice", roles=("user",))
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        await pilot.press("colon", *"cancel 41", "enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "This job is bob's" in screen_text(app)
        assert channel.asked == []  # type: ignore[attr-defined]


async def test_commands_complete_and_refuse() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        await pilot.press("colon", *"nonsense", "enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "There is no command :nonsense" in screen_text(app)
        await pilot.press("escape", "colon", *"job 50_2", "enter")
        await until(pilot, lambda: app.trail[-1:] == ["job-53"])


async def test_help_is_made_of_the_real_bindings_and_searchable() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 40)) as pilot:
        await ready(app, pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.pause()
        assert "Requeue" in screen_text(app) and "^d" in screen_text(app)
        await pilot.press(*"hold")
        await pilot.pause()
        assert "Hold" in screen_text(app) and "Requeue" not in screen_text(app)
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_hints_are_of_this_view() -> None:
    app, _ = make()
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(app, pilot)
        words = app.query_one(Hints).render().plain
        assert "Submit" in words and "Cancel job" in words and "Follow" not in words
        await pilot.press("slash")
        await until(pilot, lambda: "Esc clears it" in app.query_one(Hints).render().plain)
        await pilot.press("x", "enter")
        await until(pilot, lambda: "Cancel job" in screen_text(app))


async def test_too_small_says_the_needed_size() -> None:
    app, _ = make()
    async with app.run_test(size=(50, 12)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TooSmall))
        await pilot.pause()
        assert "60×16" in screen_text(app) and "50×12" in screen_text(app)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: not isinstance(app.screen, TooSmall))


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
async def test_hostile_names_in_every_size(size: tuple[int, int]) -> None:
    app, _ = make()
    async with app.run_test(size=size) as pilot:
        rows = await ready(app, pilot)
        await pilot.press("slash", *"user:mallory", "enter")
        await until(pilot, lambda: len(rows.keys) == len(sample.HOSTILE))
        await pilot.pause()
        text = screen_text(app)
        assert "x[/red]" in text and "[$primary]n" in text
        assert not any(char in text for char in "\x1b\x9b\r\u202e")
        for key in list(rows.keys):
            rows.move_to(key)
            await pilot.press("ctrl+d")
            await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
            await pilot.pause()
            assert not any(char in screen_text(app) for char in "\x1b\x9b\r\u202e")
            await pilot.press("n")
        app.say("[bold]x[/red]")
        app.failure("[/]", ["[@click=app.quit]here[/]", "a\x1b]0;X\x07b"])
        await pilot.pause()
        assert "[@click=app.quit]here[/]" in screen_text(app)


async def test_keys_without_effect_are_not_bound() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        assert {"tab", "shift+tab"}.isdisjoint(app.screen.active_bindings)
        await pilot.press("2")
        await until(pilot, lambda: app.trail == ["nodes"])
        assert {"plus", "minus", "0", "b"} <= set(app.screen.active_bindings)
        await pilot.press("t")
        assert {"plus", "minus", "0", "b"}.isdisjoint(app.screen.active_bindings)
        await pilot.press("enter")
        await until(pilot, lambda: len(app.trail) == 2)
        assert "slash" not in app.screen.active_bindings and "tab" in app.screen.active_bindings


async def test_quit_keys() -> None:
    for key in ("q", "ctrl+q", "ctrl+c"):
        app, _ = make()
        async with app.run_test(size=(80, 24)) as pilot:
            await ready(app, pilot)
            await pilot.press(key)
            await pilot.pause()
        assert app.return_code == 0


async def test_interrupt_closes_a_dialog_and_never_the_draft() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert app.is_running and app.return_code is None


async def test_node_commands_take_host_lists() -> None:
    app, channel = make()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await pilot.press(
            "colon", *"resume", "space", *"gpu", "left_square_bracket", *"08,10", "right_square_bracket", "enter"
        )
        await until(pilot, lambda: channel.asked)  # type: ignore[attr-defined]
        assert channel.asked == [requests.ResumeNodes(("gpu08", "gpu10"))]  # type: ignore[attr-defined]
        await until(pilot, lambda: app.command_log)
        assert app.command_log[0][1] == "flagplot resume gpu[08,10]"
        await pilot.press("colon", *"resume", "space", *"gpu99", "enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "There is no node gpu99" in screen_text(app)


@pytest.mark.parametrize(
    "theme", ["dark", "light", "contrast", "colourblind", "colourblind-light", "ember", "midnight", "mono"]
)
async def test_themes_can_be_chosen_while_running(theme: str) -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await pilot.press("colon", *"theme", "space", *theme, "enter")
        await until(pilot, lambda: app.theme == theme)
        await pilot.pause()
        assert "llama-pretrain" in screen_text(app)


async def test_an_unknown_theme_is_told() -> None:
    app, _ = make(theme="nonsense")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Popup))
        await pilot.pause()
        assert "There is no theme 'nonsense'" in screen_text(app) and app.theme == "dark"
