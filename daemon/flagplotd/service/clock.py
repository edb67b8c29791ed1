"""The controller's clocks; tests hand in others."""

from __future__ import annotations

import time


def now() -> int:
    """Seconds since the epoch."""
    return int(time.time())


def ticks() -> float:
    """Seconds of a clock that never goes back."""
    return time.monotonic()
