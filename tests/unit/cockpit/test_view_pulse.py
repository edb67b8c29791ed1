"""The figures of the pulse, and what their dials lead to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view import pulse
from flagplot.view.filters import Entry, parse_filter
from flagplot.view.fleet import Fleet
from flagplot.view.fleet_filter import node_filter
from flagplot.view.gpus import GpuSpec, select
from flagplot_wire import replies
from flagplot_wire.ids import Epoch
from flagplot_wire.job import State


@pytest.fixture
def mirror() -> Mirror:
    return sample.sample_mirror()


def reading(mirror: Mirror, cycle_us: int | None = 1_400) -> pulse.Reading:
    fleet = Fleet()
    fleet.update(mirror)
    return pulse.read(mirror, fleet, sample.NOW, cycle_us)


def test_the_figures_of_the_sample_cluster(mirror: Mirror) -> None:
    found = reading(mirror)
    states = [job.status.state for job in mirror.jobs.values()]
    assert (found.pending, found.running) == (states.count(State.PENDING), states.count(State.RUNNING))
    assert found.elements == found.pending + 15, "the array stands for 16 elements"
    assert (found.gpus, found.nodes, found.down, found.drained) == (88, 12, 2, 2)
    assert found.starts == 0 and found.oldest is not None and found.oldest_s == 9_000
    assert pulse.read(mirror, Fleet(), sample.NOW - 700, 1).starts == 1, "job 42 began 754 s ago"
    assert found.busy == 66 and found.measured == 34


def test_held_and_later_jobs_are_not_the_oldest(mirror: Mirror) -> None:
    oldest = reading(mirror).oldest
    assert oldest is not None
    del mirror.jobs[oldest.number]
    found = reading(mirror).oldest
    assert found is not None and not found.spec.hold and found.spec.begin <= sample.NOW


def test_every_dial_leads_to_what_it_counts(mirror: Mirror) -> None:
    found = reading(mirror)
    dials = {dial.name: dial for dial in pulse.dials([found])}
    now = sample.NOW

    def jobs(name: str) -> list[int]:
        test = parse_filter(dials[name].filter, "alice", now)
        return [job.number for job in mirror.jobs.values() if test.matches(Entry(job))]

    assert (len(jobs("pending")), len(jobs("running"))) == (found.pending, found.running)
    assert found.oldest is not None and jobs("oldest") == [found.oldest.number]
    fleet = Fleet()
    fleet.update(mirror)
    test = node_filter(mirror, dials["nodes"].filter)
    assert sum(test(fact) for fact in fleet.facts.values()) == found.down + found.drained
    assert dials["gpus"].view == "gpus"
    assert len(select(mirror, fleet, GpuSpec(dials["gpus"].filter))) == sum(
        bool(gpu.used) for fact in fleet.facts.values() for gpu in fact.gpus
    )


def test_nothing_and_unknown() -> None:
    mirror = Mirror(welcome=replies.Welcome("new", "alice", ("user",), Epoch(1), "0.1.0", sample.NOW))
    mirror.take(replies.SnapshotPart(0, Epoch(1), True, True))
    found = reading(mirror, None)
    words = {dial.name: "".join(text for text, _ in dial.figure) for dial in pulse.dials([found])}
    assert words == {"pending": "0", "running": "0", "gpus": "0", "busy": "?", "nodes": "0", "starts": "0", "cycle": "?",
                     "oldest": "-"}  # fmt: skip
    assert pulse.dials([]) == [] and pulse.span_words([]) == "from now on"


def test_words_of_times() -> None:
    found = reading(sample.sample_mirror())
    assert pulse.span_words([replace(found, time=found.time - 720), found]) == "last 12 min"
    assert [pulse.age_filter(age) for age in (5, 130, 7_300, 200_000)] == ["age>=5s", "age>=2m", "age>=2h", "age>=2d"]
    assert [pulse.millis_words(us) for us in (420, 9_999, 12_300, 1_440_000)] == ["0.4 ms", "10.0 ms", "12 ms", "1.4 s"]


@pytest.mark.parametrize(("size", "expected"), [((78, 21), (2, 39, 5)), ((58, 13), (2, 29, 3)), ((118, 37), (4, 29, 14)),
                                                 ((40, 13), (1, 40, 3))])  # fmt: skip
def test_the_grid_fits_the_screen(size: tuple[int, int], expected: tuple[int, int, int]) -> None:
    assert pulse.grid(8, *size) == expected


def test_a_dial_fills_its_lines() -> None:
    dial = pulse.dials([reading(sample.sample_mirror())])[0]
    for rows in (3, 6):
        assert len(pulse.draw(dial, 30, rows)) == rows
    assert "".join(text for text, _ in pulse.draw(dial, 30, 3)[2]) == " " * 29 + "█"
