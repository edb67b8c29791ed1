"""The filter language of the queue: words, `!` to negate, `~regex`, `-f fuzzy`, fields, numbers and ages. Pure."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flagplot.view.queue import cpus_of, gpus_of, nodes_of
from flagplot_wire.job import Job, State

COMPARE = re.compile(r"^(gpus?|nodes?|cpus?|prio(?:rity)?|age|time|limit)(>=|<=|>|<|=)(\d*)([smhdw]?)$")
_OPERATORS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq}
_SECONDS = {"s": 1, "m": 60, "": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""A span without a unit is minutes, as in Slurm."""
FIELDS = {
    "user": "user",
    "u": "user",
    "state": "state",
    "st": "state",
    "part": "part",
    "partition": "part",
    "p": "part",
    "name": "name",
    "n": "name",
    "node": "node",
    "w": "node",
    "id": "id",
    "account": "account",
    "acc": "account",
    "qos": "qos",
}


class Entry:
    """A job as filters see it: what they ask most often stands at hand, for following its parts takes longer than a test.
    `part` and `key` are the listing's, where the job stands."""

    __slots__ = ("gpus", "job", "key", "part", "state", "text", "user")

    def __init__(self, job: Job) -> None:
        self.key: tuple[Any, ...] = ()
        self.part = 0
        self.take(job)

    def take(self, job: Job) -> None:
        """The job as it is now."""
        self.job, self.text, self.state, self.gpus = job, searched_text(job), job.status.state, gpus_of(job)
        self.user = sys.intern(job.user.lower())


Test = Callable[[Entry], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """Tests that must all hold, and words that must all be in the text; without any every job matches. `timed` tells that
    a test looks at the clock, so that a minute later others may match."""

    tests: tuple[Test, ...]
    words: tuple[str, ...] = ()
    timed: bool = False

    def matches(self, entry: Entry) -> bool:
        """True when the job passes every test."""
        return all(word in entry.text for word in self.words) and all(test(entry) for test in self.tests)

    def kept(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those that pass, in their order. One test after the other, since a loop around one is the quickest."""
        for word in self.words:
            entries = [entry for entry in entries if word in entry.text]
        for test in self.tests:
            entries = [entry for entry in entries if test(entry)]
        return list(entries)

    @property
    def empty(self) -> bool:
        """True when every job matches."""
        return not (self.tests or self.words)


def searched_text(job: Job) -> str:
    """What words, regexes and fuzzy words look at, one thing a line: name, user, id, partition, nodes; lower case."""
    held = job.status.allocation
    nodes = "\n".join([part.node for part in held.nodes]) if held is not None else ""
    return f"{job.spec.name}\n{job.user}\n{job.display_id}\n{job.spec.partition}\n{nodes}".lower()


def parse_filter(text: str, me: str = "", now: int = 0) -> Filter:
    """Read a filter; half-typed fields (`user:`, `gpu>`) match everything, what is no field is searched as text.
    `now` is epoch seconds, for ages."""
    tests: list[Test] = []
    words: list[str] = []
    timed = fuzzy = False
    for token in text.split():
        if token == "-f":
            fuzzy = True
            continue
        negated = token.startswith("!")
        body = token[1:] if negated else token
        if not body:
            continue
        found = COMPARE.match(body.lower())
        if not (found or negated or fuzzy or _is_field(body) or body.startswith("~")):
            words.append(body.lower())
            continue
        timed |= found is not None and found[1] in ("age", "time")
        test = _compare_test(found, now) if found else _word_test(body, me, fuzzy)
        if test is not None:
            tests.append(_not(test) if negated else test)
    return Filter(tuple(tests), tuple(words), timed)


def _not(test: Test) -> Test:
    return lambda entry: not test(entry)


def _is_field(body: str) -> bool:
    head, colon, _ = body.partition(":")
    return bool(colon) and head.lower() in FIELDS


def _word_test(body: str, me: str, fuzzy: bool) -> Test | None:
    if _is_field(body):
        head, _, tail = body.partition(":")
        return _field_test(FIELDS[head.lower()], tail, me) if tail else None
    if body.startswith("~"):
        return _regex_test(body[1:]) if len(body) > 1 else None
    low = body.lower()
    if fuzzy:
        return _regex_test(".*?".join(map(re.escape, low)))
    return lambda entry: low in entry.text


def _regex_test(pattern: str) -> Test:
    try:
        # The text is lower case already; only what has capitals, as names or as `\W`, takes the slower way.
        capitals = re.IGNORECASE if pattern != pattern.lower() else re.NOFLAG
        search = re.compile(pattern, capitals | re.MULTILINE).search
    except re.error:
        low = pattern.lower()
        return lambda entry: low in entry.text
    return lambda entry: search(entry.text) is not None


def _compare_test(found: re.Match[str], now: int) -> Test | None:
    word, sign, digits, unit = found.groups()
    if not digits:
        return None
    compare, spans = _OPERATORS[sign], word in ("age", "time", "limit")
    if unit and not spans:
        return None
    value = int(digits) * (_SECONDS[unit] if spans else 1)
    if word.startswith("gpu"):
        return lambda entry: compare(entry.gpus, value)
    number = _number_of(word, now)
    return lambda entry: compare(number(entry.job), value)


def _number_of(word: str, now: int) -> Callable[[Job], int]:
    match word:
        case "age":
            return lambda job: now - job.status.submit_time
        case "time":
            return lambda job: (job.status.end_time or now) - job.status.start_time if job.status.start_time else 0
        case "limit":
            return lambda job: job.time_limit_s or 1 << 40
    if word.startswith("node"):
        return nodes_of
    if word.startswith("cpu"):
        return cpus_of
    return lambda job: job.status.priority


def _field_test(field: str, wanted: str, me: str) -> Test:
    low = wanted.lower()
    match field:
        case "user":
            names = tuple(me if name == "me" and me else name for name in low.split(",") if name)
            return lambda entry: entry.user.startswith(names)
        case "part":
            return lambda entry: entry.job.spec.partition.lower().startswith(low)
        case "account":
            return lambda entry: entry.job.spec.account.lower().startswith(low)
        case "qos":
            return lambda entry: entry.job.spec.qos.lower().startswith(low)
        case "name":
            return lambda entry: low in entry.job.spec.name.lower()
        case "node":
            return lambda entry: (
                (held := entry.job.status.allocation) is not None
                and any(name.lower().startswith(low) for name in held.names)
            )
        case "id":
            return lambda entry: entry.job.display_id.startswith(low)
    return _state_test(low)


def _state_test(low: str) -> Test:
    if low == "held":
        return lambda entry: entry.state == State.PENDING and bool(entry.job.spec.hold)
    if low == "ended":
        return lambda entry: entry.state.ended
    if low in ("live", "active"):
        return lambda entry: not entry.state.ended
    states = {state for state in State if state.short.lower() == low}
    states = states or {state for state in State if state.value.lower().startswith(low)}
    return lambda entry: entry.state in states
