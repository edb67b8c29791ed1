"""Pulse: how the cluster is, in eight dials; Enter opens the list that a dial counts."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.tui.main_view import MainView
from flagplot.tui.widgets.dials import Dials
from flagplot.view.pulse import EVERY_S, KEPT, Reading, dials, read, span_words
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean


class PulseView(MainView):
    """Reads the figures every few seconds from when it is first shown, so that their past is there when one comes back."""

    title = "Pulse"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="The list that the dial counts"),
        Binding("tab", "next(1)", "Next dial"),
        Binding("shift+tab", "next(-1)", "Previous dial", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.readings: deque[Reading] = deque(maxlen=KEPT)
        self._cycle_us: int | None = None
        self._epoch = 0
        self._shown: object = None

    def compose(self) -> ComposeResult:
        """Only the dials."""
        yield Dials()

    def on_mount(self) -> None:
        """Go on reading while other views are shown."""
        self.set_interval(EVERY_S, self._read)

    @property
    def dials(self) -> Dials:
        """The dials."""
        return self.query_one(Dials)

    @property
    def counts(self) -> str:
        """How far back the past goes."""
        return span_words(self.readings)

    def focus_target(self) -> Widget:
        """The dials."""
        return self.dials

    def entered(self) -> None:
        """Read at once."""
        self._read()

    def _read(self) -> None:
        mirror, now = self.cockpit.mirror, self.cockpit.now()
        if not (mirror.complete and mirror.connected) or (self.readings and now - self.readings[-1].time < EVERY_S):
            return
        if mirror.epoch != self._epoch:
            # Another life of the controller: its figures do not go on from those.
            self._epoch, self._cycle_us = mirror.epoch, None
        self.cockpit.fleet.update(mirror)
        self.readings.append(read(mirror, self.cockpit.fleet, now, self._cycle_us))
        if self.cockpit.active_view is self:
            self.run_worker(self._ask(), group="pulse", exclusive=True)
            self.cockpit.show_now()

    async def _ask(self) -> None:
        """How long the last scheduling cycle took; it is in the next reading, and in this one while it has none."""
        try:
            status = await self.cockpit.calls.status(agents=False)
        except Refused:
            self._cycle_us = None
            return
        self._cycle_us = status.last_cycle_us
        if self.readings and self.readings[-1].cycle_us is None:
            mirror = self.cockpit.mirror
            last = self.readings.pop()
            self.readings.append(read(mirror, self.cockpit.fleet, last.time, self._cycle_us))
            self.cockpit.show_now()

    def show(self, mirror: Mirror, now: int) -> None:
        """Draw the latest reading."""
        if not self.readings:
            self._read()
        wanted = (len(self.readings), self.readings[-1] if self.readings else None, self.size)
        if wanted != self._shown:
            self._shown = wanted
            self.dials.empty = [
                tr("Waiting for the controller"),
                clean(mirror.problem) or "the dials come with its first answer",
            ]
            self.dials.set_dials(dials(self.readings))

    # keys

    def on_dials_opened(self) -> None:
        """A click opens."""
        self.action_open()

    def action_next(self, step: int) -> None:
        """The next or previous dial."""
        self.dials.action_move(step, 0)

    def action_open(self) -> None:
        """The list that is counted."""
        if (dial := self.dials.current) is not None:
            self.cockpit.action_view(dial.view, dial.filter)
