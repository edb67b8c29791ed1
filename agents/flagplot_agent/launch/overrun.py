"""What the keeper does to an attempt that took more GPU memory than its share. Standard library only."""

from __future__ import annotations

import os
import signal
import time

from flagplot_agent.launch.attempt import Running


def end_overrun(one: Running, pid: int, message: str) -> None:
    """Kill the process `pid`, if it is the attempt's, or all of it (0). The attempt then ends as out of memory."""
    if pid and pid not in one.members():
        return
    one.overrun = f"out of GPU memory: {message}"
    one.say(f"OUT OF GPU MEMORY: {message}")
    if pid:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            # It ended by itself between the look and the kill.
            return
    else:
        if not one.cause:
            one.cause, one.message = "oom", one.overrun
        one.kill_at = time.monotonic()
