"""Texts that people write for settings of accounts, QoS, partitions and reservations, read into values."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from flagplot_wire.errors import Refused
from flagplot_wire.policy import USE_PARENT
from flagplot_wire.text import clean
from flagplot_wire.units import DAY, parse_begin, parse_memory, parse_time_limit

MOST = 2**31 - 1
"""No setting is higher, so that sums and products over a plan stay within 64 bits."""
YEAR = 365 * DAY
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_NO_LIMIT = ("-1", "none", "unlimited", "infinite")
_FLAGS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": DAY}
MAX_TEXT = 1_024


def bad(message: str, hint: str = "") -> Refused:
    """A refusal of a value."""
    return Refused("bad_value", message, hint)


def name(text: str) -> str:
    """One name of an account, user, QoS, partition, reservation or license."""
    word = text.strip()
    if not _NAME.fullmatch(word):
        raise bad(f"{clean(text)!r} is no name", "names are up to 64 letters, digits, _ . and -")
    return word


def names(text: str) -> tuple[str, ...]:
    """Names joined by commas, each once; an empty text is none."""
    return tuple(dict.fromkeys(name(part) for part in text.split(","))) if text.strip() else ()


def words(text: str) -> str:
    """Text for people."""
    if len(text) > MAX_TEXT:
        raise bad(f"a text of {len(text)} characters: at most {MAX_TEXT} are kept")
    return clean(text)


def flag(text: str) -> bool:
    """yes or no."""
    word = text.strip().lower()
    if word not in _FLAGS:
        raise bad(f"{clean(text)!r} is neither yes nor no")
    return _FLAGS[word]


def whole(text: str, least: int = 0) -> int:
    """A whole number from `least` to 2^31 - 1."""
    word = text.strip()
    if not re.fullmatch(r"-?\d{1,20}", word, re.ASCII):
        raise bad(f"{clean(text)!r} is no whole number")
    return bounded(int(word), text, least)


def bounded(value: int, text: str, least: int = 0) -> int:
    """`value`, which `text` was read as, where it is neither too low nor too high."""
    if value < least:
        raise bad(f"{clean(text)} is too low: the least is {least}")
    if value > MOST:
        raise bad(f"{clean(text)} is too high: the most is {MOST}")
    return value


def limit(text: str) -> int | None:
    """A count that may be used; -1, none or unlimited takes the limit away (0 allows nothing)."""
    return None if text.strip().lower() in _NO_LIMIT else whole(text)


def memory_limit(text: str) -> int | None:
    """Memory as `--mem` takes it, in MiB; -1, none or unlimited takes the limit away."""
    return None if text.strip().lower() in _NO_LIMIT else bounded(parse_memory(text), text)


def wall_limit(text: str) -> int | None:
    """A time limit as `-t` takes it, in seconds; 0, -1, none or unlimited takes the limit away."""
    return None if text.strip().lower() == "none" else parse_time_limit(text) or None


def span(text: str) -> int:
    """Seconds: `90`, or with a unit `30s`, `5m`, `2h`, `1d`."""
    found = re.fullmatch(r"(\d{1,12})\s*([smhd]?)", text.strip().lower(), re.ASCII)
    if not found:
        raise bad(f"{clean(text)!r} is no time", "write seconds, or a unit as in 5m, 2h or 1d")
    return bounded(int(found[1]) * _SECONDS[found[2]], text)


def duration(text: str) -> int:
    """How long a reservation lasts, in seconds; UNLIMITED is a year, as in Slurm."""
    return parse_time_limit(text) or YEAR


def moment(text: str, now: int) -> int:
    """Epoch seconds, an ISO time, or as `--begin` takes it; without an offset times are UTC."""
    word = text.strip()
    if re.fullmatch(r"\d{6,20}", word, re.ASCII):
        return bounded(int(word), text)
    try:
        at = datetime.fromisoformat(word)
    except ValueError:
        return bounded(parse_begin(word, now), text)
    return bounded(int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()), text)


def user_shares(text: str) -> int:
    """Shares of a user; `parent`: those of the account."""
    return USE_PARENT if text.strip().lower() == "parent" else whole(text, 1)


def license_counts(text: str) -> tuple[tuple[str, int], ...]:
    """`matlab:4,ansys`: licenses with their counts (1 where none is written)."""
    counts: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ():
        word, colon, count = part.partition(":")
        try:
            counts[name(word)] = bounded(counts.get(name(word), 0) + (whole(count, 1) if colon else 1), text)
        except Refused as wrong:
            raise bad(
                f"license {clean(part)!r}: {wrong.message}", wrong.hint or "write for example matlab:2"
            ) from wrong
    return tuple(counts.items())
