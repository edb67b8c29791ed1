"""The queue's listing, kept up to date change by change, is at every moment what sorting anew would give."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import msgspec
import pytest
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view.listing import Listing
from flagplot.view.queue import SORT_ORDER, QueueSpec
from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import State
from flagplot_wire.replies import EventsPushed

SEED = int(os.environ.get("FLAGPLOT_SEED", random.randrange(1 << 30)))
FILTERS = ("", "", "user:bob", "state:pd", "!train", "~^.*[0-9]$", "-f lm", "gpu>2", "age>1h", "gpu03", "id:5")


def change(mirror: Mirror, dice: random.Random) -> ev.Body:
    """Something that happens to a job."""
    number = dice.choice(list(mirror.jobs) or [JobNumber(1)])
    job = mirror.jobs.get(number) or sample.sample_jobs()[0]
    match dice.randrange(4):
        case 0:
            state = dice.choice(list(State))
            status = msgspec.structs.replace(job.status, state=state, priority=dice.randrange(99), end_time=sample.NOW)
            return ev.JobChanged(number, status, "ended")
        case 1:
            return ev.JobSpecChanged(
                number, msgspec.structs.replace(job.spec, name=f"n{dice.randrange(50)}"), "renamed"
            )
        case 2:
            return ev.JobsForgotten((number,))
    return ev.JobAdded(dice.choice(sample.sample_jobs()))


@pytest.mark.parametrize("run", range(6))
def test_listing_follows_every_change(run: int) -> None:
    print(f"FLAGPLOT_SEED={SEED}")
    dice = random.Random(SEED + run)
    mirror, listing, spec = sample.sample_mirror(), Listing(), QueueSpec()
    typed: list[str] = []
    for _ in range(150):
        for _ in range(dice.randrange(4)):
            event = ev.Event(mirror.seq + 1, int(sample.NOW), change(mirror, dice))
            mirror.take(EventsPushed((event,)))
        if typed:
            spec = replace(spec, filter=(spec.filter + typed.pop(0)))
        elif dice.random() < 0.3:
            spec = QueueSpec("", dice.choice(SORT_ORDER), dice.random() < 0.5, dice.random() < 0.7, dice.random() < 0.5)
            singly = dice.sample(sorted(mirror.elements), dice.randrange(1 + len(mirror.elements)))
            spec = replace(spec, unfolded=frozenset(singly))
            typed = list(" ".join(dice.choices(FILTERS, k=dice.randrange(3))))
        listing.sync(mirror, spec, sample.NOW)
        fresh = Listing()
        fresh.sync(mirror, spec, sample.NOW)
        expected = list(fresh.rows)
        assert list(listing.rows) == expected
        assert [listing.rows[at] for at in range(len(expected))] == expected
        assert [listing.rows.index(number) for number in expected] == list(range(len(expected)))
        assert mirror.counts == counted(mirror)


def counted(mirror: Mirror) -> dict[State, int]:
    """How many jobs are in each state, counted."""
    states = [job.status.state for job in mirror.jobs.values()]
    return {state: states.count(state) for state in mirror.counts}
