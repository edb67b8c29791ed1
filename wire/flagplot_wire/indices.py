"""Sets of small integers as text (`0-3,8,10-20:5`): array indices and CPU lists."""

from __future__ import annotations

from collections.abc import Iterable

from flagplot_wire.errors import Refused

MAX_INDEX = 4_000_000
"""The highest array index there can be (Slurm's own ceiling of MaxArraySize is 4,000,001)."""


def expand_indices(text: str) -> list[int]:
    """Expand `0-3,8,10-20:5` to sorted unique integers; raises `Refused` on anything else."""
    found: set[int] = set()
    for part in text.split(","):
        span, colon, step_text = part.strip().partition(":")
        low_text, dash, high_text = span.partition("-")
        step = _number(step_text, text) if colon else 1
        low = _number(low_text, text)
        high = _number(high_text, text) if dash else low
        if high < low:
            raise Refused("bad_indices", f"{part!r} in {text!r}: the low end comes first")
        if step == 0:
            raise Refused("bad_indices", f"{part!r} in {text!r}: a step of 0 never ends")
        found.update(range(low, high + 1, step))
    return sorted(found)


def compress_indices(values: Iterable[int]) -> str:
    """Write integers as the shortest list of runs: `[0, 1, 2, 7]` gives `0-2,7`."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _number(text: str, whole: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise Refused("bad_indices", f"{whole!r} is no list of indices: write numbers and ranges such as 0-3,8")
    value = int(text)
    if value > MAX_INDEX:
        raise Refused("bad_indices", f"{value} in {whole!r} is above the highest index, {MAX_INDEX}")
    return value
