"""The queue's rows, order, filter and columns."""

from __future__ import annotations

import msgspec
import pytest
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view.filters import Entry, parse_filter
from flagplot.view.listing import Listing
from flagplot.view.narrowing import narrowing
from flagplot.view.queue import (
    QueueSpec,
    cells,
    columns_for,
    find_job,
    job_target,
)
from flagplot.view.words import about, elapsed, memory, moment, short_span
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import State


def select(mirror: Mirror, spec: QueueSpec) -> list[JobNumber]:
    listing = Listing()
    listing.sync(mirror, spec, sample.NOW)
    return list(listing.rows)


def numbers(text: str, **spec: object) -> set[int]:
    return set(select(sample.sample_mirror(), QueueSpec(filter=text, **spec)))  # type: ignore[arg-type]


def test_ended_jobs_come_last_and_can_be_hidden() -> None:
    mirror = sample.sample_mirror()
    states = [mirror.jobs[n].status.state.ended for n in select(mirror, QueueSpec())]
    assert states == sorted(states)
    assert any(states)
    assert not any(mirror.jobs[n].status.state.ended for n in select(mirror, QueueSpec(ended=False)))


def test_arrays_are_one_row_until_unfolded() -> None:
    assert 50 in numbers("") and not {51, 52, 53, 54} & numbers("")
    assert {50, 51, 52, 53, 54} <= numbers("", unfold=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user:bob state:R", {41, 47}),
        ("user:me state:PD", {57, 61}),
        ("st:CG", {62}),
        ("state:held", {57, 58}),
        ("gpu>=16 state:R", {40}),
        ("resnet", {41}),
        ("~^RES.*", {41}),
        ("~^res\\w+", {41}),
        ("~^RES\\W", set()),
        ("RESNET", {41}),
        ("node:gpu03", {41, 42}),
        ("gpu03 !whisper", {41}),
        ("nodes>1 state:PD", {55}),
        ("id:41", {41}),
        ("x[/red]", {81}),
        ("漢字", {44}),
    ],
)
def test_filters(text: str, expected: set[int]) -> None:
    assert numbers(text) == expected


@pytest.mark.parametrize("text", ["user:", "!", "state:", "  "])
def test_half_typed_filters_match_everything(text: str) -> None:
    assert numbers(text) == numbers("")


def test_no_field_is_text() -> None:
    assert not parse_filter("nonsense:41").matches(Entry(sample.sample_jobs()[0]))


def test_pending_by_priority_running_first() -> None:
    mirror = sample.sample_mirror()
    order = select(mirror, QueueSpec())
    assert order.index(JobNumber(40)) < order.index(JobNumber(55)) < order.index(JobNumber(61))


def test_sorting_twice_reverses() -> None:
    mirror = sample.sample_mirror()
    spec = QueueSpec(ended=False).sorted_by("id")
    up = select(mirror, spec)
    assert up == sorted(up)
    assert select(mirror, spec.sorted_by("id")) == up[::-1]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200, 400])
def test_columns_fit_their_width(width: int) -> None:
    columns = columns_for(width)
    used = 1 + sum(size + 1 for _, size in columns)
    assert used <= max(width, 84)
    keys = [column.key for column, _ in columns]
    assert {"id", "name", "user", "state", "time", "gpus", "where"} <= set(keys)
    assert ("partition" in keys) == (width >= 104)


def row(number: int) -> dict[str, str]:
    mirror = sample.sample_mirror()
    columns = columns_for(220)
    found = cells(mirror, JobNumber(number), sample.NOW, columns, True)
    return {column.key: text for (column, _), (text, _) in zip(columns, found, strict=True)}


def test_cells_of_a_running_job() -> None:
    assert row(41) == {
        "id": "41",
        "partition": "gpu",
        "name": "resnet50",
        "user": "bob",
        "state": "● R",
        "time": "1:23:45",
        "limit": "1d",
        "priority": "-",
        "nodes": "1",
        "gpus": "4 h100",
        "where": "gpu03",
    }


def test_cells_of_pending_jobs_tell_why() -> None:
    assert row(55)["where"] == "(Resources) in 21 h"
    assert row(60)["where"] == "(never: no node has 16 h100: the largest has 8)"
    assert row(57)["state"] == "◇ PD"
    assert row(43)["gpus"] == "3/8"
    assert row(50)["id"] == "50_[4-19%2]"
    assert row(50)["where"] == "2 running · 16 waiting · 2 ended, 1 failed"


