"""What change of a request would start a job now: of each kind of change the mildest that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flagplot_wire.ids import JobNumber
from flagplot_wire.text import counted
from flagplot_wire.units import format_limit
from flagplotd.sched.plan import Done, Policy, run

if TYPE_CHECKING:
    from flagplotd.sched.shapes import Shape
    from flagplotd.sched.snapshot import Snapshot

MOST = 2
"""Hints given of one job."""
Variant = tuple[str, "Shape"]
"""What is said of a changed request, and the request."""


def hints(done: Done, policy: Policy, number: JobNumber) -> tuple[str, ...]:
    """Up to two changes of different kinds, each with which the job would start at the moment of the cycle that left it
    waiting. Each is tried by a cycle of its own."""
    snapshot = done.snapshot
    place = snapshot.waiting.place(number)
    if place is None:
        return ()
    found: list[str] = []
    for kind in _kinds(snapshot.shapes[snapshot.waiting[place].shape], snapshot.now, _moments(done, place)):
        if words := _mildest(snapshot, policy, number, kind):
            found.append(words)
        if len(found) == MOST:
            break
    return tuple(found)


def _moments(done: Done, place: int) -> set[int]:
    """When reservations begin, and when those in front of a job are planned to start."""
    moments = {start for _, start, _ in done.snapshot.reservations}
    if done.ran is not None:
        moments.update(done.ran.answers["start"][:place].tolist())
    return moments


def _mildest(snapshot: Snapshot, policy: Policy, number: JobNumber, kind: Sequence[Variant]) -> str:
    """The first of the changes, given the mildest first, with which the job starts (empty: none). A harder change starts
    wherever a milder one does, so that halving finds it."""
    low, high, words = 0, len(kind) - 1, ""
    at = high
    while low <= high:
        said, shape = kind[at]
        if any(start.number == number for start in run(snapshot.with_shape(number, shape), policy).starts):
            high, words = at - 1, said
        elif at == len(kind) - 1:
            break
        else:
            low = at + 1
        at = (low + high) // 2
    return words


def _kinds(shape: Shape, now: int, moments: set[int]) -> list[list[Variant]]:
    """The changes of each kind, from the mildest on."""
    kinds: list[list[Variant]] = []
    if len(shape.gpus) == 1:
        word, count = shape.gpus[0]
        kinds.append(
            [
                (f"starts now with {counted(fewer, 'GPU')} instead of {count}", replace(shape, gpus=((word, fewer),)))
                for fewer in range(count - 1, 0, -1)
            ]
        )
        if word:
            text = f"starts now with any type of GPU instead of {word}"
            kinds.append([(text, replace(shape, gpus=(("", count),)))])
    kinds.append(
        [
            (f"starts now with {counted(fewer, 'shard')} instead of {shape.shards}", replace(shape, shards=fewer))
            for fewer in range(shape.shards - 1, 0, -1)
        ]
    )
    if shape.least > 1:
        half = shape.least // 2
        text = f"starts now on {counted(half, 'node')} instead of {shape.least}"
        kinds.append([(text, replace(shape, least=half, most=half))])
    return [*kinds, _shorter(shape, now, moments)]


def _shorter(shape: Shape, now: int, moments: set[int]) -> list[Variant]:
    """Shorter time limits, in whole minutes: up to what may be in the way, and some that are usual."""
    limits = {limit // 60 * 60 for limit in (shape.limit // 2, 3_600, 600, *(moment - now for moment in moments))}
    return [
        (f"starts now with a time limit of {format_limit(limit)}", replace(shape, limit=limit))
        for limit in sorted(limits, reverse=True)
        if 60 <= limit < shape.limit
    ]
