"""What a job uses over time: points from samples, charts, and the words of an ended attempt."""

from __future__ import annotations

from msgspec.structs import replace
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view import job_chart
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, State, Used
from flagplot_wire.text import width


def of(mirror: Mirror, number: int) -> Job:
    return mirror.jobs[JobNumber(number)]


def later(mirror: Mirror, node: str, seconds: int, **changes: int | None) -> None:
    old = mirror.samples[node]
    jobs = tuple(replace(one, **changes) for one in old.jobs)
    mirror.samples[node] = replace(old, time=old.time + seconds, jobs=jobs)


def test_points_add_up_the_nodes_and_weigh_the_gpus() -> None:
    mirror = sample.sample_mirror()
    later(mirror, "gpu02", 0, cpu_percent=100, gpu_percent=10, memory_mib=1_000, gpu_memory_mib=5)
    point = job_chart.point_of(mirror, of(mirror, 40))
    assert point == job_chart.Point(sample.NOW - 2, 740, 32_000, (88 * 8 + 10 * 8) // 16, 30_005)
    cpu_only = job_chart.point_of(mirror, of(mirror, 46))
    assert cpu_only is not None and (cpu_only.gpu, cpu_only.vram) == (None, None)


def test_what_one_node_did_not_tell_is_unknown() -> None:
    mirror = sample.sample_mirror()
    del mirror.samples["gpu02"]
    point = job_chart.point_of(mirror, of(mirror, 40))
    assert point is not None and (point.cpu, point.memory, point.gpu, point.vram) == (None, None, None, None)
    del mirror.samples["gpu01"]
    assert job_chart.point_of(mirror, of(mirror, 40)) is None
    later(mirror, "gpu03", 0, cpu_percent=None)
    point = job_chart.point_of(mirror, of(mirror, 41))
    assert point is not None and point.cpu is None and point.memory == 31_000
    assert job_chart.point_of(mirror, of(mirror, 57)) is None, "it does not run"


def test_a_history_takes_each_sample_once_and_forgets_earlier_attempts() -> None:
    mirror, history = sample.sample_mirror(), job_chart.JobHistory()
    job = of(mirror, 41)
    for seconds in (0, 0, 5, 5):
        later(mirror, "gpu03", seconds)
        history.take(mirror, job)
    assert [one.time - sample.NOW for one in history.points] == [-2, 3, 8]
    assert job_chart.span_words(history) == "the last 10 s, sampled every 5s"
    history.take(mirror, replace(job, status=replace(job.status, attempt=2)))
    assert not history.points and "grow" in job_chart.span_words(history)


def test_vram_of_shares_and_of_unknown_nodes() -> None:
    mirror = sample.sample_mirror()
    held = of(mirror, 43).status.allocation
    assert held is not None and job_chart.vram_of(mirror, held) == 81_559 * 3 // 8
    del mirror.nodes["gpu04"]
    assert job_chart.vram_of(mirror, held) is None


def test_charts_fit_the_room_they_are_given() -> None:
    mirror, history = sample.sample_mirror(), job_chart.JobHistory()
    history.take(mirror, of(mirror, 40))
    found = job_chart.charts(history, mirror, of(mirror, 40))
    assert [one.title for one in found] == ["CPU", "Memory", "GPU", "VRAM"]
    for columns, lines in ((77, 15), (117, 30), (197, 50), (57, 8)):
        rows = job_chart.page(found, columns, lines)
        assert max(sum(width(text) for text, _ in row) for row in rows) <= columns
        assert len(rows) <= max(lines, 12)
    assert len(job_chart.charts(history, mirror, of(mirror, 46))) == 2
    assert job_chart.charts(history, mirror, of(mirror, 57)) == [] and job_chart.page([], 80, 20) == []


def test_more_than_was_asked_for_is_said_by_colour() -> None:
    chart = job_chart.Chart("Memory", (900, 1_200), 1_000, "1000 MiB", lambda value: f"{value:.0f}")
    title, *rows = job_chart.rows_of(chart, 4, 2)
    assert ("1200", "bad") in title and any(role == "bad" for row in rows for _, role in row)
    assert any("─" in text for row in rows for text, _ in row), "the line is not at the top then"
    unknown = job_chart.Chart("GPU", (), None, "?", str)
    assert ("?", "bold") in job_chart.title_row(unknown)


def test_what_an_ended_attempt_used() -> None:
    job = of(sample.sample_mirror(), 41)
    ended = replace(
        job.status, state=State.COMPLETED, end_time=job.status.start_time + 3_600, used=Used(3_600_000, 32_768, None)
    )
    assert job_chart.used_lines(replace(job, status=ended)) == [
        ("CPU time", "1 h, 12 % of 8 CPUs (its steps have their own)"),
        ("Memory", "32 GiB at its peak of 64 GiB, 50 %"),
        ("GPU", "? busy in the mean of 4 GPUs"),
    ]
    assert job_chart.used_lines(job) == []
