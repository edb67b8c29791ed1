"""Interactive jobs live as long as the connection of the client that made them, and a little longer."""

from __future__ import annotations

from flagplot_wire.ids import JobNumber
from flagplotd.core.stimuli import EndInteractive
from flagplotd.service import clock
from flagplotd.service.loop import Loop

GRACE_S = 60
"""For a client to come back: its network, or this controller, was away."""
SEARCH_S = 10
"""All jobs are looked through for interactive ones at most so often, and only after something happened."""


class Claims:
    """Who holds which interactive job; `look` is called every second."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._holders: dict[JobNumber, object] = {}
        self._alone_since: dict[JobNumber, float] = {}
        self._interactive: set[JobNumber] = set()
        self._searched = (-1, 0.0)

    def take(self, number: JobNumber, holder: object) -> None:
        """A connection claims a job."""
        self._holders[number] = holder
        self._alone_since.pop(number, None)

    def leave(self, holder: object) -> None:
        """A connection is gone."""
        for number in [number for number, one in self._holders.items() if one is holder]:
            del self._holders[number]

    def look(self) -> None:
        """End the jobs that nobody has held for a while."""
        state, now = self._loop.state, clock.ticks()
        seq, when = self._searched
        if seq < 0 or (state.seq != seq and now - when >= SEARCH_S):
            self._searched = state.seq, now
            self._interactive = {
                number
                for number in (*state.active, *state.pending)
                if state.jobs[number].spec.request.launch == "interactive"
            }
        known = self._interactive | self._holders.keys()
        there = {number for number in known if number in state.active or number in state.pending}
        for gone in (self._holders.keys() | self._alone_since.keys()) - there:
            self._holders.pop(gone, None)
            self._alone_since.pop(gone, None)
        for number in there - self._holders.keys():
            since = self._alone_since.setdefault(number, now)
            if now - since > GRACE_S:
                self._alone_since[number] = now
                self._loop.post(EndInteractive(None, str(number), why="the client that made it is gone"))
