"""The submit form, driven by keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import sample_cluster as sample
from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea

from flagplot.client.own_templates import load_templates, save_template
from flagplot.script.build import wrap_script
from flagplot.tui import building
from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.confirm import ConfirmDialog, Popup
from flagplot.tui.screens.pick_file import PickFile
from flagplot.tui.screens.start_from import StartFrom
from flagplot.tui.screens.submit import SubmitScreen, estimate_words
from flagplot.tui.widgets.path_input import complete_path
from flagplot_wire import replies, requests
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, GpuCount, Reason, Why


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


async def open_form(app: FlagplotApp, pilot: Pilot[Any]) -> SubmitScreen:
    await until(pilot, lambda: app.active_view is not None)
    await pilot.press("n")
    await until(pilot, lambda: isinstance(app.screen, SubmitScreen) and app.screen.is_mounted)
    await pilot.pause()
    assert isinstance(app.screen, SubmitScreen)
    return app.screen


def words(form: SubmitScreen, name: str) -> str:
    return str(form.query_one(f"#submit-{name}", Static).render())


async def test_fill_estimate_and_submit() -> None:
    app, channel = make()
    async with app.run_test(size=(80, 24)) as pilot:
        form = await open_form(app, pilot)
        await pilot.press(*"train")
        form.query_one("#draft-gpus", Input).value = "h100:2"
        form.query_one("#draft-time", Input).value = "2:00:00"
        form.query_one("#draft-command", Input).value = "python train.py"
        await until(pilot, lambda: "Would start now on gpu07" in words(form, "problem"))
        line = "flagplot submit --job-name=train --gpus-per-node=h100:2 --time=2:00:00 '--wrap=python train.py'"
        assert line in words(form, "line")
        await pilot.press("f2")
        await until(pilot, lambda: not isinstance(app.screen, SubmitScreen))
        sent = next(one for one in channel.asked if isinstance(one, requests.Submit))
        assert sent.spec.name == "train" and sent.spec.request.time_limit_s == 7_200
        assert sent.spec.request.gpus_per_node == (GpuCount(2, "h100"),)
        assert "python train.py" in sent.payload.script and sent.key
        assert app.draft == {}
        assert app.command_log[-1][1:] == (line, "done")


async def test_estimates_are_not_asked_for_each_key() -> None:
    app, channel = make()
    async with app.run_test(size=(80, 24)) as pilot:
        form = await open_form(app, pilot)
        form.query_one("#draft-command", Input).value = "x"
        await pilot.press(*"abcdefgh")
        await until(pilot, lambda: "Would start" in words(form, "problem"))
        assert sum(isinstance(one, requests.Estimate) for one in channel.asked) <= 3


@pytest.mark.parametrize(
    ("field", "value"),
    [("memory", "lots"), ("time", "soon"), ("nodes", "0"), ("array", "9-1"), ("gpus", "h100:x"), ("dependency", "41,")],
)
async def test_mistakes_show_at_their_field_and_are_not_sent(field: str, value: str) -> None:
    app, channel = make()
    async with app.run_test(size=(80, 24)) as pilot:
        form = await open_form(app, pilot)
        form.query_one("#draft-command", Input).value = "x"
        form.query_one(f"#draft-{field}", Input).value = value
        await until(pilot, lambda: form.query_one(f"#draft-{field}").has_class("-bad"))
        assert words(form, "problem").startswith("✗")
        await pilot.press("f2", "ctrl+s", "f5")
        await pilot.pause()
        assert app.screen is form and not any(isinstance(one, requests.Submit) for one in channel.asked)


async def test_closing_keeps_the_draft() -> None:
    app, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        form = await open_form(app, pilot)
        form.query_one("#draft-name", Input).value = "kept"
        form.query_one(TextArea).text = "#!/bin/bash\n#SBATCH -N 2\nsrun hostname\n"
        await pilot.pause()
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SubmitScreen))
        form = await open_form(app, pilot)
        assert form.query_one("#draft-name", Input).value == "kept"
        assert "-N 2" in form.query_one(TextArea).text
        await pilot.press("f8")
        await until(pilot, lambda: not form.query_one("#draft-name", Input).value)


async def test_a_bad_directive_is_named_with_its_line() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        form = await open_form(app, pilot)
        form.query_one(TextArea).text = "#!/bin/bash\n#SBATCH --mem=lots\n"
        await until(pilot, lambda: "line 2" in words(form, "problem"))


async def test_a_lost_answer_keeps_the_key() -> None:
    app, channel = make()
    channel.answers[requests.Submit] = Refused("no_controller", "the connection was lost")
    async with app.run_test(size=(80, 24)) as pilot:
        form = await open_form(app, pilot)
        form.query_one("#draft-command", Input).value = "x"
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        await pilot.press("escape")
        del channel.answers[requests.Submit]
        await pilot.press("f2")
        await until(pilot, lambda: not isinstance(app.screen, SubmitScreen))
        keys = [one.key for one in channel.asked if isinstance(one, requests.Submit)]
        assert len(keys) == 2 and keys[0] == keys[1]


async def test_never_and_later_are_told() -> None:
    front = Reason(Why.PRIORITY, "", (JobNumber(4711),))
    now = sample.NOW
    assert estimate_words(Forecast(JobNumber(0), start=now), now) == ("Would start now", "-good")
    later = Forecast(JobNumber(0), (front,), now + 7_200, ("gpu07",))
    assert estimate_words(later, now) == ("Would start in 2 h on gpu07 behind 4711", "-wait")
    assert estimate_words(Forecast(JobNumber(0), never="no such GPU"), now) == ("Never: no such GPU", "-bad")


async def test_the_file_picker_and_the_confined_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH -J from-file\nhostname\n")
    monkeypatch.chdir(tmp_path)
    assert complete_path(str(tmp_path / "jo")) == str(tmp_path / "job.sh")
    assert complete_path(str(tmp_path / "nothing")) is None
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        form = await open_form(app, pilot)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, PickFile))
        await pilot.pause(0.3)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.screen is form)
        assert form.query_one("#draft-file", Input).value == str(tmp_path / "job.sh")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: any(isinstance(one, requests.Submit) for one in channel.asked))
        assert channel.asked[-1].spec.name == "from-file"
    monkeypatch.setenv("FLAGPLOT_CONFINED", "1")
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        form = await open_form(app, pilot)
        assert form.query_one("#draft-file", Input).disabled
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, Popup))


async def test_start_from_a_template_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    app, channel = make()
    async with app.run_test(size=(120, 40)) as pilot:
        form = await open_form(app, pilot)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(app.screen, StartFrom) and len(app.screen._offers) > 3)
        await pilot.press(*"8gpu")
        await until(pilot, lambda: len(app.screen._offers) == 1)  # type: ignore[attr-defined]
        assert "torchrun --nproc" in str(app.screen.query_one("#start-script", Static).render())
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is form and "torchrun" in form.query_one(TextArea).text)
        form.query_one("#draft-gpus", Input).value = "4"
        form.query_one("#draft-time", Input).value = "1-0"
        await until(pilot, lambda: "line 3  --gpus-per-node=8 → --gpus-per-node=4" in words(form, "diff"))
        assert "time" not in words(form, "diff")
        form.query_one("#draft-name", Input).value = "mine"
        await pilot.press("f6")
        await until(pilot, lambda: [one.name for one in load_templates().templates] == ["mine"])
        assert "#SBATCH --gpus-per-node=4\n" in load_templates().templates[0].script
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("escape", "f2")
        await until(pilot, lambda: any(isinstance(one, requests.Submit) for one in channel.asked))
        assert next(one for one in channel.asked if isinstance(one, requests.Submit)).spec.name == "mine"


async def test_without_an_answer_own_templates_and_jobs_are_offered() -> None:
    save_template("mine", "#!/bin/sh\n# My own\ntrue\n")
    app, channel = make()
    channel.answers[requests.GetTemplates] = Refused("protocol", "unknown kind 'templates'")
    async with app.run_test(size=(80, 24)) as pilot:
        form = await open_form(app, pilot)
        form.query_one("#draft-name", Input).value = "typed"
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(app.screen, StartFrom))
        await until(pilot, lambda: "unknown kind" in str(app.screen.query_one("#start-note", Static).render()))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: app.screen is form and "My own" in form.query_one(TextArea).text)
        assert form.query_one("#draft-name", Input).value == ""


async def test_resubmit_with_changes() -> None:
    app, channel = make()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.active_view is not None)
        await pilot.press(*"/user:dave", "enter", "E")
        await until(pilot, lambda: isinstance(app.screen, SubmitScreen) and app.screen.is_mounted)
        form = app.screen
        assert isinstance(form, SubmitScreen)
        asked = next(one for one in channel.asked if isinstance(one, requests.GetScript))
        job = app.mirror.jobs[JobNumber(int(asked.job))]
        assert job.user == "dave" and "srun python train.py" in form.query_one(TextArea).text
        assert form.query_one("#draft-name", Input).value == job.spec.name
        assert form.query_one("#draft-workdir", Input).value == "/home/dave"
        form.query_one("#draft-more", Input).value = "--constraint=nvlink"
        await until(pilot, lambda: "Would start" in words(form, "problem"))
        form.query_one("#draft-more", Input).value = "'"
        await until(pilot, lambda: words(form, "problem").startswith("✗ Other options: no closing quotation"))
        assert form.query_one("#draft-more").has_class("-bad")
        form.query_one("#draft-more", Input).value = "--constraint=nvlink"
        form.query_one("#draft-args", Input).value = "--lr 0.1"
        await pilot.press("f2")
        await until(pilot, lambda: any(isinstance(one, requests.Submit) for one in channel.asked))
        sent = next(one for one in channel.asked if isinstance(one, requests.Submit))
        assert sent.spec.request == msgspec.structs.replace(job.spec.request, constraint="nvlink")
        assert sent.spec.work_dir == "/home/dave" and sent.payload.args == ("--lr", "0.1")
        await pilot.press(*":resubmit 999", "enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))


async def test_what_came_from_elsewhere_steers_no_terminal() -> None:
    draft = building.harmless({"script": "#!/bin/sh\n\tcat <<-E\x1b[2J\n", "name": "a\u202eb"})
    assert draft == {"script": "#!/bin/sh\n\tcat <<-E\u241b[2J\n", "name": "a\ufffdb"}
    assert building.replaced({"script": "#!/bin/sh\n\tok\n"}) == [] and building.replaced({"script": "\x1b"})


async def test_a_wrapped_command_is_resubmitted_as_a_command() -> None:
    job = sample.sample_mirror().jobs[JobNumber(45)]
    draft, left = building.resubmission(job, replies.Script(job.number, wrap_script("a\nb")), "/home/alice", sample.NOW)
    assert (draft["command"], left) == ("a\nb", []) and "script" not in draft and "workdir" not in draft
    assert building.build(draft, "alice", True, sample.NOW)[0].request == job.spec.request
