"""Changes of the queue in sentences."""

from __future__ import annotations

import msgspec
import pytest
from support import sample_cluster as sample

from flagplot.view.changes import by_id, changes
from flagplot_wire.job import Job

JOBS = by_id(sample.sample_jobs())


def test_nothing_changed_says_nothing() -> None:
    assert changes(JOBS, JOBS) == []


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (None, "41", "job 41 (resnet50) of bob is new: running on gpu03"),
        ("61", None, "job 61 (next-in-line) of alice left the queue, was pending"),
        ("57", "61", "job 61 (next-in-line) of alice is pending, was held"),
        ("61", "41", "job 41 (resnet50) of bob is running on gpu03, was pending"),
        ("41", "65", "job 65 (oops) of carol is failed: exit code 137, was running"),
        (None, "87", "job 87 (a␛]0;X␇b) of mallory is new: pending"),
    ],
)
def test_one_line_each(before: str | None, after: str | None, line: str) -> None:
    def one(name: str | None) -> dict[str, Job]:
        return {"x": JOBS[name]} if name else {}

    assert changes(one(before), one(after)) == [line]


def test_a_new_time_limit() -> None:
    job, replace = JOBS["61"], msgspec.structs.replace
    longer = replace(job, spec=replace(job.spec, request=replace(job.spec.request, time_limit_s=7_200)))
    assert changes({"61": JOBS["61"]}, {"61": longer}) == ["job 61 (next-in-line) of alice has the time limit 2:00:00"]
