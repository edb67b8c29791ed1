"""GPUs, the timeline and the journal as rows."""

from __future__ import annotations

from datetime import UTC

import pytest
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view import events, gpus, timeline
from flagplot.view.columns import spread
from flagplot.view.fleet import Fleet
from flagplot_wire.events import Event, JobsForgotten, JobSpecChanged, NodeRemoved, PartitionChanged
from flagplot_wire.ids import JobNumber
from flagplot_wire.node import Partition
from flagplot_wire.replies import EventsPushed


@pytest.fixture
def mirror() -> Mirror:
    return sample.sample_mirror()


@pytest.fixture
def fleet(mirror: Mirror) -> Fleet:
    made = Fleet()
    made.update(mirror)
    return made


def plain(pieces: object) -> str:
    return "".join(text for text, _ in pieces)  # type: ignore[attr-defined]


def row(fleet: Fleet, name: str, index: int, width: int = 140) -> dict[str, str]:
    found = gpus.find(fleet, fleet.key(name) * gpus.STRIDE + index)
    assert found
    columns = spread(gpus.COLUMNS, width)
    cells = gpus.cells(*found, columns, True)
    return {column.key: plain(cell) for (column, _), cell in zip(columns, cells, strict=True)}


def test_rows_tell_holders_shares_free_outsiders_and_faults(fleet: Fleet) -> None:
    shared = row(fleet, "gpu04", 0)
    assert "43 dave 3/8" in shared["holders"] and "44 erin 3/8" in shared["holders"] and shared["free"] == "2"
    assert row(fleet, "gpu01", 3)["holders"].strip() == "40 alice"
    assert row(fleet, "gpu06", 0)["holders"] == "free" and row(fleet, "gpu06", 0)["shards"] == "░" * 8
    outsider = row(fleet, "gpu06", 7)["holders"]
    assert "! root pid 999 2048 MiB" in outsider and "\x1b" not in outsider
    assert "Xid 79" in row(fleet, "gpu09", 5)["holders"]
    assert row(fleet, "gpu10", 0)["holders"] == "-  node drained"


def test_what_was_not_measured_is_unknown(fleet: Fleet) -> None:
    down = row(fleet, "gpu11", 0)
    assert down["util"].split()[-1] == "?" and down["temp"] == down["power"] == "?"
    assert down["vram"].split()[-1] == "?/40"
    assert row(fleet, "gpu01", 0)["util"].split()[-1] == "77%"


@pytest.mark.parametrize("width", [60, 79, 90, 110, 200])
def test_columns_fit(width: int) -> None:
    columns = spread(gpus.COLUMNS, width)
    assert width < 79 or sum(size + 1 for _, size in columns) <= width


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", 88),
        ("free", 31),
        ("user:alice", 17),
        ("user:me", 17),
        ("shared", 2),
        ("outsider", 1),
        ("idle", 2),
        ("fault", 1),
        ("type:a100", 40),
        ("free>=8 node:gpu06", 8),
        ("busy>90", 5),
        ("job:50", 2),
        ("held !user:alice", 17),
        ("user:", 88),
        ("room gpu04", 8),
    ],
)
def test_filter(mirror: Mirror, fleet: Fleet, text: str, found: int) -> None:
    keys = gpus.select(mirror, fleet, gpus.GpuSpec(text))
    assert len(keys) == found and len(set(keys)) == found


def test_orders(mirror: Mirror, fleet: Fleet) -> None:
    for sort in gpus.SORTS:
        one = gpus.select(mirror, fleet, gpus.GpuSpec(sort=sort))
        assert len(one) == 88
    busiest = gpus.find(fleet, gpus.select(mirror, fleet, gpus.GpuSpec(sort="util"))[0])
    assert busiest and busiest[1].sample and busiest[1].sample.utilisation == 99
    spec = gpus.GpuSpec().sorted_by("util").sorted_by("util")
    assert spec.reverse and spec.sorted_by("nonsense").sort == "node"


