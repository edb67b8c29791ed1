"""The submit form: checked by the real parser as it is typed, with the start it would get."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.timer import Timer
from textual.widgets import Button, Input, Select, Static, TextArea

from flagplot.language import tr
from flagplot.tui import building, starting
from flagplot.tui.keys import FIELD_KEYS
from flagplot.tui.widgets.path_input import PathSuggester
from flagplot.tui.widgets.pieces import text_of
from flagplot.view.draft import FIELDS, difference_lines, fields_named, source_of
from flagplot.view.starting import Offer
from flagplot.view.words import moment
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Forecast, JobSpec, Payload
from flagplot_wire.replies import Submitted
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

DEBOUNCE_S = 0.3
DIFFERENCES = 6
"""Lines of differences shown below the script."""


class SubmitScreen(ModalScreen[None]):
    """Fields, script, the equivalent command, the estimate. Closing keeps the draft."""

    DEFAULT_CSS = """
    SubmitScreen { background: $background; align: center middle; }
    SubmitScreen > Vertical { padding: 0 1; width: 100%; height: 100%; }
    SubmitScreen #submit-title { height: 1; background: $panel; text-style: bold; padding: 0 1; }
    SubmitScreen #submit-form { height: 1fr; }
    SubmitScreen #submit-fields { width: 46; height: 1fr; padding-right: 1; }
    SubmitScreen #submit-source { width: 1fr; height: 1fr; }
    SubmitScreen .row { height: 1; }
    SubmitScreen .row > .label { width: 17; }
    SubmitScreen .label { color: $text-muted; }
    SubmitScreen .row > Input, SubmitScreen .row > Select {
        width: 1fr; height: 1; border: none; padding: 0 1; background: $boost;
    }
    SubmitScreen .row > Select { padding: 0 0 0 1; }
    SubmitScreen SelectCurrent { padding: 0 1; background: $boost; border: none; }
    SubmitScreen SelectCurrent Static#label { background: transparent; }
    SubmitScreen .row > Input:focus { background: $primary 30%; }
    SubmitScreen .row > Input.-bad { color: $error; text-style: bold; }
    SubmitScreen TextArea { height: 1fr; min-height: 4; border: none; padding: 0 1; background: $boost; }
    SubmitScreen #submit-diff { height: auto; max-height: 7; }
    SubmitScreen #submit-problem { height: auto; max-height: 3; }
    SubmitScreen #submit-problem.-bad { color: $error; }
    SubmitScreen #submit-problem.-wait { color: $warning; }
    SubmitScreen #submit-problem.-good { color: $success; }
    SubmitScreen #submit-line { height: auto; max-height: 2; color: $text-muted; }
    SubmitScreen .buttons { height: 1; align-horizontal: right; }
    SubmitScreen .buttons Button { margin-left: 2; min-width: 0; width: auto; }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        *FIELD_KEYS,
        Binding("escape", "leave", "Close, keep the draft", priority=True),
        Binding("f2,ctrl+s,f5,ctrl+enter", "submit", "Submit", priority=True),
        Binding("f3", "pick", "Pick a script file", priority=True),
        Binding("f4", "start_from", "Start from a template or a job", priority=True),
        Binding("f6", "save_template", "Save as my template", priority=True),
        Binding("f8", "clear", "Empty the form"),
        Binding("enter", "next", "Next field", show=False, priority=True),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Previous field", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._timer: Timer | None = None
        self._ready: tuple[JobSpec, Payload, list[str]] | None = None
        self._sending = False

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    @property
    def draft(self) -> dict[str, str]:
        """What was typed; it outlives the form."""
        return self.cockpit.draft

    def compose(self) -> ComposeResult:
        """The form."""
        with Vertical():
            yield Static(Content(tr("Submit a job")), id="submit-title")
            with Horizontal(id="submit-form"):
                with VerticalScroll(id="submit-fields", can_focus=False):
                    for field in FIELDS:
                        with Horizontal(classes="row"):
                            yield Static(Content(tr(field.label)), classes="label")
                            yield self._widget(field.name, tr(field.example))
                with Vertical(id="submit-source"):
                    with Horizontal(classes="row"):
                        yield Static(Content(tr("Command")), classes="label")
                        yield self._input("command", "python train.py")
                    with Horizontal(classes="row"):
                        yield Static(Content(tr("or script file")), classes="label")
                        yield self._input(
                            "file",
                            tr("not here: no files in this session" if self.cockpit.confined else "F3 picks one"),
                        )
                    with Horizontal(classes="row"):
                        yield Static(Content(tr("Arguments")), classes="label")
                        yield self._input("args", tr("of the script"))
                    yield Static(Content(tr("or script text")), classes="label")
                    yield TextArea(self.draft.get("script", ""), id="draft-script", tab_behavior="focus", compact=True)
                    yield Static(Content(""), id="submit-diff")
            yield Static(Content(""), id="submit-problem")
            yield Static(Content(""), id="submit-line")
            with Horizontal(classes="buttons"):
                yield Button(Content(tr("Close (Esc)")), id="close", compact=True)
                yield Button(Content(tr("Empty (F8)")), id="clear", compact=True)
                yield Button(Content(tr("Start from (F4)")), id="start", compact=True)
                yield Button(Content(tr("Save (F6)")), id="save", compact=True)
                yield Button(Content(tr("Submit (F2)")), id="submit", variant="primary", compact=True)

    def _input(self, name: str, example: str) -> Input:
        suggester = PathSuggester() if name == "file" and not self.cockpit.confined else None
        if name == "gpus":
            kinds = {
                g.type for node in self.cockpit.mirror.nodes.values() if node.inventory for g in node.inventory.gpus
            }
            suggester = SuggestFromList([f"{kind}:{count}" for kind in sorted(kinds) for count in range(1, 9)])  # type: ignore[assignment]
        return Input(
            self.draft.get(name, ""),
            placeholder=example,
            id=f"draft-{name}",
            compact=True,
            suggester=suggester,
            disabled=name == "file" and self.cockpit.confined,
        )

    def _widget(self, name: str, example: str) -> Input | Select[str]:
        if name == "workdir":
            example = building.default_work_dir(self.cockpit.user, self.cockpit.confined)
        if name != "partition":
            return self._input(name, example)
        names = sorted(self.cockpit.mirror.partitions)
        default = next((p.name for p in self.cockpit.mirror.partitions.values() if p.default), "")
        options = [(Content(clean(f"{one} (default)" if one == default else one)), one) for one in names]
        chosen = self.draft.get("partition", "")
        return Select(
            options,
            prompt="default",
            value=chosen if chosen in names else Select.NULL,
            id="draft-partition",
            compact=True,
        )

    def on_mount(self) -> None:
        """Start on the first field, at once: keys typed meanwhile belong there."""
        self.set_focus(self.query_one("#draft-name", Input))
        self._check()

    def on_resize(self) -> None:
        """One column where two do not fit."""
        narrow = self.app.size.width < 96
        self.query_one("#submit-fields").styles.width = 40 if narrow else 52
        for label in self.query(".row > .label"):
            label.styles.width = 16 if narrow else 17

    # typing

    def on_input_changed(self, event: Input.Changed) -> None:
        """Keep and check."""
        self._keep((event.input.id or "").removeprefix("draft-"), event.value)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Keep and check."""
        self._keep("script", event.text_area.text)

    def on_select_changed(self, event: Select.Changed) -> None:
        """Keep and check."""
        self._keep("partition", "" if event.value is Select.NULL else str(event.value))

    def _keep(self, name: str, value: str) -> None:
        if self.draft.get(name, "") == value:
            return
        self.draft[name] = value
        self.draft.pop("key", None)
        self._check()

    def _keep_all(self) -> None:
        """What the fields hold now, though their messages may still be under way."""
        for box in self.query(Input):
            if (box.id or "").startswith("draft-"):
                self._keep((box.id or "").removeprefix("draft-"), box.value)
        self._keep("script", self.query_one(TextArea).text)

    def _check(self) -> None:
        self._ready = None
        bad: list[str] = []
        try:
            source_of(self.draft)
            self._ready = building.build(self.draft, self.cockpit.user, self.cockpit.confined, self.cockpit.now())
        except Refused as refused:
            bad = fields_named(refused.message)
            if refused.message.startswith("Arguments"):
                bad.append("args")
            self._tell(refused.message, refused.hint, "-bad" if bad or refused.code != "usage" else "-wait")
        for name in (*(field.name for field in FIELDS), "args"):
            self.query_one(f"#draft-{name}").set_class(name in bad, "-bad")
        self._show_line()
        if self._timer is not None:
            self._timer.stop()
        if self._ready is not None:
            self._tell(tr("Well formed. Asking when it would start …"), "", "-wait")
            self._timer = self.set_timer(DEBOUNCE_S, self._ask)

    def _show_line(self) -> None:
        """The equivalent command, and what the form says other than the script."""
        try:
            line = "$ " + building.command_line(self.draft)
        except Refused as refused:
            line = refused.message
        self.query_one("#submit-line", Static).update(Content(clean(line)))
        found = difference_lines(building.form_differences(self.draft, self.cockpit.confined), DIFFERENCES)
        shown = Text("\n", no_wrap=True, overflow="ellipsis").join(text_of(self.cockpit, line) for line in found)
        box = self.query_one("#submit-diff", Static)
        box.display = bool(found)
        box.update(shown)

    def _tell(self, words: str, hint: str, kind: str) -> None:
        line = self.query_one("#submit-problem", Static)
        for other in ("-bad", "-wait", "-good"):
            line.set_class(other == kind, other)
        sign = {"-bad": "✗", "-wait": "…", "-good": "✓"}[kind]
        line.update(Content(clean(f"{sign} {words}") + (f"\n  {clean(hint)}" if hint else "")))

    def _ask(self) -> None:
        if self._ready is not None:
            if not self.cockpit.mirror.connected:
                self._tell(tr("Well formed; no estimate while not connected"), "", "-wait")
                return
            self.run_worker(self._estimate(self._ready[0]), group="estimate", exclusive=True)

    async def _estimate(self, spec: JobSpec) -> None:
        try:
            answer = await self.cockpit.calls.estimate(spec)
        except Refused as refused:
            if self._ready and self._ready[0] is spec:
                self._tell(refused.message, refused.hint, "-bad")
            return
        if self._ready and self._ready[0] is spec:
            words, kind = estimate_words(answer.forecast, self.cockpit.now())
            notes = [*answer.forecast.hints, *self._ready[2], *answer.warnings]
            self._tell(words, " · ".join(dict.fromkeys(notes)), kind)

    # actions

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A button."""
        {
            "close": self.action_leave,
            "clear": self.action_clear,
            "start": self.action_start_from,
            "save": self.action_save_template,
            "submit": self.action_submit,
        }[event.button.id or ""]()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter belongs to what has the keyboard, where that is no field of one line."""
        return action != "next" or isinstance(self.focused, Input)

    def action_next(self) -> None:
        """Enter goes to the next field: submitting has its own key."""
        self.focus_next()

    def action_leave(self) -> None:
        """Close; the draft stays."""
        self.dismiss()

    def action_clear(self) -> None:
        """Empty every field."""
        self._fill({})

    def _fill(self, draft: dict[str, str]) -> None:
        """Take another draft in place of what was typed."""
        fresh = dict(draft)
        self.draft.clear()
        for box in self.query(Input):
            if (box.id or "").startswith("draft-"):
                box.value = fresh.get((box.id or "").removeprefix("draft-"), "")
        self.query_one(TextArea).text = fresh.get("script", "")
        if (name := fresh.get("partition", "")) in self.cockpit.mirror.partitions:
            self.query_one(Select).value = name
        else:
            self.query_one(Select).clear()
        self.draft.update(fresh)
        self._check()

    def action_start_from(self) -> None:
        """Choose a template or one of the last jobs; what was typed is asked about before it is replaced."""
        from flagplot.tui.screens.start_from import StartFrom

        self._keep_all()
        self.app.push_screen(StartFrom(), self._started_from)

    def _started_from(self, offer: Offer | None) -> None:
        if offer is None:
            return
        if offer.kind == "job":
            starting.resubmit(self.cockpit, offer.key, self._replace)
        else:
            self._replace(building.harmless({"script": offer.script}))
            for note in building.replaced({"script": offer.script}):
                self.cockpit.say(note)

    def _replace(self, draft: dict[str, str]) -> None:
        starting.ask_to_replace(self.cockpit, lambda: self._fill(draft))

    def action_save_template(self) -> None:
        """Save script and options as a template of one's own, by the job's name."""
        self._keep_all()
        starting.save_template(self.cockpit, self.draft)

    def action_pick(self) -> None:
        """Pick a script file."""
        from flagplot.tui.screens.pick_file import PickFile

        if self.cockpit.confined:
            self.cockpit.failure(tr("No files here"), ["This session may not read files: type a script or a command."])
            return
        start = Path(self.draft.get("file", "") or os.getcwd()).expanduser()

        def take(path: str | None) -> None:
            if path:
                self.query_one("#draft-file", Input).value = path

        self.app.push_screen(PickFile(start if start.is_dir() else start.parent), take)

    def action_submit(self) -> None:
        """Send it; the same draft sent again after a lost answer makes no second job."""
        self._keep_all()
        self._check()
        if self._ready is None or self._sending:
            self.app.bell()
            return
        spec, payload, _ = self._ready
        key = self.draft.setdefault("key", secrets.token_hex(16))
        self.cockpit.perform(
            building.command_line(self.draft),
            self._send(spec, payload, key),
            success=lambda answer: tr("Submitted job {number}").format(number=answer.number),
            then=self._done,
        )

    async def _send(self, spec: JobSpec, payload: Payload, key: str) -> Submitted:
        self._sending = True
        try:
            return await self.cockpit.calls.submit(spec, payload, key)
        finally:
            self._sending = False

    def _done(self, answer: Submitted) -> None:
        self.draft.clear()
        self.cockpit.await_job(answer.number)
        if answer.warnings:
            self.cockpit.say("\n".join(answer.warnings))
        if self.is_current:
            self.dismiss()


def estimate_words(forecast: Forecast, now: int) -> tuple[str, str]:
    """(sentence, class) of an estimate: now, later and behind whom, or never."""
    if forecast.never:
        return tr("Never: {why}").format(why=forecast.never), "-bad"
    place = tr(" on {nodes}").format(nodes=clean(compress_hosts(forecast.nodes))) if forecast.nodes else ""
    if forecast.start is not None and forecast.start <= now + 5:
        return tr("Would start now{place}").format(place=place), "-good"
    behind = [str(number) for reason in forecast.reasons for number in reason.jobs]
    words = tr(" behind {jobs}").format(jobs=", ".join(behind[:4]) + " …" * (len(behind) > 4)) if behind else ""
    if forecast.start is not None:
        return tr("Would start {when}{place}{behind}").format(
            when=moment(forecast.start, now), place=place, behind=words
        ), "-wait"
    why = "; ".join(reason.text or str(reason.why) for reason in forecast.reasons)
    return tr("Would wait{behind}").format(behind=words) + (f": {why}" if why else ""), "-wait"
