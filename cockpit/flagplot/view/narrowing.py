"""Whether a longer filter leaves only jobs that the shorter one left, so that the next letter looks at those alone. Pure."""

from __future__ import annotations

from flagplot.view.filters import COMPARE, FIELDS, parse_filter

_PREFIXES = frozenset({"user", "part", "account", "qos", "id", "node", "name"})
"""Fields of which a longer text matches less. Not the state: `held` and `ended` are words of their own."""


def narrowing(before: str, after: str) -> str | None:
    """The filter that the matches of `before` must still pass to be those of `after`; None when others may match too."""
    old, new = before.split(), after.split()
    if not old or len(new) < len(old) or new[: len(old) - 1] != old[:-1]:
        return None
    last, grown = old[-1], new[len(old) - 1]
    kept = new[: len(old)] if last == grown else new[: len(old) - 1]
    fuzzy = "-f" in kept
    if not _narrower(last, grown, fuzzy):
        return None
    return " ".join((["-f"] if fuzzy else []) + new[len(kept) :])


def _narrower(last: str, grown: str, fuzzy: bool) -> bool:
    """Whether every job that matches the word `grown` matches `last`, of which it is a continuation."""
    if last == grown:
        return True
    if not grown.startswith(last):
        return False
    if last != "-f" and parse_filter(last).empty:
        # Half typed: everything matched.
        return True
    if last.startswith(("!", "~", "-f")) or grown == "-f":
        return False
    head, colon, tail = last.partition(":")
    if colon and head.lower() in FIELDS:
        return _narrower_field(FIELDS[head.lower()], tail.lower(), grown.partition(":")[2].lower())
    number = COMPARE.match(grown.lower())
    if number is not None:
        # More digits are a larger number; a unit may make it smaller.
        shorter = COMPARE.match(last.lower())
        return shorter is not None and number[2] in (">", ">=") and not number[4]
    grown_head, grown_colon, _ = grown.partition(":")
    return not (grown_colon and grown_head.lower() in FIELDS)


def _narrower_field(field: str, last: str, grown: str) -> bool:
    if field == "user":
        # `me` stands for a name that need not begin so, and a comma lets others in.
        return "," not in grown and "me" not in (last, grown)
    return field in _PREFIXES
