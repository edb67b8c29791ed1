"""What is around the views: back and forward, copy, notices with a command, by keys."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import sample_cluster as sample
from support.cockpit import app_of, press, settle, toasts
from textual.widgets import Input

from flagplot.tui.app import FlagplotApp
from flagplot_wire import requests
from flagplot_wire.errors import Refused
from flagplot_wire.events import Event, JobChanged
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import State
from flagplot_wire.replies import EventsPushed


async def test_back_and_forward_go_through_pages_that_were_closed() -> None:
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "enter", "2", "enter", "1", "down", "enter")
        ways = [list(app.trail)]
        for _ in range(4):
            await press(app, pilot, "less_than_sign")
            ways.append(list(app.trail))
        assert [way[-1].split("-")[0] for way in ways] == ["job", "queue", "node", "nodes", "job"]
        assert ways[0] != ways[4] and app.active_view is not None and app.active_view.id == f"view-{ways[4][-1]}"
        await press(app, pilot, *["alt+right"] * 4)
        assert app.trail == ways[0]
        await press(app, pilot, "greater_than_sign")
        assert toasts(app)[-1] == "There is nothing further ahead"
        await press(app, pilot, "escape")
        assert app.trail == ["queue"]


async def test_back_leaves_out_the_page_of_a_job_that_is_forgotten() -> None:
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "enter")
        assert app.trail == ["queue", "job-40"]
        await press(app, pilot, "escape", "down", "enter")
        app.mirror._forget(JobNumber(40))
        trails = []
        for _ in range(3):
            await press(app, pilot, "less_than_sign")
            trails.append(app.trail)
        assert trails == [["queue"]] * 3 and toasts(app)[-1] == "There is nothing further back"


async def test_copy_takes_marks_and_host_lists() -> None:
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "Y")
        assert app.clipboard == "40"
        await press(app, pilot, "space", "space", "Y")
        assert app.clipboard.split() == ["40", "46"] or len(app.clipboard.split()) == 2
        await press(app, pilot, "2", "ctrl+a", "Y")
        assert app.clipboard == "gpu[01-12]"
        await press(app, pilot, "colon", *"copy", "enter")
        assert toasts(app)[-1] == "Copied gpu[01-12]"


async def test_the_end_of_my_job_runs_my_command_with_its_variables(tmp_path: Path) -> None:
    config, out = tmp_path / "config" / "flagplot", tmp_path / "told"
    config.mkdir(parents=True)
    program = tmp_path / "tell.py"
    program.write_text(
        "import json, os, sys\n"
        f"open({str(out)!r}, 'a').write(json.dumps([sys.argv[1:], os.environ['NAME'], os.environ['EXIT_CODE']]) + '\\n')\n"
    )
    command = [sys.executable, str(program), "$JOB is $STATE", "$NAME"]
    (config / "notices.toml").write_text(f"command = {json.dumps(command)}\n")
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        app.show_now()
        job = app.mirror.jobs[JobNumber(45)]
        assert job.user == app.user
        status = replace(job.status, state=State.FAILED, end_time=sample.NOW, exit_code=3)
        app.mirror.take(EventsPushed((Event(app.mirror.seq + 1, sample.NOW, JobChanged(job.number, status, "ended")),)))
        app.show_now()
        await settle(app, pilot)
        assert [json.loads(line) for line in out.read_text().splitlines()] == [
            [["45 is FAILED", "debug"], "debug", "3"]
        ]
        assert any(text.startswith("Job 45 FAILED: debug after") for text in toasts(app))
        assert app.command_log[-1][2] == "done" and "45 is FAILED" in app.command_log[-1][1]


@pytest.mark.parametrize(
    ("text", "told"),
    [('command = ["/nowhere/x"]', "cannot be run"), ('command = ["false"]', "ended with 1"), ('on = ["X"]', "none of")],
)
async def test_what_is_wrong_with_notices_is_told(tmp_path: Path, text: str, told: str) -> None:
    config = tmp_path / "config" / "flagplot"
    config.mkdir(parents=True)
    (config / "notices.toml").write_text(text)
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        if app.screen is not app.screen_stack[0]:
            text = app.screen._title  # type: ignore[attr-defined]
            assert "notices.toml" in text and told in text
            return
        app.show_now()
        job = app.mirror.jobs[JobNumber(45)]
        status = replace(job.status, state=State.COMPLETED, end_time=sample.NOW)
        app.mirror.take(EventsPushed((Event(app.mirror.seq + 1, sample.NOW, JobChanged(job.number, status, "ended")),)))
        app.show_now()
        await settle(app, pilot)
        assert told in app.command_log[-1][2] and told in toasts(app)[-1]


async def test_a_confined_session_runs_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config" / "flagplot"
    config.mkdir(parents=True)
    (config / "notices.toml").write_text(f'command = ["touch", "{tmp_path}/touched"]')
    monkeypatch.setenv("FLAGPLOT_CONFINED", "1")
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        assert app.notices.settings.command == ()


async def test_export_asks_before_it_writes_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "X", *"csv out.csv", "enter")
        first = (tmp_path / "out.csv").read_text()
        assert first.splitlines()[0] == "JOBID,PARTITION,NAME,USER,ST,TIME,LIMIT,NODES,GPUS,NODELIST(REASON)"
        assert len(first.splitlines()) > 20 and "40,gpu,llama-pretrain,alice,R,1-02:03:04" in first
        await press(app, pilot, "slash", *"llama", "enter", "X", *"csv out.csv", "enter")
        assert type(app.screen).__name__ == "ConfirmDialog" and (tmp_path / "out.csv").read_text() == first
        await press(app, pilot, "n", "X", *"csv out.csv", "enter", "y")
        assert len((tmp_path / "out.csv").read_text().splitlines()) == 2
        assert toasts(app)[-1] == f"Exported to {tmp_path}/out.csv"


@pytest.mark.parametrize(
    ("way", "key", "wanted"), [("2t", "node", "gpu12"), ("3", "node", "gpu01"), ("5", "what", "started")]
)
async def test_other_lists_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, key: str, wanted: str
) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_of()
    async with app.run_test(size=(160, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, *way, "X", *"json out", "enter")
        rows = json.loads((tmp_path / "out").read_text())
        assert len(rows) > 3 and all(row[key] for row in rows) and wanted in {row[key] for row in rows}


async def test_the_screen_as_svg_without_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "4", "X", *"csv", "enter")
        assert "Timeline is no list" in app.screen._title  # type: ignore[attr-defined]
        await press(app, pilot, "escape", "X", *"svg", "enter")
        (made,) = tmp_path.glob("flagplot-timeline-*.svg")
        text = made.read_text()
        assert text.startswith("<svg") and "gpu01" in text and "export" not in text


async def test_undo_asks_and_does_the_inverse() -> None:
    app, asked = watched_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "Z")
        assert toasts(app)[-1].startswith("Nothing to undo")
        await press(app, pilot, "slash", *"gang-32", "enter", "h", "ctrl+z")
        assert type(app.screen).__name__ == "ConfirmDialog"
        await press(app, pilot, "n", "Z", "y")
        assert [one for one in asked if isinstance(one, requests.Act)] == [
            requests.Act("hold", ("55",)), requests.Act("release", ("55",)),
        ]  # fmt: skip
        assert toasts(app)[-1] == "Undone: Held 55" and app.command_log[-1][1:] == ("flagplot release 55", "done")
        await press(app, pilot, "Z")
        assert toasts(app)[-1].startswith("Nothing to undo")


async def test_undo_of_a_resume_drains_for_the_old_reasons() -> None:
    app, asked = watched_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "2", "ctrl+a", "u", "y", "colon", *"undo", "enter", "y")
        assert [one for one in asked if isinstance(one, requests.DrainNodes)] == [
            requests.DrainNodes(("gpu08",), "bad riser [slot 3]"),
            requests.DrainNodes(("gpu10",), "kernel\x1b[2J update"),
        ]


async def test_undo_of_a_drain_resumes_only_what_was_in_service() -> None:
    app, asked = watched_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "colon", *"drain gpu[07-08]", "enter")
        app.screen.query_one("#drain-reason", Input).value = "fan"
        await press(app, pilot, "ctrl+s", "Z", "y")
        assert [one for one in asked if isinstance(one, requests.ResumeNodes)] == [requests.ResumeNodes(("gpu07",))]


async def test_undo_of_an_edit_gives_every_job_its_own_value_back() -> None:
    app, asked = watched_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "slash", *"by-", "enter", "ctrl+a", "e")
        app.screen.query_one("#edit-nice", Input).value = "7"
        app.screen.query_one("#edit-time_limit", Input).value = "30"
        await press(app, pilot, "f2")
        await press(app, pilot, *(["y"] if type(app.screen).__name__ == "ConfirmDialog" else []), "Z", "y")
        first, *back = [one for one in asked if isinstance(one, requests.Update)]
        assert first.jobs == ("57", "58") and (first.nice, first.time_limit) == (7, "30")
        assert [(one.jobs, one.nice, one.time_limit) for one in back] == [
            (("57",), 0, "1-00:00:00"), (("58",), 0, "1-00:00:00"),
        ]  # fmt: skip


async def test_what_was_refused_is_not_offered_for_undo() -> None:
    app, _ = watched_app(Refused("not_permitted", "no"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "slash", *"gang-32", "enter", "h", "escape", "Z")
        assert toasts(app)[-1].startswith("Nothing to undo")


def watched_app(act: Refused | None = None) -> tuple[FlagplotApp, list[requests.AnyRequest]]:
    mirror = sample.sample_mirror()
    calls, channel = sample.sample_calls(mirror)
    if act is not None:
        channel.answers[requests.Act] = act
    return FlagplotApp(mirror=mirror, calls=calls, clock=lambda: sample.NOW, theme="dark"), channel.asked
