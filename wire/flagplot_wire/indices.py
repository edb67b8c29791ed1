"""Sets of small integers as text (`0-3,8,10-20:5`): array indices and CPU lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

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


def _runs(text: str) -> list[tuple[int, int]]:
    """The runs of a compressed list (no steps), in order."""
    found = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        found.append((int(low), int(high if dash else low)))
    return found


def count_indices(compressed: str) -> int:
    """How many indices a list written by `compress_indices` holds, without expanding it."""
    return sum(high - low + 1 for low, high in _runs(compressed)) if compressed else 0


def first_indices(compressed: str, most: int) -> list[int]:
    """The lowest `most` indices of a list written by `compress_indices`."""
    found: list[int] = []
    for low, high in _runs(compressed) if compressed else ():
        found.extend(range(low, min(high, low + most - len(found) - 1) + 1))
        if len(found) >= most:
            break
    return found


def has_index(compressed: str, index: int) -> bool:
    """True when a list written by `compress_indices` holds `index`."""
    return any(low <= index <= high for low, high in (_runs(compressed) if compressed else ()))


def remove_index(compressed: str, index: int) -> str:
    """The list without `index`; the cost grows with the number of runs, not of indices."""
    kept: list[str] = []
    for low, high in _runs(compressed) if compressed else ():
        spans = [(low, index - 1), (index + 1, high)] if low <= index <= high else [(low, high)]
        kept.extend(str(start) if start == end else f"{start}-{end}" for start, end in spans if start <= end)
    return ",".join(kept)


@lru_cache(4_096)
def mask_of(compressed: str) -> int:
    """A bit mask with the bits of the list set."""
    mask = 0
    for low, high in _runs(compressed) if compressed else ():
        mask |= ((1 << (high - low + 1)) - 1) << low
    return mask


def lowest_of(mask: int, count: int) -> int:
    """The lowest `count` bits that are set in a mask (all where there are fewer); the cost grows with its runs."""
    found = 0
    while mask and count > 0:
        lowest, run = _first_run(mask)
        size = run.bit_count()
        if size >= count:
            return found | (lowest << count) - lowest
        found, mask, count = found | run, mask ^ run, count - size
    return found


def list_of(mask: int) -> str:
    """The compressed list of the bits that are set: the reverse of `mask_of`."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in _runs_of(mask))


def _runs_of(mask: int) -> Iterator[tuple[int, int]]:
    while mask:
        lowest, run = _first_run(mask)
        yield lowest.bit_length() - 1, run.bit_length() - 1
        mask ^= run


def _first_run(mask: int) -> tuple[int, int]:
    """The lowest bit that is set, and it with those that follow without a gap."""
    lowest = mask & -mask
    return lowest, mask & ~(mask + lowest)
