"""How far drains and reboots are, and when one that was asked for is through."""

from __future__ import annotations

import msgspec
import pytest
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view.drains import Watched, drainings, end_of, progress_line
from flagplot.view.fleet import Fleet
from flagplot_wire.events import Event, JobsForgotten, NodeChanged
from flagplot_wire.node import Drain
from flagplot_wire.replies import EventsPushed


@pytest.fixture
def mirror() -> Mirror:
    return sample.sample_mirror()


def put(mirror: Mirror, drain: Drain | None, *numbers: int, boot: str = "") -> None:
    for number in numbers:
        node = msgspec.structs.replace(sample.node(number), drain=drain)
        mirror.take(EventsPushed((Event(mirror.seq + 1, sample.NOW, NodeChanged(node, "drained")),)))


def words(mirror: Mirror) -> list[str]:
    fleet = Fleet()
    fleet.update(mirror)
    return [one.words(sample.NOW) for one in drainings(fleet.facts.values())]


def test_progress_counts_the_nodes_of_one_reason_and_tells_the_last_end(mirror: Mirror) -> None:
    put(mirror, Drain("kernel", "root", sample.NOW), 1, 3, 6)
    assert words(mirror)[0] == "1 of 3 drained, last ends in 23 h"
    fleet = Fleet()
    fleet.update(mirror)
    line = "".join(text for text, _ in progress_line(drainings(fleet.facts.values()), sample.NOW))
    assert line.startswith("▽ 1 of 3 drained, last ends in 23 h") and line.endswith("kernel  root  and 1 more")
    assert progress_line([], sample.NOW) == []


def test_jobs_without_a_limit_and_drains_that_are_through(mirror: Mirror) -> None:
    put(mirror, Drain("disk", "root", sample.NOW), 7)
    assert words(mirror)[0] == "0 of 1 drained, 1 job without a limit"
    put(mirror, None, 7, 8)
    assert words(mirror) == []


def test_reboots_are_counted_apart(mirror: Mirror) -> None:
    put(mirror, Drain("kernel", "root", sample.NOW, reboot="asked"), 3)
    put(mirror, Drain("kernel", "root", sample.NOW, reboot="ordered", ordered=sample.NOW), 6)
    assert words(mirror)[0].startswith("2 to reboot, 1 rebooting, last ends in 23 h")


def test_the_end_of_a_drain(mirror: Mirror) -> None:
    watched = Watched(("gpu03", "gpu06"), "kernel", False)
    put(mirror, Drain("kernel", "root", sample.NOW), 3, 6)
    assert end_of(mirror, watched) == ""
    gone = tuple(mirror.held["gpu03"])
    mirror.take(EventsPushed((Event(mirror.seq + 1, sample.NOW, JobsForgotten(gone)),)))
    assert end_of(mirror, watched) == "Drained: gpu[03,06] (kernel)"
    put(mirror, None, 3, 6)
    assert end_of(mirror, watched) == "No longer draining: gpu[03,06]"


def test_the_end_of_a_reboot(mirror: Mirror) -> None:
    watched = Watched(("gpu03", "gpu06"), "kernel", True)
    put(mirror, Drain("kernel", "root", sample.NOW, reboot="asked"), 3, 6)
    assert end_of(mirror, watched) == ""
    put(mirror, None, 3)
    put(mirror, Drain("kernel; did not reboot: no program", "root", sample.NOW), 6)
    assert end_of(mirror, watched) == "1 of 2 rebooted (kernel); gpu06 did not"
    put(mirror, None, 6)
    assert end_of(mirror, watched) == "Rebooted: gpu[03,06] (kernel)"
