"""The filter language of the queue: words, `!` to negate, `user: state: part:` fields, `gpu>2` numbers. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from flagplot_wire.job import Job, State

Test = Callable[[Job], bool]
_COMPARE = re.compile(r"^(gpus?|nodes?|cpus?|prio(?:rity)?)(>=|<=|>|<|=)(\d+)$")
_OPERATORS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq}
_FIELDS = {
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
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Tests that must all hold; empty matches every job."""

    tests: tuple[Test, ...]

    def matches(self, job: Job) -> bool:
        """True when the job passes every test."""
        return all(test(job) for test in self.tests)


def parse_filter(text: str, me: str = "") -> Filter:
    """Read a filter; half-typed fields (`user:`) match everything, what is no field is searched as text."""
    tests = []
    for token in text.split():
        negated = token.startswith("!")
        body = token[1:] if negated else token
        test = _token(body, me) if body else None
        if test is not None:
            tests.append(_not(test) if negated else test)
    return Filter(tuple(tests))


def _not(test: Test) -> Test:
    return lambda job: not test(job)


def _token(body: str, me: str) -> Test | None:
    if found := _COMPARE.match(body.lower()):
        return _number_test(found[1], found[2], int(found[3]))
    head, colon, tail = body.partition(":")
    field = _FIELDS.get(head.lower()) if colon else None
    if field is None:
        return _text_test(body.lower())
    return _field_test(field, tail, me) if tail else None


def _number_test(word: str, sign: str, value: int) -> Test:
    compare = _OPERATORS[sign]
    if word.startswith("gpu"):
        from flagplot.view.queue import gpus_of

        return lambda job: compare(gpus_of(job), value)
    if word.startswith("node"):
        return lambda job: compare(
            len(job.status.allocation.nodes) if job.status.allocation else job.spec.request.nodes_min, value
        )
    if word.startswith("cpu"):
        return lambda job: compare(
            job.status.allocation.cpus
            if job.status.allocation
            else job.spec.request.cpus_per_task * max(1, job.spec.request.tasks),
            value,
        )
    return lambda job: compare(job.status.priority, value)


def _field_test(field: str, wanted: str, me: str) -> Test:
    low = wanted.lower()
    match field:
        case "user":
            names = {me if name == "me" and me else name for name in low.split(",")}
            return lambda job: job.user.lower() in names or any(job.user.lower().startswith(n) for n in names)
        case "part":
            return lambda job: job.spec.partition.lower().startswith(low)
        case "name":
            return lambda job: low in job.spec.name.lower()
        case "node":
            return lambda job: (
                bool(job.status.allocation)
                and any(
                    name.lower().startswith(low)
                    for name in job.status.allocation.names  # type: ignore[union-attr]
                )
            )
        case "id":
            return lambda job: job.display_id.startswith(low)
    return _state_test(low)


def _state_test(low: str) -> Test:
    if low == "held":
        return lambda job: job.status.state == State.PENDING and bool(job.spec.hold)
    if low == "ended":
        return lambda job: job.status.state.ended
    if low in ("live", "active"):
        return lambda job: not job.status.state.ended
    states = {state for state in State if state.short.lower() == low}
    states = states or {state for state in State if state.value.lower().startswith(low)}
    return lambda job: job.status.state in states


def _text_test(low: str) -> Test:
    def test(job: Job) -> bool:
        if low in job.spec.name.lower() or low in job.user.lower() or low in job.display_id:
            return True
        if low in job.spec.partition.lower():
            return True
        held = job.status.allocation
        return held is not None and any(low in name.lower() for name in held.names)

    return test
