"""One of a job's outputs: a window on its file, read piece by piece from the node that has it, only while it is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import Worker

from flagplot.language import tr
from flagplot.tui.widgets.log_view import LogView
from flagplot.view.queue import job_target
from flagplot.view.words import memory
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job
from flagplot_wire.replies import Output
from flagplot_wire.requests import ReadOutput
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

PIECE = 65_536
"""Bytes read at a time."""
Stream = Literal["stdout", "stderr"]


class OutputPane(Widget):
    """A line that tells which file, how much of it, follow, wrap, search; and the log."""

    DEFAULT_CSS = """
    OutputPane { height: 1fr; width: 1fr; layout: vertical; }
    OutputPane #log-state { height: 1; padding: 0 1; background: $surface; }
    """

    def __init__(self, stream: Stream, job: Callable[[], Job | None]) -> None:
        super().__init__(id=f"output-{stream}")
        self.stream: Stream = stream
        self.reading = False
        self._job = job
        self._log, self._state = LogView(), Static(Text(""), id="log-state")
        self._drawn: Text | None = None
        self._place = self._trouble = ""
        self._ended = False
        self._wait = 0
        self._searching: int | None = None
        """How much of the file is still to be searched; None: nothing is searched for."""
        self._search: Worker[None] | None = None
        self._verdict = ("", "")
        """What was searched for further up last, and why nothing was found."""

    def compose(self) -> ComposeResult:
        """Both."""
        yield self._state
        yield self._log

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    @property
    def log(self) -> LogView:  # type: ignore[override]
        """The window."""
        return self._log

    def look_again(self) -> None:
        """Do not wait for the next poll's turn."""
        self._wait = 0

    # reading

    def poll(self) -> None:
        """Read what is new; called every second while the pane is on screen."""
        if self.reading or self._job() is None or self.log.tail_cut or self._searching is not None:
            return
        self._wait -= 1
        if self._wait <= 0:
            fresh = not self.log.end
            self._read(-PIECE if fresh else self.log.end)

    def _request(self, offset: int, limit: int, search: str = "") -> ReadOutput:
        job = self._job()
        return ReadOutput(job_target(job) if job is not None else "", self.stream, offset, limit, search)

    def _read(self, offset: int, limit: int = PIECE) -> None:
        if self._job() is not None and not self.reading:
            self.reading = True
            self.run_worker(self._fetch(self._request(offset, limit)), group="output")

    async def _fetch(self, request: ReadOutput) -> None:
        log = self.log
        held = (log.start, log.end)
        try:
            answer = await self.cockpit.calls.output(request)
        except Refused as refused:
            self._trouble, self._wait = refused.message, 3
            self.draw_state()
            return
        finally:
            self.reading = False
        if (log.start, log.end) != held:
            # A search went elsewhere meanwhile.
            return
        self._told(answer)
        if answer.size < log.end:
            log.reset()
            self._trouble = "the file became shorter: reading it anew"
        else:
            log.take(answer.offset, answer.data, answer.size)
        behind = log.end < answer.size and request.offset >= log.start
        if behind and answer.size - log.end > 4 * PIECE and log.following:
            log.reset()
            self._read(-PIECE)
        elif behind and answer.data and not log.tail_cut:
            self._read(log.end)
        self._wait = 5 if answer.ended and not behind else 0
        self.draw_state()

    def _told(self, answer: Output) -> None:
        self._trouble, self._ended = "", answer.ended
        self._place = f"{clean(answer.node)}:{clean(answer.path)}"

    def on_log_view_wants_older(self) -> None:
        """Read the piece before what is held."""
        start = self.log.start
        self._read(max(0, start - PIECE), min(PIECE, start))

    def on_log_view_wants_newer(self) -> None:
        """Read the piece after what is held, where that is not the end."""
        self._read(self.log.end)

    def on_log_view_wants_end(self) -> None:
        """Read the end anew."""
        self.log.reset()
        self._read(-PIECE)

    # searching what is not held

    def search_older(self) -> None:
        """Have the node look for the last match before what is held."""
        log = self.log
        if log.search and log.start > 0 and self._job() is not None:
            self.stop_search()
            self._searching = log.start
            self._search = self.run_worker(self._look(log.search, log.start), group="search")
            self.draw_state()

    def stop_search(self) -> bool:
        """Give up a search that is under way; False when there is none."""
        if self._searching is None:
            return False
        if self._search is not None:
            self._search.cancel()
        self._searching = self._search = None
        self.draw_state()
        return True

    async def _look(self, words: str, before: int) -> None:
        self._verdict = ("", "")
        try:
            while before > 0:
                answer = await self.cockpit.calls.output(self._request(before, PIECE, words))
                self._told(answer)
                if answer.found >= 0:
                    self.log.place(answer.offset, answer.data, answer.size, answer.found)
                    break
                if not 0 <= answer.searched < before:
                    raise Refused("unavailable", tr("the node's agent is older and cannot search"))
                before = self._searching = answer.searched
                self.draw_state()
            else:
                self._verdict = (words, tr("nothing further up matches"))
        except Refused as refused:
            self._verdict = (words, refused.message)
        self._searching = None
        self.draw_state()

    def on_log_view_wants_earlier(self) -> None:
        """The first match held is passed: look before what is held."""
        self.search_older()

    def on_log_view_changed(self) -> None:
        """Tell follow and wrap."""
        self.draw_state()

    # telling

    def draw_state(self) -> None:
        """Tell in a line which file it is, how much of it is held, and what goes on."""
        log, role = self.log, self.cockpit.role
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{self.stream} ", role("bold"))
        line.append(
            tr("following ") if log.following else tr("paused (f follows) "),
            role("good" if log.following else "warning"),
        )
        if not log.wrapping:
            line.append(tr("not wrapped (← →) "), role("dim"))
        if self._searching is not None:
            line.append(
                tr("searching, {size} to go (Esc stops) ").format(size=size_words(self._searching)), role("match")
            )
        elif log.search:
            verdict = self._verdict[1] if log.search == self._verdict[0] else ""
            keys = "(n N) " if log.has_match else "" if verdict else tr("(N searches further up) ")
            line.append(f"/{clean(log.search)} {keys}", role("match"))
            line.append(clean(f"{verdict} ") if verdict else "", role("warning"))
        if log.binary:
            line.append(tr("binary data, made safe "), role("warning"))
        if log.size_of_file:
            held = log.end - log.start
            words = tr("{held} of {all} ").format(held=size_words(held), all=size_words(log.size_of_file))
            line.append(words, role("plain"))
            if log.tail_cut:
                line.append(tr("(G goes to the end) "), role("dim"))
            elif log.start:
                line.append(tr("(g g reads older) "), role("dim"))
        elif self._place and not self._trouble:
            line.append(tr("nothing was written ") if self._ended else tr("nothing written yet "), role("dim"))
        if self._ended:
            line.append(tr("ended "), role("dim"))
        if self._trouble:
            line.append(clean(self._trouble) + " ", role("warning"))
        line.append(self._place, role("dim"))
        if line != self._drawn:
            self._drawn = line
            self._state.update(line)


def size_words(size: int) -> str:
    """Bytes for reading."""
    return f"{size} B" if size < 1_024 else f"{size // 1_024} KiB" if size < 1_048_576 else memory(size // 1_048_576)
