"""Host lists as Slurm writes them: `head,gpu[01-08,12]-ib` (hostlist in scontrol(1))."""

from __future__ import annotations

import re
from collections.abc import Iterable

from flagplot_wire.errors import Refused

MAX_RANGE = 65_536
"""Hosts in one range, as in Slurm."""
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_DIGITS = re.compile(r"(\d+)")
_NAME = re.compile(r"[A-Za-z0-9._-]*")


def expand_hosts(text: str) -> list[str]:
    """The names of a host list in its order, each once; raises `Refused` (never a partial expansion)."""
    names: dict[str, None] = {}
    for part in _split(text):
        for name in _expand_one(part, text):
            names[name] = None
        if len(names) > MAX_RANGE:
            raise _bad(text, f"more than {MAX_RANGE} hosts")
    return list(names)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
        if depth not in (0, 1):
            raise _bad(text, "the brackets do not match")
    if depth:
        raise _bad(text, "a bracket is not closed")
    parts.append(text[start:])
    parts = [part.strip() for part in parts]
    if not all(parts):
        raise _bad(text, "a name is missing")
    return parts


def _expand_one(part: str, whole: str) -> list[str]:
    pieces = re.split(r"\[([^\]]*)\]", part)
    names = [""]
    for position, piece in enumerate(pieces):
        if position % 2 == 0:
            if not _NAME.fullmatch(piece):
                raise _bad(whole, f"{piece!r} is no host name")
            names = [name + piece for name in names]
            continue
        numbers = _ranges(piece, whole)
        if len(names) * len(numbers) > MAX_RANGE:
            raise _bad(whole, f"more than {MAX_RANGE} hosts")
        names = [name + number for name in names for number in numbers]
    return names


def _ranges(text: str, whole: str) -> list[str]:
    numbers: list[str] = []
    for item in text.split(","):
        found = _RANGE.fullmatch(item.strip())
        if not found:
            raise _bad(whole, f"[{text}] must hold numbers and ranges such as 01-08,12")
        low, high = found[1], found[2] or found[1]
        if int(high) < int(low):
            raise _bad(whole, f"in {item} the low end comes first")
        if int(high) - int(low) >= MAX_RANGE:
            raise _bad(whole, f"the range {item} has more than {MAX_RANGE} hosts")
        numbers.extend(str(number).zfill(len(low)) for number in range(int(low), int(high) + 1))
    return numbers


def _bad(text: str, why: str) -> Refused:
    return Refused("bad_hostlist", f"{text!r} is no list of hosts: {why}", "write names such as gpu01,gpu[03-08]")


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key by which gpu2 comes before gpu10."""
    return tuple(
        (1, int(piece), piece) if piece.isdecimal() else (0, 0, piece) for piece in _DIGITS.split(name) if piece
    )


def compress_hosts(names: Iterable[str]) -> str:
    """The shortest host list: `gpu01, gpu02, gpu03, head` gives `gpu[01-03],head`."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    plain: list[tuple[str, str]] = []
    for name in sorted(set(names), key=natural_key):
        found = re.fullmatch(r"(.*?)(\d+)([^\d]*)", name, re.DOTALL)
        if not found:
            plain.append((name, name))
            continue
        digits = found[2]
        padded = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        groups.setdefault((found[1], padded, found[3]), []).append(int(digits))
    _join_padded(groups)
    written = plain + [(f"{key[0]}{numbers[0]}", _write(key, numbers)) for key, numbers in groups.items()]
    return ",".join(text for _, text in sorted(written, key=lambda pair: natural_key(pair[0])))


def _join_padded(groups: dict[tuple[str, int, str], list[int]]) -> None:
    """`gpu10` has the width of `gpu09`: put it into the padded group of that width."""
    for prefix, padded, suffix in list(groups):
        plain = groups.get((prefix, 0, suffix))
        if not padded or not plain:
            continue
        same = [number for number in plain if len(str(number)) == padded]
        rest = [number for number in plain if len(str(number)) != padded]
        groups[prefix, padded, suffix] = sorted(groups[prefix, padded, suffix] + same)
        if rest:
            groups[prefix, 0, suffix] = rest
        else:
            del groups[prefix, 0, suffix]


def _write(key: tuple[str, int, str], numbers: list[int]) -> str:
    prefix, padded, suffix = key
    runs: list[list[int]] = []
    for number in numbers:
        # A range keeps the width of its low end, so one that grows a digit must be cut.
        if runs and number == runs[-1][1] + 1 and (padded or len(str(number)) >= len(str(runs[-1][0]))):
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [
        str(low).zfill(padded) if low == high else f"{str(low).zfill(padded)}-{str(high).zfill(padded)}"
        for low, high in runs
    ]
    inner = ",".join(texts)
    return f"{prefix}{inner}{suffix}" if len(runs) == 1 and "-" not in inner else f"{prefix}[{inner}]{suffix}"
