"""The `:` commands and the palette: names, completion, and what each does."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from flagplot import theming
from flagplot.language import later, tr, tr_count
from flagplot.tui import undo
from flagplot.tui.more_commands import MORE
from flagplot.view.effects import lines
from flagplot.view.queue import find_job
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts, expand_hosts
from flagplot_wire.ids import parse_job_ref
from flagplot_wire.requests import Act, ChangePolicy

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp
    from flagplot.tui.screens.queue import QueueView

JOB_TABS = {"why": "why", "logs": "output", "script": "script"}
"""Commands that open a job's page on one of its tabs."""
QUESTIONS = {
    "cancel": later("Cancel {jobs}?"),
    "hold": later("Hold {jobs}?"),
    "release": later("Release {jobs}?"),
    "requeue": later("Requeue {jobs}?"),
}
YES = {
    "cancel": later("Yes, cancel"),
    "hold": later("Yes, hold"),
    "release": later("Yes, release"),
    "requeue": later("Yes, requeue"),
}
DONE = {
    "cancel": later("Cancelled {jobs}"),
    "hold": later("Held {jobs}"),
    "release": later("Released {jobs}"),
    "requeue": later("Requeued {jobs}"),
}
NAMES = (
    "job",
    *JOB_TABS,
    "node",
    "submit",
    "resubmit",
    "cancel",
    "hold",
    "release",
    "requeue",
    "drain",
    "resume",
    "reboot",
    "reserve",
    "unreserve",
    "view",
    "save",
    "theme",
    "help",
    "log",
    "quit",
    *MORE,
)
ALIASES = {
    "q": "quit",
    "quit!": "quit",
    "q!": "quit",
    "j": "job",
    "n": "submit",
    "new": "submit",
    "squeue": "queue",
}
ALIASES |= {"sinfo": "nodes", "scancel": "cancel", "undrain": "resume", "tl": "timeline"}


def completions(app: FlagplotApp) -> list[str]:
    """Whole command lines that the prompt completes to."""
    words = [entry.name for entry in app.views] + list(NAMES)
    words += [f"theme {name}" for name in sorted(app.available_themes)]
    words += [f"{more.name} {word}" for more in MORE.values() for word in more.words(app)]
    for verb in ("node", "drain", "resume", "reboot", "reserve"):
        words += [f"{verb} {name}" for name in sorted(app.mirror.nodes)[:2_000]]
    return words + [f"unreserve {name}" for name in sorted(app.mirror.reservations)]