def test_timeline_rows_and_bars(mirror: Mirror, fleet: Fleet) -> None:
    keys = timeline.rows(mirror, fleet, "gpu04", False, {})
    numbers = [key & ((1 << timeline.JOB_BITS) - 1) for key in keys]
    assert numbers == [0, 43, 44, 45, 61]
    assert len(timeline.rows(mirror, fleet, "", True, {})) == 12
    view = timeline.window(sample.NOW, timeline.DEFAULT_SCALE, 0, 60)
    bars = {
        int(bar.job.number): bar
        for bar in timeline.bars_of(mirror, fleet.facts["gpu04"], timeline.planned_by_node(mirror))
    }
    for bar in bars.values():
        assert len(plain(timeline.job_strip(bar, view, sample.NOW))) == 60
    here = view.cell(sample.NOW)
    ran = plain(timeline.job_strip(bars[43], view, sample.NOW))
    assert ran[here - 1] == "█" and ran[here + 1] == "▒" and ran.rstrip().endswith("▒")
    planned = plain(timeline.job_strip(bars[61], view, sample.NOW))
    assert planned[here] == "│" and planned[view.cell(sample.NOW + 7_300)] == "░"
    assert len(plain(timeline.node_strip(mirror, fleet.facts["gpu04"], view, sample.NOW))) == 60
    assert "never" in plain(timeline.node_strip(mirror, fleet.facts["gpu12"], view, sample.NOW))


def test_no_limit_goes_on_and_far_starts_are_told(mirror: Mirror, fleet: Fleet) -> None:
    view = timeline.window(sample.NOW, 0, 0, 60)
    planned = timeline.planned_by_node(mirror)
    cpu_only = next(b for b in timeline.bars_of(mirror, fleet.facts["gpu07"], planned) if b.job.number == 46)
    assert plain(timeline.job_strip(cpu_only, view, sample.NOW))[-1] == "→"
    gang = next(b for b in timeline.bars_of(mirror, fleet.facts["gpu01"], planned) if b.planned)
    assert plain(timeline.job_strip(gang, view, sample.NOW)).endswith("planned in 21 h →")


@pytest.mark.parametrize("scale", range(len(timeline.SCALES)))
@pytest.mark.parametrize("cells", [20, 60, 180])
def test_axis_fits_and_names_now(scale: int, cells: int) -> None:
    view = timeline.window(sample.NOW, scale, 0, cells)
    text = timeline.axis(view, sample.NOW, UTC)
    assert len(text) == cells and "▼now" in text
    assert text.count("╵") >= (1 if cells >= 60 else 0)


def test_journal_rows(mirror: Mirror) -> None:
    rows = events.select(mirror, [], "")
    assert [row.seq for row in rows] == list(range(107, 100, -1))
    drained = rows[0]
    assert (drained.what, drained.target, drained.by, drained.node) == ("drained", "gpu10", "alice", "gpu10")
    assert "\x1b" not in drained.text
    assert [row.target for row in events.select(mirror, [], "started !gpu")] == []
    assert [row.job for row in events.select(mirror, [], "eval")] == [48]
    older = [Event(99, 1, NodeRemoved("old", "root"))]
    assert events.select(mirror, older, "")[-1].target == "old"


def test_every_kind_of_event_has_words(mirror: Mirror) -> None:
    spec = mirror.jobs[JobNumber(61)].spec
    for body in (
        JobsForgotten((JobNumber(1), JobNumber(2))),
        JobSpecChanged(JobNumber(61), spec, "time limit 1:00:00", "alice"),
        JobSpecChanged(JobNumber(999), spec, "x"),
        NodeRemoved("n"),
        PartitionChanged(Partition("gpu", up=False), "root"),
    ):
        mirror.take(EventsPushed((Event(mirror.seq + 1, sample.NOW, body),)))
    assert [row.what for row in events.select(mirror, [], "")[:5]] == [
        "partition",
        "removed",
        "changed",
        "changed",
        "forgotten",
    ]


def test_ages() -> None:
    assert events.age(sample.NOW - 180, sample.NOW, UTC) == "3 min"
    assert events.age(sample.NOW - 100_000, sample.NOW, UTC) == "11-30 08:06"
