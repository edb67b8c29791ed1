"""The queue's listing, kept up to date change by change, is at every moment what sorting anew would give."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import msgspec
import pytest
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view.filters import Entry, parse_filter
from flagplot.view.listing import Listing
from flagplot.view.narrowing import narrowing
from flagplot.view.queue import SORT_ORDER, QueueSpec
from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import State
from flagplot_wire.replies import EventsPushed

SEED = int(os.environ.get("FLAGPLOT_SEED", random.randrange(1 << 30)))
FILTERS = (
    *("", "", "user:bob", "user:me", "user:a,bob", "state:pd", "state:held", "!train", "~^.*[0-9]$", "~tra|eval"),
    *("-f lm", "gpu>2", "gpu>=16", "gpu<=12", "gpu=10", "nodes<12", "age>1h", "age>90m", "gpu03", "id:5", "part:gp"),
    *("!user:bob", "node:gpu0", "name:tr", "qos:n", "acc:x", "prio>10", "limit>2h", "cpus>=80", "train", "e", "user:"),
)


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


def plain(mirror: Mirror, text: str) -> list[JobNumber]:
    """What a filter leaves, job by job, live ones and then ended ones, by number."""
    wanted = parse_filter(text, mirror.welcome.user if mirror.welcome else "", sample.NOW)
    jobs = [job for job in mirror.jobs.values() if wanted.matches(Entry(job))]
    return [job.number for job in sorted(jobs, key=lambda job: (job.status.state.ended, job.number))]


@pytest.mark.parametrize("run", range(6))
def test_typing_leaves_what_a_look_at_every_job_leaves(run: int) -> None:
    """Letter by letter, with letters taken back, and with jobs that change between them."""
    print(f"FLAGPLOT_SEED={SEED}")
    dice = random.Random(SEED + run)
    mirror, listing, text, narrowed = sample.sample_mirror(), Listing(), "", 0
    for _ in range(40):
        wanted = " ".join(dice.choices(FILTERS, k=dice.randrange(1, 4)))
        texts = [wanted[:end] for end in range(len(wanted) + 1)]
        for typed in [*texts, *(wanted[:end] for end in range(len(wanted), dice.randrange(len(wanted) + 1), -1))]:
            if dice.random() < 0.2:
                mirror.take(EventsPushed((ev.Event(mirror.seq + 1, int(sample.NOW), change(mirror, dice)),)))
            narrowed += narrowing(text, typed) is not None
            text = typed
            listing.sync(mirror, QueueSpec(text, "id", unfold=True), sample.NOW)
            shown = sorted(listing.rows, key=lambda number: (mirror.jobs[number].status.state.ended, number))
            assert shown == plain(mirror, text), text
            assert all(listing.rows.index(number) == at for at, number in enumerate(listing.rows))
    assert narrowed > 100


def counted(mirror: Mirror) -> dict[State, int]:
    """How many jobs are in each state, counted."""
    states = [job.status.state for job in mirror.jobs.values()]
    return {state: states.count(state) for state in mirror.counts}
