"""Steps, ranks, attempts and dependencies of a job in words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC

from msgspec.structs import replace
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view import depends, job_story
from flagplot_wire import replies
from flagplot_wire.events import Event, JobAdded, JobChanged
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import ArraySpec, Dependency, DependencyTerm, Job, Request, State, Status

NOW = sample.NOW


def words(rows: Iterable[job_story.Row]) -> list[str]:
    return [f"{label} {''.join(text for text, _ in pieces)}".strip() for label, pieces in rows]


def cluster(*jobs: Job) -> Mirror:
    mirror = Mirror(welcome=replies.Welcome("t", "alice", ("user",), Epoch(1), "0.1.0", NOW))
    mirror.take(replies.SnapshotPart(0, Epoch(1), True, True, jobs))
    return mirror


def job(number: int, status: Status | None = None, *terms: tuple[str, ...], **spec: object) -> Job:
    """A job that waits for (kind, job, …)."""
    wanted = Dependency(tuple(DependencyTerm(kind, jobs) for kind, *jobs in ((t[0], *t[1:]) for t in terms)))  # type: ignore[arg-type]
    return sample.job(
        number,
        "alice",
        f"job{number}",
        Request(),
        status or sample.pending(100, 1),
        dependency=wanted if terms else None,
        **spec,
    )


def tree(links: list[depends.Link], mirror: Mirror) -> list[str]:
    return ["".join(text for text, _ in depends.link_pieces(mirror, link, NOW)) for link in links]


# steps and ranks


def test_ranks_and_steps() -> None:
    big = sample.sample_mirror().jobs[JobNumber(40)]
    assert words(job_story.ranks(big.status.allocation, False)) == [
        "Has 2 tasks on 2 nodes", "gpu01  rank 0  8 CPUs (0-7)  8 GPUs", "gpu02  rank 1  8 CPUs (0-7)  8 GPUs",
    ]  # fmt: skip
    assert job_story.ranks(None, True) == []
    found = words(job_story.step_rows(sample.sample_steps(JobNumber(40)), NOW))
    assert found[0] == "40.batch batch  ● running  1-01:00:00  8 tasks"
    assert found[found.index("40.0 torchrun  ● running  22:13:20  16 tasks") + 3] == "gpu02  ranks 8-15"
    assert found[-3] == "40.1 check  ✗ failed  0:30  1 task  exit code 1  CPU 29 s  1.5 GiB at its peak"
    assert found[-1] == "ended with code 1"


# attempts


def test_attempts_from_the_journal() -> None:
    started = sample.running(NOW - 1_000, sample.alloc({1: (), 2: ()}))
    lost = replace(sample.pending(2_000, 1), attempt=1, message="node gpu02 failed")
    again = sample.running(NOW - 300, sample.alloc({3: ()}), 2)
    last = job(7, again)
    events = [
        Event(1, NOW - 2_000, JobAdded(job(7))),
        Event(2, NOW - 1_000, JobChanged(JobNumber(7), started, "started")),
        Event(3, NOW - 400, JobChanged(JobNumber(7), lost, "requeued")),
        Event(4, NOW - 300, JobChanged(JobNumber(7), again, "started")),
        Event(5, NOW - 200, JobChanged(JobNumber(8), sample.ended(State.FAILED, 500, 100), "ended")),
    ]
    tried = job_story.attempts(events, last)
    assert [(one.attempt, one.state, one.ended) for one in tried] == [(1, "REQUEUED", NOW - 400), (2, "RUNNING", 0)]
    found = words(job_story.attempt_rows(tried, NOW, UTC))
    assert found[0].startswith("Attempt 1 ↺ requeued  after 10:00  on gpu[01-02]  from 2025-12-01 ")
    assert found[1] == "node gpu02 failed" and found[2].startswith("Attempt 2 ● running  for 5:00  on gpu03")
    assert job_story.attempts([], job(9)) == []
    assert [one.attempt for one in job_story.attempts([], last)] == [2], "the journal may not reach back"
    told = words(job_story.story(events[:4], cluster(last), last, UTC))
    assert len(told) == 4 and "started" in told[0] and told[-1].endswith("by alice")


# dependencies


def test_both_directions_and_how_each_link_is() -> None:
    done, failed = sample.ended(State.COMPLETED, 900, 100), sample.ended(State.FAILED, 900, 100, 1)
    mirror = cluster(
        job(1, done), job(2, failed), job(3, sample.running(NOW - 60, sample.alloc({1: ()}))),
        job(4, None, ("afterok", "1", "2"), ("afternotok", "2"), ("afterany", "3", "99"), ("afterok", "98")),
        job(5, None, ("after", "4")),
        job(6, None, ("afterok", "5"), ("afterany", "4")),
    )  # fmt: skip
    links = depends.waits_for(mirror, mirror.jobs[JobNumber(4)], NOW)
    assert [(link.kind, link.target, link.state) for link in links] == [
        ("afterok", "1", "met"), ("afterok", "2", "broken"), ("afternotok", "2", "met"), ("afterany", "3", "waits"),
        ("afterany", "99", "met"), ("afterok", "98", "broken"),
    ]  # fmt: skip
    drawn = tree(links, mirror)
    assert drawn[1] == "├─ ✗ afterok 2 job2 alice  ✗ failed  never: this link is broken"
    assert drawn[-1] == "└─ ✗ afterok 98  is no longer in the queue  never: this link is broken"
    behind = depends.followers(mirror.jobs.values())
    drawn = tree(depends.waited_for_by(mirror, mirror.jobs[JobNumber(4)], behind, NOW), mirror)
    assert drawn == [
        "├─ ○ after 5 job5 alice  ○ pending", "│  └─ ○ afterok 6 job6 alice  ○ pending",
        "└─ ○ afterany 6 job6 alice  ○ pending",
    ]  # fmt: skip
    deep = depends.waits_for(mirror, mirror.jobs[JobNumber(6)], NOW)
    assert [link.target for link in deep][:3] == ["5", "4", "1"], "what waits is followed"


def test_elements_of_arrays() -> None:
    array = job(10, replace(sample.pending(100, 1), waiting="3-9"), array=ArraySpec("0-9"))
    element = replace(job(11, sample.ended(State.COMPLETED, 900, 100)), array_number=JobNumber(10), array_index=1)
    mirror = cluster(array, element, job(12, None, ("afterok", "10_1", "10_5", "10_2"), ("afterany", "10_2")))
    links = depends.waits_for(mirror, mirror.jobs[JobNumber(12)], NOW)
    assert [link.state for link in links] == ["met", "waits", "broken", "met"]
    behind = depends.followers(mirror.jobs.values())
    assert len(depends.waited_for_by(mirror, mirror.jobs[JobNumber(11)], behind, NOW)) == 1
    assert len(depends.waited_for_by(mirror, mirror.jobs[JobNumber(10)], behind, NOW)) == 4


def test_circles_and_crowds_end() -> None:
    mirror = cluster(job(1, None, ("afterok", "2")), job(2, None, ("afterok", "1")))
    behind = depends.followers(mirror.jobs.values())
    for number in (1, 2):
        one = mirror.jobs[JobNumber(number)]
        assert len(depends.waits_for(mirror, one, NOW)) == 2
        assert len(depends.waited_for_by(mirror, one, behind, NOW)) == 2
    many = cluster(job(1), *(job(number, None, ("afterok", "1")) for number in range(2, 1_000)))
    behind = depends.followers(many.jobs.values())
    assert len(depends.waited_for_by(many, many.jobs[JobNumber(1)], behind, NOW)) == depends.MOST


def test_a_delay_and_a_singleton() -> None:
    running = job(1, sample.running(NOW - 60, sample.alloc({1: ()})))
    late = replace(job(2), spec=replace(job(2).spec, dependency=Dependency((DependencyTerm("after", ("1",), 120),))))
    same = [replace(job(n), spec=replace(job(n).spec, name="x")) for n in (3, 4)]
    single = replace(same[1], spec=replace(same[1].spec, dependency=Dependency((DependencyTerm("singleton"),))))
    mirror = cluster(running, late, same[0], single)
    (link,) = depends.waits_for(mirror, late, NOW)
    assert (link.kind, link.state) == ("after+2", "waits")
    assert depends.waits_for(mirror, late, NOW + 60)[0].state == "met"
    assert [link.target for link in depends.waits_for(mirror, single, NOW)] == ["3"]
