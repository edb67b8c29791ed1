"""One attempt as the keeper sees it while it has not ended. Standard library only."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from flagplot_agent.launch.cgroup import Group
from flagplot_agent.launch.processes import of_attempt, send_signal
from flagplot_agent.launch.spawn import Starting

HOLD_TRIES = 20


class Running:
    """An attempt that has not ended. Moments without a unit in their name are of the monotonic clock."""

    def __init__(self, name: str, recipe: dict[str, Any], group: Group) -> None:
        self.name = name
        self.recipe = recipe
        self.group = group
        self.starting: set[Starting] = set()
        self.start_by = time.monotonic()
        self.pids: dict[int, int] = {}
        """pid → rank of tasks not yet reaped."""
        self.roots: set[int] = set()
        self.adopted: dict[int, int] = {}
        """pid → start time of tasks that another keeper started."""
        self.stderr = -1
        self.started = int(time.time())
        self.began = time.monotonic()
        self.deadline_s: int = recipe["deadline_s"]
        self.kill_at: float | None = None
        self.settle_at: float | None = None
        """When to look again whether what the tasks left behind is gone."""
        self.settle_by = 0.0
        self.settle_wait = 0.005
        self.cause = ""
        self.exit_code: int | None = None
        self.signal = 0
        self.untold = False
        """True when it ran its program, and nobody was told before it ended."""
        self.asked = False
        """True after SIGTERM by order, until SIGKILL."""
        self.message = ""
        self.overrun = ""
        """Why it ran out of GPU memory (empty: it did not)."""
        self.cpu_ms = 0
        self.memory_peak_mib = 0
        self.oom_kills = 0

    @property
    def markers(self) -> tuple[bytes, ...]:
        """What identifies the attempt's processes by their environment."""
        number, attempt = self.recipe["number"], self.recipe["attempt"]
        return f"FLAGPLOT_JOB_ID={number}".encode(), f"FLAGPLOT_ATTEMPT={attempt}".encode()

    @property
    def over(self) -> bool:
        """True when no task is left (an attempt without tasks holds its node until it is stopped)."""
        if self.starting or self.pids or self.adopted:
            return False
        return bool(self.recipe["tasks"]) or bool(self.cause)

    def members(self) -> set[int]:
        """All its live processes."""
        found = set(self.pids) | set(self.adopted)
        if self.group.tracked:
            return found | self.group.pids()
        return found | of_attempt(self.roots, self.markers, os.getpid())

    def kill(self, number: signal.Signals) -> None:
        """Send a signal to every process of it."""
        if number == signal.SIGKILL:
            self.group.kill()
            if not self.group.tracked:
                self.hold()
        send_signal(self.members(), number, first=self.roots)

    def hold(self) -> None:
        """Without a control group: stop all of them first, again until none has forked away meanwhile."""
        stopped: set[int] = set()
        for _ in range(HOLD_TRIES):
            fresh = self.members() - stopped
            if not fresh:
                return
            send_signal(fresh, signal.SIGSTOP)
            stopped |= fresh

    def add(self, words: str) -> None:
        """Add to the sentence that its owner gets."""
        self.message = f"{self.message}; {words}" if self.message else words

    def say(self, text: str) -> None:
        """Tell the job's owner in its standard error why it ends."""
        if self.stderr < 0:
            return
        clean = "".join(letter if letter.isprintable() else "?" for letter in text)
        line = f"flagplot: *** JOB {self.recipe['number']} ON {self.recipe['node']} {clean} ***\n"
        try:
            os.write(self.stderr, line.encode("utf-8", "replace"))
        except OSError as wrong:
            print(f"job {self.name}: cannot write to its standard error: {wrong}", file=sys.stderr)

    def begun(self, boot: str, pids: dict[str, int]) -> dict[str, Any]:
        """What a keeper that comes after needs to know."""
        return {
            "boot": boot,
            "pids": pids,
            "started": self.started if pids or not self.recipe["tasks"] else 0,
            "group": self.group.tracked,
            "joins": self.group.joins(),
            "enforced": self.group.enforced,
            "notes": self.group.notes,
        }

    def end(self) -> dict[str, Any]:
        """How it ended, as the journal and the controller have it."""
        failed = self.cause == "launch_failed"
        return {
            "cause": self.cause or "exited",
            "exit_code": 0 if failed else self.exit_code or 0,
            "signal": 0 if failed else self.signal,
            "time": int(time.time()),
            "started": self.started,
            "message": self.message,
            "cpu_ms": self.cpu_ms,
            "memory_peak_mib": self.memory_peak_mib,
            "oom_kills": self.oom_kills,
        }