def run_line(app: FlagplotApp, line: str) -> None:
    """Run one command line; what is wrong with it is told in a popup."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        app.failure(tr("Cannot read this command: {why}").format(why=error), [f":{line}"])
        return
    if not words:
        return
    name, rest = ALIASES.get(words[0], words[0]), words[1:]
    try:
        _run(app, name, rest)
    except Refused as refused:
        app.failure(refused.message, [refused.hint, f":{line}"])


def _run(app: FlagplotApp, name: str, rest: list[str]) -> None:
    if name in {entry.name for entry in app.views}:
        app.action_view(name, " ".join(rest) if rest else None)
    elif name == "job" or name in JOB_TABS:
        wanted = find_job(app.mirror, _one(rest, f":{name} 41"))
        app.open_job(wanted.number if wanted else parse_job_ref(rest[0]).number, JOB_TABS.get(name, ""))
    elif name == "submit":
        open_submit(app)
    elif name == "resubmit":
        open_resubmit(app, _one(rest, ":resubmit 41"))
    elif name in ("cancel", "hold", "release", "requeue"):
        if not rest:
            raise Refused("usage", tr(":{name} needs jobs, such as :{name} 41").format(name=name))
        act(app, name, rest)
    elif name == "node":
        app.open_node(_nodes(app, _one(rest, ":node gpu01"))[0])
    elif name == "drain":
        open_drain(app, _nodes(app, _one(rest, ":drain gpu[01-03] reason")), " ".join(rest[1:]))
    elif name == "reboot":
        open_drain(app, _nodes(app, _one(rest, ":reboot gpu[01-03] reason")), " ".join(rest[1:]), reboot=True)
    elif name == "reserve":
        open_reserve(app, _nodes(app, rest[0]) if rest else [])
    elif name == "unreserve":
        end_reservation(app, _one(rest, ":unreserve NAME"))
    elif name == "resume":
        resume_nodes(app, _nodes(app, _one(rest, ":resume gpu[01-03]")))
    elif name in ("view", "save"):
        queue = _queue(app)
        if name == "view":
            queue.show_view(_one(rest, ":view NAME"))
        else:
            queue.save_view(_one(rest, ":save NAME"))
    elif name == "theme":
        set_theme(app, _one(rest, ":theme NAME"))
    elif name == "help":
        app.action_help()
    elif name == "log":
        app.action_command_log()
    elif name == "quit":
        app.exit(0)
    elif name in MORE:
        MORE[name].run(app, rest)
    else:
        raise Refused(
            "usage",
            tr("There is no command :{name}").format(name=name),
            tr("Known: ") + " ".join([*(entry.name for entry in app.views), *NAMES]),
        )


def _queue(app: FlagplotApp) -> QueueView:
    from flagplot.tui.screens.queue import QueueView

    if not isinstance(view := app.active_view, QueueView):
        raise Refused("usage", tr("Saved views are of the queue"), tr("1 shows the queue"))
    return view


def _nodes(app: FlagplotApp, hosts: str) -> list[str]:
    names = expand_hosts(hosts)
    unknown = [name for name in names if name not in app.mirror.nodes]
    if unknown:
        raise Refused("not_found", tr("There is no node {nodes} in this cluster").format(nodes=compress_hosts(unknown)))
    return names


def _one(rest: list[str], example: str) -> str:
    if not rest:
        raise Refused("usage", tr("This command needs more: {example}").format(example=example))
    return rest[0]


def act(app: FlagplotApp, verb: str, jobs: list[str]) -> None:
    """Do one verb on jobs; cancel, requeue and several at once ask first; what is not ours is refused with the reason."""
    from flagplot.tui.screens.confirm import ConfirmDialog

    for job in jobs:
        found = find_job(app.mirror, job)
        if refusal := app.why_not("change", found.user if found else ""):
            app.failure(f"Cannot {verb} {job}", [refusal])
            return

    def go(yes: bool | None) -> None:
        if not yes:
            return
        request = Act(verb, tuple(jobs))  # type: ignore[arg-type]
        what = " ".join(jobs) if len(jobs) < 5 else tr_count("{count} job", "{count} jobs", len(jobs))
        done = tr(DONE[verb]).format(jobs=what)
        back = undo.of_act(app.calls, verb, jobs, done)
        app.perform(f"flagplot {verb} {' '.join(jobs)}", app.calls.act(request), success=done, undo=back)

    if verb not in ("cancel", "requeue") and len(jobs) == 1:
        go(True)
        return
    count = (
        tr_count("{count} job", "{count} jobs", len(jobs)) if len(jobs) != 1 else tr("job {job}").format(job=jobs[0])
    )
    app.push_screen(
        ConfirmDialog(
            tr(QUESTIONS[verb]).format(jobs=count),
            lines(verb, {job: find_job(app.mirror, job) for job in jobs}),
            yes=YES[verb],
            note=tr("What it computed since its last checkpoint is lost.") if verb == "requeue" else "",
            destructive=verb in ("cancel", "requeue"),
        ),
        go,
    )


def open_submit(app: FlagplotApp) -> None:
    """Open the submit form with the draft kept from last time."""
    from flagplot.tui.screens.submit import SubmitScreen

    if refusal := app.why_not("submit"):
        app.failure(tr("Cannot submit"), [refusal])
        return
    app.push_screen(SubmitScreen())


def open_resubmit(app: FlagplotApp, job: str) -> None:
    """Open the submit form with a job as it was submitted; what the form held is asked about first."""
    from flagplot.tui import starting

    if refusal := app.why_not("submit"):
        app.failure(tr("Cannot submit"), [refusal])
        return

    def fill(draft: dict[str, str]) -> None:
        def replace() -> None:
            app.draft = draft
            open_submit(app)

        starting.ask_to_replace(app, replace)

    starting.resubmit(app, job, fill)


def open_edit(app: FlagplotApp, targets: list[str]) -> None:
    """Open the edit form for jobs; those that are not ours are refused with the reason."""
    from flagplot.tui.screens.edit import EditScreen

    jobs = [found for target in targets if (found := find_job(app.mirror, target)) is not None]
    for job in jobs:
        refusal = app.why_not("change", job.user)
        if not refusal and all(one.status.state.ended for one in jobs):
            why = tr("It ended ({state}); only pending and running jobs can be changed.")
            refusal = why.format(state=job.status.state)
        if refusal:
            app.failure(tr("Cannot edit {job}").format(job=job.display_id), [refusal])
            return
    if jobs:
        app.push_screen(EditScreen(jobs))


def open_drain(app: FlagplotApp, names: list[str], reason: str = "", reboot: bool = False) -> None:
    """Ask for the reason and show the jobs affected, then drain (and reboot)."""
    from flagplot.tui.screens.drain import DrainDialog

    if refusal := app.why_not("reboot" if reboot else "drain"):
        app.failure(tr("Not allowed"), [refusal])
        return
    app.push_screen(DrainDialog(names, reason, reboot))


def open_reserve(app: FlagplotApp, names: list[str]) -> None:
    """Open the form of a reservation on these nodes."""
    from flagplot.tui.screens.reserve import ReserveDialog

    if refusal := app.why_not("reserve"):
        app.failure(tr("Not allowed"), [refusal])
        return
    app.push_screen(ReserveDialog(names))


def end_reservation(app: FlagplotApp, name: str) -> None:
    """Take a reservation away, after asking."""
    from flagplot.tui.screens.confirm import ConfirmDialog
    from flagplot.view.reservations import lines_of

    if refusal := app.why_not("reserve"):
        app.failure(tr("Not allowed"), [refusal])
        return
    if (one := app.mirror.reservations.get(name)) is None:
        raise Refused(
            "not_found", tr("There is no reservation {name}").format(name=name), tr("the timeline shows them")
        )

    def go(yes: bool | None) -> None:
        if yes:
            request = ChangePolicy("remove", "reservation", (name,))
            call = app.calls.change_policy(request)
            gone = tr("Reservation {name} is gone").format(name=name)
            app.perform(f"flagplot reservation remove {name}", call, success=gone)

    lines = lines_of(app.mirror, one, app.now())
    question = tr("Remove reservation {name}?").format(name=name)
    app.push_screen(ConfirmDialog(question, lines, yes=tr("Yes, remove"), destructive=True), go)


def resume_nodes(app: FlagplotApp, names: list[str]) -> None:
    """Give nodes back to jobs."""
    if refusal := app.why_not("resume"):
        app.failure(tr("Not allowed"), [refusal])
        return
    hosts = compress_hosts(names)
    done = tr("Resumed {nodes}").format(nodes=hosts)
    back = undo.of_resume(app.calls, app.mirror.nodes, names, done)
    app.perform(f"flagplot resume {hosts}", app.calls.resume(tuple(names)), success=done, undo=back)


def register_themes(app: FlagplotApp) -> None:
    """Make our themes and the person's own known; one that cannot be read is told in a popup, the rest work."""
    themes, problems = theming.load_all()
    for theme in themes.values():
        app.register_theme(theme.textual_theme)
    if problems:
        app.failure(tr("Some of your themes cannot be used"), problems)


