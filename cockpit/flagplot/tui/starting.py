"""What the submit form starts from: a job made anew, and templates saved; each asks before it replaces something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flagplot.client.own_templates import save_template as write
from flagplot.client.own_templates import template_path
from flagplot.language import tr
from flagplot.tui import building
from flagplot.tui.screens.confirm import ConfirmDialog
from flagplot.view.queue import find_job
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


def resubmit(app: FlagplotApp, target: str, then: Callable[[dict[str, str]], None]) -> None:
    """Fetch a job's script and hand the draft that makes it again to `then`; what fails is told in a popup."""
    job = find_job(app.mirror, target)
    if job is None:
        why = tr("It may have ended long ago: flagplot script prints its script")
        app.failure(tr("There is no job {number} here").format(number=target), [why])
        return
    app.run_worker(_resubmit(app, job, target, then), group="resubmit", exclusive=True)


async def _resubmit(app: FlagplotApp, job: Job, target: str, then: Callable[[dict[str, str]], None]) -> None:
    try:
        script = await app.calls.script(target)
    except Refused as refused:
        title = tr("Cannot resubmit {job}: {why}").format(job=target, why=refused.message)
        app.failure(title, [refused.hint])
        return
    where = building.default_work_dir(app.user, app.confined)
    draft, notes = building.resubmission(job, script, where, app.now())
    then(draft)
    for note in notes:
        app.say(tr("Job {job}: {note}").format(job=target, note=note))


def ask_to_replace(app: FlagplotApp, go: Callable[[], None]) -> None:
    """Go at once where the form holds nothing, else ask whether that may be replaced."""
    typed = [value for name, value in app.draft.items() if name != "key" and value.strip()]
    if not typed:
        go()
        return
    lines = [f"{name}: {value.splitlines()[0]}" for name, value in app.draft.items() if name != "key" and value.strip()]

    def answer(yes: bool | None) -> None:
        if yes:
            go()

    app.push_screen(ConfirmDialog("Replace what the form holds?", lines, yes=tr("Yes, replace")), answer)


def save_template(app: FlagplotApp, draft: Mapping[str, str]) -> None:
    """Save script and options as a template by the job's name, after asking where one of that name is there."""
    try:
        script = building.template(draft, app.confined)
        name = draft.get("name", "").strip()
        if not name:
            raise Refused("usage", "A template needs a name: fill in the name of the job")
        path = template_path(name)
    except Refused as refused:
        app.failure(tr("Not saved: {why}").format(why=refused.message), [refused.hint])
        return

    def go(yes: bool | None) -> None:
        if not yes:
            return
        try:
            app.say(tr("Saved as template {name}: {path}").format(name=name, path=write(name, script)))
        except Refused as refused:
            app.failure(tr("Not saved: {why}").format(why=refused.message), [refused.hint])

    if path.exists():
        question = tr("Replace your template {name}?").format(name=name)
        app.push_screen(ConfirmDialog(question, [str(path)], yes=tr("Yes, replace")), go)
    else:
        go(True)