def test_hostile_names_are_made_safe() -> None:
    names = [row(80 + k)["name"] for k in range(len(sample.HOSTILE))]
    assert names[:7] == list(sample.HOSTILE[:7])
    assert all(name.isprintable() for name in names)
    assert not any(char in "".join(names) for char in "\x1b\x9b\r\u202e")


def test_targets_name_elements() -> None:
    mirror = sample.sample_mirror()
    element = mirror.jobs[JobNumber(53)]
    assert job_target(element) == "50_2"
    assert find_job(mirror, "50_2") is element
    assert find_job(mirror, "41") is mirror.jobs[JobNumber(41)]
    assert find_job(mirror, "999") is None


def test_a_job_that_is_gone_leaves_an_empty_row() -> None:
    mirror = sample.sample_mirror()
    columns = columns_for(80)
    assert cells(mirror, JobNumber(12345), sample.NOW, columns, True) == [("", "dim")] * len(columns)


def test_every_state_has_a_look() -> None:
    mirror = sample.sample_mirror()
    job = mirror.jobs[JobNumber(41)]
    seen = set()
    for state in State:
        mirror.jobs[JobNumber(41)] = msgspec.structs.replace(
            job, status=msgspec.structs.replace(job.status, state=state)
        )
        seen.add(cells(mirror, JobNumber(41), sample.NOW, columns_for(80), True)[3][0])
    assert len(seen) == len(State)


def test_words() -> None:
    assert [elapsed(s) for s in (0, 59, 3_599, 3_600, 93_784)] == ["0:00", "0:59", "59:59", "1:00:00", "1-02:03:04"]
    assert [short_span(s) for s in (0, 45, 5_400, 86_400, 90_000, 90_061)] == [
        "0s",
        "45s",
        "1h30m",
        "1d",
        "1d1h",
        "1d1h",
    ]
    assert [about(s) for s in (5, 90, 7_200, 9_000, 100_000)] == ["5 s", "1 min", "2 h", "2 h 30 min", "1 d 3 h"]
    assert moment(1_000_000, 1_000_060) == "1 min ago"
    assert [memory(m) for m in (None, 512, 1_024, 1_536)] == ["?", "512 MiB", "1 GiB", "1.5 GiB"]


def test_a_huge_queue_is_selected_quickly() -> None:
    import time

    mirror = sample.sample_mirror()
    model = mirror.jobs[JobNumber(61)]
    for number in range(1_000, 101_000):
        mirror.jobs[JobNumber(number)] = msgspec.structs.replace(model, number=JobNumber(number))
    began = time.process_time()
    assert len(select(mirror, QueueSpec(filter="user:alice"))) > 100_000
    assert time.process_time() - began < 3


def test_an_array_unfolded_singly_has_its_elements_below_it() -> None:
    mirror = sample.sample_mirror()
    rows = select(mirror, QueueSpec(unfolded=frozenset({JobNumber(50)})))
    elements = sorted(mirror.elements[JobNumber(50)], key=lambda number: mirror.jobs[number].array_index or 0)
    at = rows.index(JobNumber(50))
    assert elements and rows[at + 1 : at + 1 + len(elements)] == elements
    assert [number for number in rows if number not in elements] == select(mirror, QueueSpec())


@pytest.mark.parametrize(
    ("before", "after", "rest"),
    [
        ("tr", "tra", "tra"),
        ("tr", "tr user:al", "user:al"),
        ("state:pd gpu>", "state:pd gpu>4", "gpu>4"),
        ("gpu>4", "gpu>40", "gpu>40"),
        ("user:al", "user:ali", "user:ali"),
        ("x -f lm", "x -f lmt a", "-f lmt a"),
        ("!", "!train", "!train"),
        ("", "tr", None),
        ("tra", "tr", None),
        ("user:m", "user:me", None),
        ("user:al", "user:al,bob", None),
        ("state:c", "state:cg", None),
        ("state:h", "state:held", None),
        ("gpu<4", "gpu<40", None),
        ("gpu", "gpu>4", None),
        ("age>2", "age>2s", None),
        ("!tr", "!tra", None),
        ("~tr", "~tr|x", None),
        ("user", "user:", None),
        ("-", "-f", None),
    ],
)
def test_what_a_longer_filter_asks_of_the_jobs_that_are_left(before: str, after: str, rest: str | None) -> None:
    assert narrowing(before, after) == rest
