"""Times, sizes and counts as sbatch(1) reads them and squeue(1) writes them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from flagplot_wire.errors import Refused

DAY = 86_400
_UNLIMITED = {"-1", "0", "infinite", "unlimited"}
_MEMORY = {"": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": DAY, "week": 7 * DAY}
_NAMED = {"midnight": (0, 0), "noon": (12, 0), "fika": (15, 0), "teatime": (16, 0)}


def parse_time_limit(text: str) -> int:
    """Seconds of `-t`: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S, rounded up to minutes; 0 is no limit."""
    word = text.strip()
    if word.lower() in _UNLIMITED:
        return 0
    days_text, dash, clock = word.partition("-")
    fields = (clock if dash else word).split(":")
    if not all(field.isdecimal() and field.isascii() for field in fields) or len(fields) > 3:
        raise _bad_time(text)
    numbers = [int(field) for field in fields]
    if dash:
        if not (days_text.isdecimal() and days_text.isascii()):
            raise _bad_time(text)
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        total = int(days_text) * DAY + hours * 3_600 + minutes * 60 + seconds
    elif len(numbers) == 3:
        total = numbers[0] * 3_600 + numbers[1] * 60 + numbers[2]
    else:
        total = numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)
    if total > 10_000 * DAY:
        raise Refused("bad_time", f"{text!r} is longer than 10,000 days", "write UNLIMITED for no limit")
    return -(-total // 60) * 60


def _bad_time(text: str) -> Refused:
    return Refused(
        "bad_time",
        f"{text!r} is no time limit",
        "write minutes, minutes:seconds, hours:minutes:seconds or days-hours",
    )


def parse_memory(text: str) -> int:
    """MiB of `--mem`: a number with K, M (default), G, T or P; K rounds up."""
    found = re.fullmatch(r"(\d{1,15})\s*([KMGTP]?)B?", text.strip(), re.IGNORECASE | re.ASCII)
    if not found:
        raise Refused("bad_memory", f"{text!r} is no amount of memory", "write a number with K, M, G or T such as 16G")
    value, unit = int(found[1]), found[2].upper()
    return -(-value // 1024) if unit == "K" else value * _MEMORY[unit]


def parse_count(text: str) -> int:
    """A count, where K, M, G, T, P multiply by powers of 1,024."""
    found = re.fullmatch(r"(\d{1,15})([KMGTP]?)", text.strip(), re.IGNORECASE | re.ASCII)
    if not found:
        raise Refused("bad_count", f"{text!r} is no count", "write a whole number")
    unit = found[2].upper()
    return int(found[1]) * (1024 ** ("KMGTP".index(unit) + 1) if unit else 1)


def parse_begin(text: str, now: int, utc_offset_s: int = 0) -> int:
    """Epoch seconds of `--begin`: now+1hour, 16:00, noon, tomorrow, 2026-12-24T18:00, 12/24/26…"""
    word = text.strip().lower()
    zone = timezone(timedelta(seconds=utc_offset_s))
    base = datetime.fromtimestamp(now, zone)
    if found := re.fullmatch(r"now(?:\s*\+\s*(\d{1,9})\s*(second|minute|hour|day|week)?s?)?", word, re.ASCII):
        return now + int(found[1] or 0) * _UNITS[found[2] or "second"]
    if word in ("today", "tomorrow"):
        return int((base + timedelta(days=word == "tomorrow")).timestamp())
    try:
        if word in _NAMED or re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", word, re.ASCII):
            return _next_clock(base, word)
        return _date(base, word, zone)
    except (ValueError, OverflowError) as wrong:
        hint = "write now+1hour, 16:00, tomorrow or 2026-12-24T18:00"
        raise Refused("bad_time", f"{text!r} is no time to begin", hint) from wrong


def _next_clock(base: datetime, word: str) -> int:
    hour, minute, second = (*(_NAMED.get(word) or map(int, word.split(":"))), 0)[:3]
    at = base.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return int((at if at >= base.replace(microsecond=0) else at + timedelta(days=1)).timestamp())


def _date(base: datetime, word: str, zone: timezone) -> int:
    day_text, _, clock = word.partition("t")
    if found := re.fullmatch(r"(\d{4})-(\d{1,2})-(\d{1,2})", day_text, re.ASCII):
        year, month, day = map(int, found.groups())
    elif found := re.fullmatch(r"(\d{1,2})/(\d{1,2})(?:/(\d{2}))?", day_text, re.ASCII):
        month, day = int(found[1]), int(found[2])
        year = 2000 + int(found[3]) if found[3] else base.year
    else:
        raise ValueError(word)
    hour, minute, second = (*map(int, clock.split(":")), 0, 0)[:3] if clock else (0, 0, 0)
    return int(datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp())


def format_duration(seconds: int) -> str:
    """As squeue writes it: `5:10`, `2:03:04`, `1-02:03:04`; negative durations show as 0."""
    seconds = max(seconds, 0)
    days, rest = divmod(seconds, DAY)
    hours, rest = divmod(rest, 3_600)
    minutes, second = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{second:02}"
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def format_limit(seconds: int) -> str:
    """A time limit; 0 is `UNLIMITED`."""
    return format_duration(seconds) if seconds else "UNLIMITED"


def format_memory(mib: int) -> str:
    """MiB in the largest unit that keeps it exact to a tenth: `512M`, `24G`, `1.5T`."""
    for unit, size in (("T", 1024**2), ("G", 1024)):
        if mib >= size:
            tenths = round(mib * 10 / size)
            return f"{tenths // 10}{unit}" if tenths % 10 == 0 else f"{tenths / 10:.1f}{unit}"
    return f"{mib}M"


def format_age(seconds: int) -> str:
    """A short relative time: `8s`, `3m`, `2h10`, `4d`."""
    seconds = max(seconds, 0)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3_600:
        return f"{seconds // 60}m"
    if seconds < DAY:
        hours, minutes = divmod(seconds // 60, 60)
        return f"{hours}h{minutes:02}" if minutes else f"{hours}h"
    return f"{seconds // DAY}d"
