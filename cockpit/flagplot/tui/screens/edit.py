"""The edit form: change a pending or running job, or the time limit and a little more of several at once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from flagplot.tui.undo import Undo, of_update
from flagplot.view.job import dependency_words
from flagplot.view.queue import job_target
from flagplot.view.words import elapsed
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job, State
from flagplot_wire.requests import Update
from flagplot_wire.text import clean
from flagplot_wire.units import parse_memory, parse_time_limit
from flagplot_wire.values import parse_dependency, parse_gpus, parse_node_count

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


@dataclass(frozen=True, slots=True)
class EditField:
    """A field of the form: the name in `Update`, its label, the option of `flagplot update`, an example."""

    name: str
    label: str
    option: str
    example: str = ""
    running: bool = False
    several: bool = False


FIELDS: tuple[EditField, ...] = (
    EditField("time_limit", "Time limit", "--time", "2:00:00, 1-12 (days-hours) or UNLIMITED", True, True),
    EditField("name", "Name", "--job-name"),
    EditField("partition", "Partition", "--partition", several=True),
    EditField("nodes", "Nodes", "--nodes"),
    EditField("cpus_per_task", "CPUs per task", "--cpus-per-task"),
    EditField("memory", "Memory per node", "--mem", "16G"),
    EditField("gpus_per_node", "GPUs per node", "--gpus-per-node", "2 or h100:2"),
    EditField("dependency", "Dependency", "--dependency", "afterok:41"),
    EditField("account", "Account", "--account", several=True),
    EditField("qos", "QoS", "--qos", several=True),
    EditField("reservation", "Reservation", "--reservation", several=True),
    EditField("licenses", "Licenses", "--licenses", "matlab:2"),
    EditField("begin", "Not before", "--begin", "now+1hour or 18:00", several=True),
    EditField("nice", "Nice", "--nice", "0", several=True),
    EditField("array_limit", "At once (array)", "--array-limit", "2"),
    EditField("comment", "Comment", "--comment", "", True, True),
)
CHECKS: dict[str, Callable[[str], object]] = {
    "time_limit": parse_time_limit,
    "memory": parse_memory,
    "gpus_per_node": parse_gpus,
    "dependency": parse_dependency,
    "nodes": parse_node_count,
}
"""What reads a field, so that a mistake shows while it is typed; the controller checks again."""
NUMBERS = frozenset({"nice", "cpus_per_task", "array_limit"})
EXACT = NUMBERS | {"time_limit", "name", "partition", "nodes", "account", "qos", "reservation", "licenses", "comment"}
"""Fields whose former value can be told the way it is typed."""


def value_of(job: Job, name: str) -> str:
    """A field's present value as the person would type it."""
    spec, request = job.spec, job.spec.request
    match name:
        case "time_limit":
            return elapsed_limit(job)
        case "name" | "partition" | "comment" | "account" | "qos" | "reservation":
            return str(getattr(spec, name))
        case "nodes":
            return (
                str(request.nodes_min)
                if request.nodes_min == request.nodes_max
                else (f"{request.nodes_min}-{request.nodes_max}")
            )
        case "cpus_per_task":
            return str(request.cpus_per_task)
        case "memory":
            return "" if request.mem_per_node_mib is None else f"{request.mem_per_node_mib}M"
        case "gpus_per_node":
            return ",".join(f"{one.type}:{one.count}" if one.type else str(one.count) for one in request.gpus_per_node)
        case "dependency":
            return dependency_words(spec.dependency) if spec.dependency else ""
        case "licenses":
            return ",".join(f"{one.name}:{one.count}" for one in request.licenses)
        case "nice":
            return str(spec.nice)
        case "array_limit":
            return str(spec.array.limit) if spec.array else ""
    return ""


def problem_with(field: EditField, value: str) -> str:
    """What is wrong with a typed value, in words (empty: nothing)."""
    if not value:
        return ""
    if field.name in NUMBERS:
        return "" if value.lstrip("-").isdecimal() else f"{field.label} must be a whole number"
    try:
        CHECKS.get(field.name, str)(value)
    except Refused as refused:
        return refused.message
    return ""


def elapsed_limit(job: Job) -> str:
    """The time limit as `-t` takes it."""
    if job.time_limit_s == 0:
        return "UNLIMITED"
    words = elapsed(job.time_limit_s)
    return f"0:{words}" if words.count(":") == 1 and "-" not in words else words


