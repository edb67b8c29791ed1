"""Every process of a part of a step, wherever it went. Standard library only."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from flagplot_agent.launch.processes import all_marked, name_of, of_attempt, read_process, send_signal

SPARE_S = 5.0
"""For a container's engine to remove what is left of it."""
ENGINES = ("podman", "conmon")


class Members:
    """`roots` are the pids of the tasks; what they left behind comes to us, whatever its environment."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        self.roots: set[int] = set()
        self._marks = tuple(mark.encode() for mark in recipe.get("contained", ()))
        self._spare_until = 0.0

    @property
    def grace_s(self) -> float:
        """Seconds that an engine may take to clean up."""
        return SPARE_S if self._marks else 0.0

    def find(self) -> set[int]:
        """All that live."""
        found = of_attempt(self.roots, (), os.getpid())
        if self._marks:
            # Orphans in a container that was there before us go to its first process.
            found |= all_marked(self._marks)
        return found

    def send(self, number: int) -> None:
        """A signal to every one. SIGKILL spares a container's engine at first, which then removes it."""
        members = self.find()
        if self._marks and number == signal.SIGKILL:
            now = time.monotonic()
            self._spare_until = self._spare_until or now + SPARE_S
            if now < self._spare_until:
                members = {pid for pid in members if name_of(pid) not in ENGINES}
        send_signal(members, number, first=self.roots)

    def send_roots(self, number: int) -> None:
        """A signal to the tasks alone: what they have put into the background is not meant."""
        send_signal({pid for pid in self.roots if _lives(pid)}, number)


def _lives(pid: int) -> bool:
    found = read_process(pid)
    return found is not None and found.parent == os.getpid() and found.state not in "ZX"
