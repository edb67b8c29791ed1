"""File name patterns of outputs (sbatch(1), FILENAME PATTERN)."""

from __future__ import annotations

import re

from msgspec import Struct

_SPECIFIER = re.compile(r"%(\d*)(.)", re.DOTALL)
_MAX_WIDTH = 10


class Fields(Struct, frozen=True, omit_defaults=True):
    """What a pattern may name. `array_number` is the array's number, or the job's own outside an array."""

    number: int
    name: str
    user: str
    node: str
    array_number: int = 0
    array_index: int | None = None
    restarts: int = 0
    node_index: int = 0
    task: int = 0


def default_stdout(is_element: bool) -> str:
    """The pattern used without `-o`."""
    return "slurm-%A_%a.out" if is_element else "slurm-%j.out"


def expand_pattern(pattern: str, fields: Fields) -> str:
    """Fill in a pattern. Numbers take a padding of at most 10 digits; unknown letters stay; a trailing % goes."""
    numbers = {
        "A": fields.array_number or fields.number,
        "a": fields.array_index or 0,
        "j": fields.number,
        "n": fields.node_index,
        "r": fields.restarts,
        "t": fields.task,
    }
    texts = {
        "J": str(fields.number),
        "N": fields.node.split(".")[0],
        "b": str((fields.array_index or 0) % 10),
        "s": "batch",
        "u": fields.user,
        "x": fields.name.replace("/", "_"),
    }

    def fill(found: re.Match[str]) -> str:
        pad, letter = found[1], found[2]
        if letter == "%" and not pad:
            return "%"
        if letter in numbers:
            return str(numbers[letter]).zfill(min(int(pad), _MAX_WIDTH) if pad else 0)
        return texts.get(letter, found[0])

    filled = _SPECIFIER.sub(fill, pattern)
    return filled[:-1] if _trailing(pattern) else filled


def _trailing(pattern: str) -> bool:
    """True when the pattern ends in a `%` that begins nothing."""
    return bool(re.search(r"(?<!%)(?:%%)*%\d*$", pattern)) and pattern.endswith("%")