def why_disabled(field: EditField, jobs: Sequence[Job]) -> str:
    """Why a field cannot be changed now (empty: it can)."""
    if field.name == "array_limit" and not all(job.is_array for job in jobs):
        return "only of arrays"
    if len(jobs) > 1 and not field.several:
        return "only one job at a time"
    if not field.running and any(job.status.state != State.PENDING for job in jobs):
        return "only while pending"
    return ""


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
        self._title = f"Edit job {single.display_id}  {single.spec.name}" if single else f"Edit {len(self._jobs)} jobs"

    def compose(self) -> ComposeResult:
        """Fields, the equivalent command, buttons."""
        with Vertical():
            yield Static(Content.styled(clean(self._title), "bold"))
            if len(self._jobs) > 1:
                yield Static(Content(clean(", ".join(job.display_id for job in self._jobs))[:200]))
            with VerticalScroll(can_focus=False):
                for field in FIELDS:
                    reason = why_disabled(field, self._jobs)
                    if reason and field.name == "array_limit":
                        continue
                    with Horizontal(classes="row"):
                        yield Static(Content(field.label))
                        yield Input(
                            clean(self._before[field.name]),
                            placeholder=reason or field.example,
                            id=f"edit-{field.name}",
                            disabled=bool(reason),
                            compact=True,
                        )
            yield Static(Content("Nothing changed yet"), id="edit-line")
            with Horizontal(classes="buttons"):
                yield Button(Content("Close (Esc)"), id="close", compact=True)
                yield Button(Content("Apply (F2)"), id="apply", variant="primary", compact=True)

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    def changes(self) -> dict[str, str]:
        """The fields that differ from what was."""
        found = {}
        for field in FIELDS:
            boxes = self.query(f"#edit-{field.name}")
            if not boxes:
                continue
            box = boxes.first(Input)
            if not box.disabled and box.value.strip() != clean(self._before[field.name]):
                found[field.name] = box.value.strip()
        return found

    def command_line(self) -> str:
        """The same change from a shell."""
        options = {field.name: field.option for field in FIELDS}
        words = [f"{options[name]}={value}" for name, value in self.changes().items()]
        return shlex.join(["flagplot", "update", *(job_target(job) for job in self._jobs), *words])

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the command line as it grows."""
        changes = self.changes()
        problem = ""
        for field in FIELDS:
            wrong = problem_with(field, changes.get(field.name, ""))
            for box in self.query(f"#edit-{field.name}"):
                box.set_class(bool(wrong), "-bad")
            problem = problem or wrong
        line = f"✗ {problem}" if problem else f"$ {self.command_line()}" if changes else "Nothing changed yet"
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
            self.cockpit.say("Nothing was changed")
            return
        for field in FIELDS:
            if problem := problem_with(field, changes.get(field.name, "")):
                self.query_one(f"#edit-{field.name}", Input).focus()
                self.cockpit.failure(problem, ["nothing was sent"])
                return
        values: dict[str, object] = {
            name: int(value) if name in NUMBERS and value else value for name, value in changes.items()
        }
        targets = tuple(job_target(job) for job in self._jobs)
        request = Update(targets, **values)  # type: ignore[arg-type]
        what = targets[0] if len(targets) == 1 else f"{len(targets)} jobs"
        line = self.command_line()
        self.cockpit.perform(
            line,
            self.cockpit.calls.update(request),
            success=f"Changed {what}",
            then=lambda _: self._close(),
            undo=self._undo(changes, f"Changed {what}"),
        )

    def _undo(self, changes: dict[str, str], done: str) -> Undo | None:
        """The way back, where every field that changed can be told as it was."""
        if not changes.keys() <= EXACT:
            return None
        options = {field.name: field.option for field in FIELDS}
        before, lines = {}, []
        for job in self._jobs:
            was = {name: value_of(job, name) for name in changes}
            before[job_target(job)] = {name: int(text) if name in NUMBERS else text for name, text in was.items()}
            words = [f"{options[name]}={text}" for name, text in was.items()]
            lines.append(shlex.join(["flagplot", "update", job_target(job), *words]))
        return of_update(self.cockpit.calls, before, done, lines)

    def _close(self) -> None:
        if self.is_current:
            self.dismiss()
