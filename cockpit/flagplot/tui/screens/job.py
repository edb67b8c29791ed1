"""The page of one job: detail, why it waits, its output, its script, what it uses."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from flagplot.client.mirror import Mirror
from flagplot.tui import commands
from flagplot.tui.keys import CHANGES, JOB_ACTIONS
from flagplot.tui.main_view import MainView
from flagplot.tui.shell import open_shell
from flagplot.tui.widgets.log_view import LogView
from flagplot.tui.widgets.text_pane import TextPane
from flagplot.view.job import detail, headline, usage, why
from flagplot.view.queue import job_target
from flagplot.view.words import memory
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, Job
from flagplot_wire.requests import ReadOutput
from flagplot_wire.text import clean

TABS = ("detail", "why", "output", "script", "usage")
TITLES = {"detail": "Detail", "why": "Why pending", "output": "Output", "script": "Script", "usage": "Usage"}
PIECE = 65_536
"""Bytes read at a time."""
POLL_S = 1.0


class JobView(MainView):
    """One job on five tabs; the output is read only while it is on screen."""

    title = "Job"
    CHANGES = CHANGES
    DEFAULT_CSS = """
    JobView > Static { height: 1; padding: 0 1; }
    JobView > #job-head { background: $surface; }
    JobView #log-state { height: 1; padding: 0 1; background: $surface; }
    JobView ContentSwitcher { height: 1fr; }
    JobView #output { height: 1fr; layout: vertical; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.back", "Back"),
        Binding("right_square_bracket,tab", "tab(1)", "Next tab"),
        Binding("left_square_bracket,shift+tab", "tab(-1)", "Previous tab", show=False),
        Binding("t", "stream", "stderr"),
        *JOB_ACTIONS,
        Binding("l", "select('output')", "Logs"),
        Binding("p", "select('why')", "Why"),
        Binding("y", "select('script')", "Script"),
        Binding("d", "select('detail')", "Detail", show=False),
        Binding("i", "select('usage')", "Usage", show=False),
        Binding("s", "shell", "Shell", show=False),
    ]

    def __init__(self, number: JobNumber, tab: str = "") -> None:
        super().__init__()
        self.number = number
        self.tab = tab if tab in TABS else "detail"
        self._last: Job | None = None
        self._fresh: Forecast | None = None
        self._asked_why: object = None
        self._asked_script = self._reading = False
        self._stream: str = "stdout"
        self._place = self._trouble = ""
        self._ended = False
        self._wait = 0

    def compose(self) -> ComposeResult:
        """Head, tabs, panes."""
        yield Static(Text(""), id="job-head")
        yield Static(Text(""), id="job-tabs")
        with ContentSwitcher(initial=self.tab):
            for name in TABS:
                pane: Widget = OutputPane() if name == "output" else TextPane()
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

    @property
    def log(self) -> LogView:  # type: ignore[override]
        """The output."""
        return self.query_one(LogView)

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
        if self.tab == "detail":
            self._pane("detail").show_lines(detail(mirror, job, now))
        elif self.tab == "why":
            self._ask_why(job)
            self._pane("why").show_lines(why(mirror, job, mirror.forecasts.get(job.number) or self._fresh, now))
        elif self.tab == "usage":
            self._pane("usage").show_lines(usage(mirror, job, now, self.size.width))
        elif self.tab == "script" and not self._asked_script:
            self._asked_script = True
            self._pane("script").show_text("Asking for the script …")
            self.run_worker(self._read_script(job_target(job)), group="script")

    def focus_target(self) -> Widget:
        """What the visible tab scrolls."""
        return self.log if self.tab == "output" else self._pane(self.tab)

    # tabs

    def _draw_tabs(self) -> None:
        line = Text(no_wrap=True)
        for name in TABS:
            line.append(f" {TITLES[name]} ", self.cockpit.role("tab-on" if name == self.tab else "tab"))
            line.append(" ")
        self.query_one("#job-tabs", Static).update(line)

    def entered(self) -> None:
        """Show the tab asked for."""
        self.query_one(ContentSwitcher).current = self.tab
        self._draw_tabs()
        self._wait = 0
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
        """`t` belongs to the output."""
        if action == "stream" and self.tab != "output":
            return False
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
        self.log.find(text)
        self.draw_log_state()

    def escape(self) -> bool:
        """The search first."""
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
        except Refused as refused:
            self._trouble = refused.message
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

    def _poll(self) -> None:
        visible = self.tab == "output" and self.cockpit.active_view is self and self.screen.is_current
        if not visible or self._reading or self.job is None or self.log.tail_cut:
            return
        self._wait -= 1
        if self._wait <= 0:
            fresh = not self.log.end
            self._read(-PIECE if fresh else self.log.end)

    def _read(self, offset: int, limit: int = PIECE) -> None:
        if self.job is not None and not self._reading:
            self._reading = True
            request = ReadOutput(job_target(self.job), self._stream, offset, limit)  # type: ignore[arg-type]
            self.run_worker(self._fetch(request), group="output")

    async def _fetch(self, request: ReadOutput) -> None:
        try:
            answer = await self.cockpit.calls.output(request)
        except Refused as refused:
            self._trouble, self._wait = refused.message, 3
            self.draw_log_state()
            return
        finally:
            self._reading = False
        if request.stream != self._stream:
            return
        self._trouble, self._ended = "", answer.ended
        self._place = f"{clean(answer.node)}:{clean(answer.path)}"
        if answer.size < self.log.end:
            self.log.reset()
            self._trouble = "the file became shorter: reading it anew"
        else:
            self.log.take(answer.offset, answer.data, answer.size)
        behind = self.log.end < answer.size and request.offset >= self.log.start
        if behind and answer.size - self.log.end > 4 * PIECE and self.log.following:
            self.log.reset()
            self._read(-PIECE)
        elif behind and answer.data and not self.log.tail_cut:
            self._read(self.log.end)
        self._wait = 5 if answer.ended and not behind else 0
        self.draw_log_state()

    def on_log_view_wants_older(self) -> None:
        """Read the piece before what is held."""
        start = self.log.start
        self._read(max(0, start - PIECE), min(PIECE, start))

    def on_log_view_wants_end(self) -> None:
        """Read the end anew."""
        self.log.reset()
        self._read(-PIECE)

    def on_log_view_changed(self) -> None:
        """Tell follow and wrap."""
        self.draw_log_state()

    def draw_log_state(self) -> None:
        """The line over the output: which file, how much of it, follow, wrap."""
        log, role = self.log, self.cockpit.role
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{self._stream} ", role("bold"))
        line.append(
            "following " if log.following else "paused (f follows) ", role("good" if log.following else "warning")
        )
        if not log.wrapping:
            line.append("not wrapped (← →) ", role("dim"))
        if log.search:
            line.append(f"/{clean(log.search)} (n next) ", role("match"))
        if log.binary:
            line.append("binary data, made safe ", role("warning"))
        if log.size_of_file:
            held = log.end - log.start
            line.append(f"{size_words(held)} of {size_words(log.size_of_file)} ", role("plain"))
            if log.start:
                line.append("(g g reads older) ", role("dim"))
        elif self._place and not self._trouble:
            line.append("nothing written yet " if not self._ended else "nothing was written ", role("dim"))
        if self._ended:
            line.append("ended ", role("dim"))
        if self._trouble:
            line.append(clean(self._trouble) + " ", role("warning"))
        line.append(self._place, role("dim"))
        self.query_one("#log-state", Static).update(line)

    def action_stream(self) -> None:
        """Switch between stdout and stderr."""
        if self.job is not None and not self.job.spec.stderr and self._stream == "stdout":
            self.cockpit.say("stderr goes into the same file as stdout")
        self._stream = "stderr" if self._stream == "stdout" else "stdout"
        self._place = self._trouble = ""
        self.log.reset()
        self._wait = 0
        self.draw_log_state()
        self._poll()

    # actions

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


class OutputPane(Widget):
    """The state line and the log."""

    def compose(self) -> ComposeResult:
        """Both."""
        yield Static(Text(""), id="log-state")
        yield LogView()


def size_words(size: int) -> str:
    """Bytes for reading."""
    return f"{size} B" if size < 1_024 else f"{size // 1_024} KiB" if size < 1_048_576 else memory(size // 1_048_576)