def set_theme(app: FlagplotApp, name: str | None) -> None:
    """Take a theme by name; without one, `dark`, or `mono` where NO_COLOR is set."""
    name = name or theming.default_name()
    if name not in app.available_themes:
        raise Refused(
            "usage",
            tr("There is no theme '{name}'").format(name=name),
            tr("Known: ") + " ".join(sorted(app.available_themes)),
        )
    app.theme = name


def start_theme(app: FlagplotApp, name: str | None) -> None:
    """Register the themes and take the first; a name that is none is told, and the default taken."""
    register_themes(app)
    try:
        set_theme(app, name)
    except Refused as refused:
        set_theme(app, None)
        app.failure(refused.message, [refused.hint])


VERBS = {
    "job": later("Job …"),
    "resubmit": later("Resubmit …"),
    "cancel": later("Cancel …"),
    "drain": later("Drain …"),
    "resume": later("Resume …"),
    "reboot": later("Reboot …"),
    "reserve": later("Reserve …"),
    "unreserve": later("Unreserve …"),
}
"""Commands of the palette that ask for more."""


def palette(app: FlagplotApp) -> Iterable[SystemCommand]:
    """What ctrl+p lists."""
    for entry in app.views:
        yield SystemCommand(
            tr("View: {title}").format(title=tr(entry.title)),
            tr(":{name}  key {key}").format(name=entry.name, key=entry.key),
            partial(app.action_view, entry.name),
        )
    if app.can("submit"):
        yield SystemCommand(tr("Submit a job"), ":submit", partial(open_submit, app))
    for name in VERBS:
        if name == "job" or not app.read_only:
            yield SystemCommand(tr(VERBS[name]), f":{name}", partial(app.action_command, f"{name} "))
    for theme in sorted(app.available_themes):
        yield SystemCommand(tr("Theme: {name}").format(name=theme), f":theme {theme}", partial(set_theme, app, theme))
    for more in MORE.values():
        yield SystemCommand(tr(more.title), f":{more.name}  {tr(more.help)}", partial(more.from_palette, app))
    yield SystemCommand(tr("Keys"), tr("every key that works here"), app.action_help)
    yield SystemCommand(tr("Command log"), tr("what was run, as CLI commands"), app.action_command_log)
    yield SystemCommand(tr("Quit"), tr(":quit  jobs go on"), partial(app.exit, 0))
