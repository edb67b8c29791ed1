"""Ends of attempts on their way to the disk, and what could not be done at once. Standard library only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from flagplot_agent.launch.agentline import AgentLine
from flagplot_agent.launch.cgroup import Group
from flagplot_agent.launch.journal import Journal

RETRY_S = 1.0


class Ends:
    """Ends are made durable, now or when the disk has room again, and told to the agent then."""

    def __init__(self, journal: Journal, line: AgentLine) -> None:
        self.unwritten: dict[str, dict[str, Any]] = {}
        """Ends that are not durable, by the attempt's name."""
        self._untold: dict[str, dict[str, Any]] = {}
        self._journal = journal
        self._line = line
        self._fresh: list[str] = []
        self._left_groups: list[Group] = []
        self._retry_at = 0.0

    def add(self, name: str, end: dict[str, Any], begun: dict[str, Any] | None, group: Group) -> None:
        """An attempt ended; `write` makes it durable. Its group goes now, or when the kernel lets go of it. `begun` is
        what the agent was not told of its start."""
        if not group.remove():
            self._left_groups.append(group)
        self.unwritten[name] = end
        if begun is not None:
            self._untold[name] = begun
        self._fresh.append(name)

    def write(self) -> None:
        """Write what was added since the last call."""
        fresh, self._fresh = self._fresh, []
        self._write(fresh)

    def due(self) -> float | None:
        """The moment (monotonic) at which something is to be tried again; None where nothing is."""
        return self._retry_at if self.unwritten or self._left_groups else None

    def try_again(self, now: float) -> None:
        """Ends that could not be written, groups that could not be removed."""
        due = self.due()
        if due is None or now < due:
            return
        self._retry_at = now + RETRY_S
        self._write(list(self.unwritten))
        self._left_groups = [group for group in self._left_groups if not group.remove()]

    def _write(self, names: Sequence[str]) -> None:
        """All are written before the first is synced, so that they share the disk's commit."""
        written = self._each(names, lambda name: self._journal.note_end(name, self.unwritten[name]))
        for name in self._each(written, self._journal.sync):
            event = {"event": "ended", "name": name, "end": self.unwritten.pop(name)}
            if name in self._untold:
                event["begun"] = self._untold.pop(name)
            self._line.tell(event)

    def _each(self, names: Sequence[str], work: Callable[[str], None]) -> list[str]:
        """Do something for the end of each; returns those whose disk took it."""
        done = []
        for name in names:
            try:
                work(name)
            except OSError as wrong:
                print(f"job {name}: cannot write its end down, trying again: {wrong}", file=sys.stderr)
                self._retry_at = time.monotonic() + RETRY_S
            else:
                done.append(name)
        return done
