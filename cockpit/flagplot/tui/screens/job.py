"""The page of one job: detail, why it waits, dependencies, output, script, what it uses, steps, history."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from flagplot.client.mirror import Mirror
from flagplot.language import later, tr
from flagplot.tui import commands
from flagplot.tui.keys import CHANGES, JOB_ACTIONS
from flagplot.tui.main_view import MainView
from flagplot.tui.shell import open_shell
from flagplot.tui.widgets.job_panes import ChartsPane, DependsTable, HistoryPane, StepsPane
from flagplot.tui.widgets.log_view import LogView
from flagplot.tui.widgets.output_pane import OutputPane, Stream
from flagplot.tui.widgets.text_pane import TextPane
from flagplot.view.job import detail, headline, why
from flagplot.view.queue import job_target
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, Job
from flagplot_wire.text import clean

TITLES = {
    "detail": later("Detail"),
    "why": later("Why pending"),
    "depends": later("Depends"),
    "output": later("Output"),
    "script": later("Script"),
    "usage": later("Usage"),
    "steps": later("Steps"),
    "history": later("History"),
}
TABS = tuple(TITLES)
PANES: dict[str, type[ChartsPane] | type[DependsTable] | type[StepsPane] | type[HistoryPane]] = {
    "usage": ChartsPane,
    "depends": DependsTable,
    "steps": StepsPane,
    "history": HistoryPane,
}
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
SIDE_BY_SIDE = 110
"""From this width on two outputs stand beside each other, below it one above the other."""
POLL_S = 1.0


class JobView(MainView):
    """One job on its tabs; the output is read only while it is on screen."""

    title = "Job"
    CHANGES = CHANGES
    DEFAULT_CSS = """
    JobView > Static { height: 1; padding: 0 1; }
    JobView > #job-head { background: $surface; }
    JobView ContentSwitcher { height: 1fr; }
    JobView #output { height: 1fr; layout: vertical; }
    JobView #output.-wide { layout: horizontal; }
    JobView #output.-wide #output-stderr { margin-left: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.back", "Back"),
        Binding("right_square_bracket,tab", "tab(1)", "Next tab"),
        Binding("left_square_bracket,shift+tab", "tab(-1)", "Previous tab", show=False),
        Binding(
            "slash",
            "app.filter",
            "Search",
            show=False,
            priority=True,
            tooltip="Search the output; Enter looks further up",
        ),
        Binding("enter", "open", "Open", tooltip="Open the job under the cursor"),
        Binding("t", "stream", "stderr", tooltip="Stdout or stderr"),
        Binding("b", "both", "Both", tooltip="Stdout and stderr side by side, or one of them"),
        *JOB_ACTIONS,
        Binding("l", "select('output')", "Logs"),
        Binding("p", "select('why')", "Why"),
        Binding("y", "select('script')", "Script"),
        Binding("d", "select('detail')", "Detail", show=False),
        Binding("i", "select('usage')", "Usage", show=False),
        Binding("D", "select('depends')", "Dependencies", show=False),
        Binding("S", "select('steps')", "Steps and ranks", show=False),
        Binding("H", "select('history')", "History and attempts", show=False),
        Binding("s", "shell", "Shell", show=False),
    ]

    def __init__(self, number: JobNumber, tab: str = "") -> None:
        super().__init__()
        self.number = number
        self.tab = tab if tab in TABS else "detail"
        self._last: Job | None = None
        self._fresh: Forecast | None = None
        self._asked_why: object = None
        self._asked_script = self._both = False
        self._stream: Stream = "stdout"

    def compose(self) -> ComposeResult:
        """Head, tabs, panes."""
        yield Static(Text(""), id="job-head")
        yield Static(Text(""), id="job-tabs")
        with ContentSwitcher(initial=self.tab):
            for name in TABS:
                if name == "output":
                    yield Container(*(OutputPane(stream, lambda: self.job) for stream in STREAMS), id=name)
                elif name in PANES:
                    yield PANES[name](name)
                else:
                    pane = TextPane()
                    pane.id = name
                    yield pane

    def on_mount(self) -> None:
        """Poll the output; a poll does nothing unless the tab is on screen."""
        self.set_interval(POLL_S, self._poll)
        self._draw_tabs()

    @property
    def job(self) -> Job | None:
        """The job as last known (it stays on the page when it is forgotten)."""
        self._last = self.cockpit.mirror.jobs.get(self.number, self._last)
        return self._last

    def aimed_jobs(self) -> list[Job]:
        """This one."""
        return [self.job] if self.job else []

    @property
    def crumb(self) -> str:
        """The job's id."""
        return f"job {self.job.display_id}" if self.job else f"job {self.number}"

    @property
    def counts(self) -> str:
        """Nothing: the page's head tells."""
        return ""

    def _pane(self, name: str) -> TextPane:
        return self.query_one(f"#{name}", TextPane)

    def show(self, mirror: Mirror, now: int) -> None:
        """Bring the visible tab up to date."""
        job = self.job
        if job is None:
            return
        head = Text(no_wrap=True, overflow="ellipsis")
        for text, role in headline(mirror, job, now):
            style = self.cockpit.owner_style(role[6:]) if role.startswith("owner:") else self.cockpit.role(role)
            head.append(text, style)
        if head.markup != getattr(self, "_head", None):
            self._head = head.markup
            self.query_one("#job-head", Static).update(head)
        self.query_one(ChartsPane).watch_job(mirror, job)
        if self.tab in PANES:
            self.query_one(f"#{self.tab}", PANES[self.tab]).show_job(mirror, job, now)
        elif self.tab == "output":
            self._show_panes()
            for pane in self.query(OutputPane):
                # Another theme has other styles.
                pane.draw_state()
        elif self.tab == "detail":
            self._pane("detail").show_lines(detail(mirror, job, now))
        elif self.tab == "why":
            self._ask_why(job)
            self._pane("why").show_lines(why(mirror, job, mirror.forecasts.get(job.number) or self._fresh, now))
        elif self.tab == "script" and not self._asked_script:
            self._asked_script = True
            self._pane("script").show_text(tr("Asking for the script …"))
            self.run_worker(self._read_script(job_target(job)), group="script")

    def focus_target(self) -> Widget:
        """What the visible tab scrolls."""
        return self.log if self.tab == "output" else self.query_one(f"#{self.tab}")

    # tabs

    def _draw_tabs(self) -> None:
        line = Text(no_wrap=True)
        for name in TABS:
            line.append(f" {tr(TITLES[name])} ", self.cockpit.role("tab-on" if name == self.tab else "tab"))
            line.append(" ")
        self.query_one("#job-tabs", Static).update(line)

    def entered(self) -> None:
        """Show the tab asked for."""
        self.query_one(ContentSwitcher).current = self.tab
        self._draw_tabs()
        self._show_panes()
        self.pane.look_again()
        self._poll()

    def select(self, tab: str) -> None:
        """Show a tab."""
        if tab not in TABS:
            return
        self.tab = tab
        self.entered()
        self.focus_target().focus()
        self.cockpit.show_now()

    def action_select(self, tab: str) -> None:
        """Show a tab."""
        self.select(tab)

    def action_tab(self, step: int) -> None:
        """The next or previous tab."""
        self.select(TABS[(TABS.index(self.tab) + step) % len(TABS)])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Streams belong to the output; what can be opened is another job."""
        if action in ("stream", "both") and self.tab != "output":
            return False
        if action == "open":
            return self.tab == "depends"
        return super().check_action(action, parameters)

    @property
    def can_filter(self) -> bool:
        """`/` searches the output."""
        return self.tab == "output"

    @property
    def filter_text(self) -> str:
        """What is searched."""
        return self.log.search

    def filter_changed(self, text: str) -> None:
        """Search the output as typed."""
        self.pane.stop_search()
        self.log.find(text)
        self.cockpit.show_now()

    def filter_accepted(self) -> None:
        """What is not in the piece that is held is looked for further up."""
        if not self.log.has_match:
            self.pane.search_older()

    def escape(self) -> bool:
        """The search first."""
        if self.tab == "output" and self.pane.stop_search():
            return True
        if self.tab == "output" and self.log.search:
            self.log.find("")
            return True
        return False

    # why, script

    def _ask_why(self, job: Job) -> None:
        key = (job.status, self.cockpit.mirror.forecasts.get(job.number), self.cockpit.now() // 10)
        if key != self._asked_why and self.cockpit.mirror.connected:
            self._asked_why = key
            self.run_worker(self._explain(job_target(job)), group="explain", exclusive=True)

    async def _explain(self, target: str) -> None:
        try:
            answer = await self.cockpit.calls.explain(target)
        except Refused:
            # The tab keeps what is known; that the controller is away stands on the top line.
            return
        self._fresh = answer.forecast
        self.cockpit.show_now()

    async def _read_script(self, target: str) -> None:
        try:
            answer = await self.cockpit.calls.script(target)
        except Refused as refused:
            self._asked_script = refused.code != "no_controller"
            self._pane("script").show_text(f"Cannot show the script: {clean(refused.message)}\n{clean(refused.hint)}")
            return
        args = f"# arguments: {clean(' '.join(answer.args))}\n" if answer.args else ""
        self._pane("script").show_text(args + clean(answer.script.expandtabs(8), keep_newlines=True))

    # output

    @property
    def pane(self) -> OutputPane:
        """The output that keys go to."""
        return self.query_one(f"#output-{self._stream}", OutputPane)

    @property
    def log(self) -> LogView:  # type: ignore[override]
        """Its window."""
        return self.pane.log

    def _poll(self) -> None:
        if self.tab == "output" and self.cockpit.active_view is self and self.screen.is_current:
            for pane in self.query(OutputPane) if self._both else (self.pane,):
                pane.poll()

    def _show_panes(self) -> None:
        for pane in self.query(OutputPane):
            pane.display = self._both or pane is self.pane
        self.query_one("#output").set_class(self.size.width >= SIDE_BY_SIDE, "-wide")

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """A click into one of two outputs takes it."""
        if isinstance(event.widget, LogView) and isinstance(pane := event.widget.parent, OutputPane):
            self._stream = pane.stream

    def _one_file(self) -> bool:
        if self.job is None or self.job.spec.stderr:
            return False
        self.cockpit.say(tr("stderr goes into the same file as stdout"))
        return True

    def action_stream(self) -> None:
        """Go to the other of stdout and stderr."""
        if self._stream == "stdout":
            self._one_file()
        self._stream = "stderr" if self._stream == "stdout" else "stdout"
        self._show_panes()
        self.pane.look_again()
        self.log.focus()
        self._poll()

    def action_both(self) -> None:
        """Stdout and stderr side by side, or one of them."""
        if self._both or not self._one_file():
            self._both = not self._both
            self._show_panes()
            self._poll()

    # actions

    def on_virtual_table_opened(self) -> None:
        """A click opens."""
        self.action_open()

    def action_open(self) -> None:
        """Another job's page, from the tree of dependencies."""
        if (job := self.query_one(DependsTable).job_here) is not None:
            self.cockpit.open_job(job.number, "depends")
        else:
            self.cockpit.say(tr("No job under the cursor that is still in the queue"))

    def _act(self, verb: str) -> None:
        if self.job is not None:
            commands.act(self.cockpit, verb, [job_target(self.job)])

    def action_shell(self) -> None:
        """A shell inside the job."""
        if self.job is not None:
            open_shell(self.cockpit, job_target(self.job), self.job.status.state == "RUNNING", self.job.user)

    def action_submit(self) -> None:
        """The submit form."""
        commands.open_submit(self.cockpit)

    def action_resubmit(self) -> None:
        """The submit form with this job."""
        if self.job is not None:
            commands.open_resubmit(self.cockpit, job_target(self.job))

    def action_edit(self) -> None:
        """The edit form."""
        if self.job is not None:
            commands.open_edit(self.cockpit, [job_target(self.job)])

    def action_hold(self) -> None:
        """Hold."""
        self._act("hold")

    def action_release(self) -> None:
        """Release."""
        self._act("release")

    def action_cancel(self) -> None:
        """Cancel, after asking."""
        self._act("cancel")

    def action_requeue(self) -> None:
        """Requeue, after asking."""
        self._act("requeue")
