"""What an edit of several jobs will do to each."""

from __future__ import annotations

import pytest
from support import sample_cluster as sample

from flagplot.view.edit import FIELDS, changed_ones, edit_lines, effect_of, problem_with, why_disabled
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.text import width


@pytest.fixture
def jobs() -> dict[JobNumber, Job]:
    return sample.sample_mirror().jobs


@pytest.mark.parametrize(
    ("number", "changes", "words"),
    [
        (55, {"time_limit": "120"}, "time limit 1-00:00:00 → 2:00:00"),
        (55, {"time_limit": "1-0"}, "nothing: is so already"),
        (55, {"time_limit": "1:00:00", "partition": "debug"}, "time limit 1-00:00:00 → 1:00:00, partition gpu → debug"),
        (55, {"account": "physics"}, "account none → physics"),
        (55, {"nice": "50", "priority": "7"}, "nice 0 → 50, priority"),
        (41, {"partition": "debug"}, "cannot: has started"),
        (41, {"partition": "debug", "time_limit": "60"}, "cannot: has started"),
        (41, {"time_limit": "60"}, "time limit 1-00:00:00 → 1:00:00"),
        (41, {"time_limit": "UNLIMITED"}, "cannot: operators raise limits"),
        (64, {"time_limit": "60"}, "nothing: has ended"),
        (62, {"time_limit": "60"}, "nothing: has ended"),
        (50, {"partition": "debug"}, "partition gpu → debug"),
    ],
)
def test_the_effect_on_one_job(jobs: dict[JobNumber, Job], number: int, changes: dict[str, str], words: str) -> None:
    assert effect_of(jobs[JobNumber(number)], changes, False).startswith(words)


def test_operators_raise_limits(jobs: dict[JobNumber, Job]) -> None:
    assert effect_of(jobs[JobNumber(41)], {"time_limit": "2-0"}, True) == "time limit 1-00:00:00 → 2-00:00:00"


def test_only_those_that_change_are_sent_and_all_are_listed(jobs: dict[JobNumber, Job]) -> None:
    some = [jobs[JobNumber(number)] for number in (41, 55, 57, 64)]
    changes = {"partition": "debug"}
    assert [job.number for job in changed_ones(some, changes, True)] == [55, 57]
    lines = edit_lines(some, changes, True)
    assert [line.partition("→")[2].strip()[:13] for line in lines] == [
        "cannot: has s", "partition gpu", "partition gpu", "nothing: has ",
    ]  # fmt: skip
    assert len({width(line.partition("→")[0]) for line in lines}) == 1


def test_which_fields_can_change(jobs: dict[JobNumber, Job]) -> None:
    fields = {field.name: field for field in FIELDS}
    pending, running = jobs[JobNumber(55)], jobs[JobNumber(41)]
    assert why_disabled(fields["partition"], [running], True) == "only while pending"
    assert why_disabled(fields["partition"], [running, pending], True) == ""
    assert why_disabled(fields["name"], [running, pending], True) == "only one job at a time"
    assert why_disabled(fields["priority"], [pending], False) == "operators only"
    assert why_disabled(fields["priority"], [pending], True) == ""
    assert why_disabled(fields["array_limit"], [pending], True) == "only of arrays"
    assert problem_with(fields["priority"], "high") and not problem_with(fields["nice"], "-5")
