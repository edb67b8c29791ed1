"""The edit form: change a pending or running job, or the time limit and a little more of several at once."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from flagplot.language import tr, tr_count
from flagplot.tui import rights
from flagplot.tui.keys import FIELD_KEYS
from flagplot.tui.screens.confirm import ConfirmDialog
from flagplot.tui.undo import Undo, of_update
from flagplot.view.edit import EXACT, FIELDS, NUMBERS, changed_ones, edit_lines, problem_with, value_of, why_disabled
from flagplot.view.queue import job_target
from flagplot_wire.job import Job
from flagplot_wire.requests import Update
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


class EditScreen(ModalScreen[None]):
    """Only what was changed is sent; the same as a `flagplot update` command is shown below."""

    DEFAULT_CSS = """
    EditScreen { align: center middle; }
    EditScreen > Vertical {
        width: 74; max-width: 97%; height: auto; max-height: 95%;
        border: round $primary; padding: 0 1; background: $surface;
    }
    EditScreen VerticalScroll { height: auto; max-height: 16; }
    EditScreen .row { height: 1; }
    EditScreen .row Static { width: 18; color: $text-muted; }
    EditScreen .row Input { width: 1fr; height: 1; border: none; padding: 0 1; background: $boost; }
    EditScreen .row Input:focus { background: $primary 30%; }
    EditScreen .row Input.-bad { color: $error; }
    EditScreen #edit-line { height: auto; max-height: 3; margin-top: 1; color: $text-muted; }
    EditScreen .buttons { height: auto; align-horizontal: right; }
    EditScreen Button { margin-left: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *FIELD_KEYS,
        Binding("escape", "dismiss", "Close"),
        Binding("ctrl+s,f2,f5", "apply", "Apply"),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Previous field", show=False),
    ]

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__()
        self._jobs = list(jobs)
        single = self._jobs[0] if len(self._jobs) == 1 else None
        shared = {f.name: {value_of(job, f.name) for job in self._jobs} for f in FIELDS}
        self._before = {name: values.pop() if len(values) == 1 else "" for name, values in shared.items()}
        self._title = (
            f"{tr('Edit job {job}').format(job=single.display_id)}  {single.spec.name}"
            if single
            else tr_count("Edit {count} job", "Edit {count} jobs", len(self._jobs))
        )

    def compose(self) -> ComposeResult:
        """Fields, the equivalent command, buttons."""
        with Vertical():
            yield Static(Content.styled(clean(self._title), "bold"))
            if len(self._jobs) > 1:
                yield Static(Content(clean(", ".join(job.display_id for job in self._jobs))[:200]))
            with VerticalScroll(can_focus=False):
                for field in FIELDS:
                    reason = why_disabled(field, self._jobs, self.operator)
                    if reason and field.name == "array_limit":
                        continue
                    with Horizontal(classes="row"):
                        yield Static(Content(tr(field.label)))
                        yield Input(
                            clean(self._before[field.name]),
                            placeholder=reason or tr(field.example),
                            id=f"edit-{field.name}",
                            disabled=bool(reason),
                            compact=True,
                        )
            yield Static(Content(tr("Nothing changed yet")), id="edit-line")
            with Horizontal(classes="buttons"):
                yield Button(Content(tr("Close (Esc)")), id="close", compact=True)
                yield Button(Content(tr("Apply (F2)")), id="apply", variant="primary", compact=True)

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    @property
    def operator(self) -> bool:
        """Whether we may do what only operators may."""
        return rights.role_word(self.cockpit.welcome) != "user"

    def changes(self) -> dict[str, str]:
        """The fields that differ from what was."""
        found = {}
        for field in FIELDS:
            boxes = self.query(f"#edit-{field.name}")
            if not boxes:
                continue
            box = boxes.first(Input)
            value = box.value.strip()
            if not box.disabled and value != clean(self._before[field.name]):
                found[field.name] = value
        return found

    def command_line(self, jobs: Sequence[Job] | None = None) -> str:
        """The same change from a shell, of all jobs or of some."""
        options = {field.name: field.option for field in FIELDS}
        words = [f"{options[name]}={value}" for name, value in self.changes().items()]
        return shlex.join(["flagplot", "update", *map(job_target, self._jobs if jobs is None else jobs), *words])

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the command line as it grows."""
        changes = self.changes()
        problem = ""
        for field in FIELDS:
            wrong = problem_with(field, changes.get(field.name))
            for box in self.query(f"#edit-{field.name}"):
                box.set_class(bool(wrong), "-bad")
            problem = problem or wrong
        line = f"✗ {problem}" if problem else f"$ {self.command_line()}" if changes else tr("Nothing changed yet")
        self.query_one("#edit-line", Static).update(Content(clean(line)))

    def on_input_submitted(self) -> None:
        """Enter applies."""
        self.action_apply()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A button."""
        if event.button.id == "apply":
            self.action_apply()
        else:
            self.dismiss()

    def action_apply(self) -> None:
        """Send what changed."""
        changes = self.changes()
        if not changes:
            self.cockpit.say(tr("Nothing was changed"))
            return
        for field in FIELDS:
            if problem := problem_with(field, changes.get(field.name)):
                self.query_one(f"#edit-{field.name}", Input).focus()
                self.cockpit.failure(problem, [tr("nothing was sent")])
                return
        if len(self._jobs) == 1:
            self._send(self._jobs, changes)
            return
        # The queue moved on while the form was open.
        jobs = [self.cockpit.mirror.jobs.get(job.number, job) for job in self._jobs]
        some = changed_ones(jobs, changes, self.operator)
        lines = edit_lines(jobs, changes, self.operator)
        if not some:
            self.cockpit.failure(tr("Nothing would change"), lines)
            return

        def go(yes: bool | None) -> None:
            if yes:
                self._send(some, changes)

        left = len(jobs) - len(some)
        note = tr_count("{count} job left as it is.", "{count} jobs left as they are.", left) if left else ""
        question = tr_count("Change {count} job?", "Change {count} jobs?", len(some))
        self.app.push_screen(ConfirmDialog(question, lines, yes=tr("Yes, change"), note=note), go)

    def _send(self, jobs: Sequence[Job], changes: dict[str, str]) -> None:
        values: dict[str, object] = {
            name: int(value) if name in NUMBERS and value else value for name, value in changes.items()
        }
        targets = tuple(job_target(job) for job in jobs)
        request = Update(targets, **values)  # type: ignore[arg-type]
        what = targets[0] if len(targets) == 1 else tr_count("{count} job", "{count} jobs", len(targets))
        self.cockpit.perform(
            self.command_line(jobs),
            self.cockpit.calls.update(request),
            success=tr("Changed {what}").format(what=what),
            then=lambda _: self._close(),
            undo=self._undo(jobs, changes, f"Changed {what}"),
        )

    def _undo(self, jobs: Sequence[Job], changes: dict[str, str], done: str) -> Undo | None:
        """The way back, where every field that changed can be told as it was."""
        if not changes.keys() <= EXACT:
            return None
        options = {field.name: field.option for field in FIELDS}
        before, lines = {}, []
        for job in jobs:
            was = {name: value_of(job, name) for name in changes}
            before[job_target(job)] = {name: int(text) if name in NUMBERS else text for name, text in was.items()}
            words = [f"{options[name]}={text}" for name, text in was.items()]
            lines.append(shlex.join(["flagplot", "update", job_target(job), *words]))
        return of_update(self.cockpit.calls, before, done, lines)

    def _close(self) -> None:
        if self.is_current:
            self.dismiss()
