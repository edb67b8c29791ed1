"""The drawing of a node: what is wired together, and whose job is on each CPU and GPU."""

from __future__ import annotations

import msgspec
import pytest
from support import sample_cluster as sample

from flagplot.view.fleet import Fleet, NodeFact, fact_of
from flagplot.view.wiring import LETTERS, boxes, draw, letters
from flagplot_wire.job import State
from flagplot_wire.node import Gpu, Inventory, Node, NumaNode
from flagplot_wire.text import width


@pytest.fixture
def facts() -> dict[str, NodeFact]:
    fleet = Fleet()
    fleet.update(sample.sample_mirror())
    return fleet.facts


def lines(fact: NodeFact, columns: int = 76) -> list[str]:
    return ["".join(text for text, _ in line) for line in draw(fact, columns, sample.NOW)]


def bare(**changes: object) -> NodeFact:
    inventory = Inventory("b", 1, 4, 1, "0-3", 1_024)
    return fact_of(Node("n", msgspec.structs.replace(inventory, **changes), True), (), None)


def test_cpus_and_gpus_stand_in_their_numa_node_with_their_jobs(facts: dict[str, NodeFact]) -> None:
    drawn = lines(facts["gpu04"])
    assert drawn[0].startswith("╭─ socket 0 · NUMA 0 · 503 GiB ─") and "NUMA 1" in drawn[5]
    assert "CPU aaaabbbb ░░░░░░░░" in drawn[1] and "0-31  8 held" in drawn[2]
    assert "GPU 0 aaabbb░░  1 c░░░░░░░" in drawn[3]
    assert "CPU cccc░░░░" in drawn[6] and "32-63  4 held" in drawn[7] and "GPU 4 ░" in drawn[8]
    assert [line[:13] for line in drawn[-4:-1]] == ["a  43  dave  ", "b  44  erin  ", "c  45  alice "]
    assert ("aaaa", "owner:dave") in draw(facts["gpu04"], 76, sample.NOW)[1]


@pytest.mark.parametrize("columns", [40, 76, 81, 116, 200])
def test_boxes_fill_the_width_and_stand_side_by_side_where_two_fit(facts: dict[str, NodeFact], columns: int) -> None:
    drawn = lines(facts["gpu03"], columns)
    boxed = drawn[: drawn.index("")]
    assert {width(line) for line in boxed} <= {columns, columns - 1}
    assert boxed[0].count("╭") == (2 if columns >= 81 else 1)


def test_faults_drains_and_silence_are_not_free(facts: dict[str, NodeFact]) -> None:
    assert "5 !!!!!!!!" in "\n".join(lines(facts["gpu09"]))
    assert "░" not in "\n".join(lines(facts["gpu10"])[:-1]) and "CPU ········" in lines(facts["gpu10"])[1]
    assert "CPU ????????" in lines(facts["gpu11"])[1]
    assert lines(facts["gpu12"]) == ["Its agent never reported: how it is wired is not known."]
    assert lines(bare(cpu_ids="1-3", numa=(NumaNode(0, "0-3", 1_024),)))[1].startswith("│ CPU -░░░ ")


def test_a_suspended_job_holds_its_gpus_alone(facts: dict[str, NodeFact]) -> None:
    fact = facts["gpu07"]
    suspended = next(job for job in fact.jobs if job.status.state is State.SUSPENDED)
    sign = letters(fact.jobs)[int(suspended.number)][0]
    drawn = lines(fact)
    assert f"0 {sign * 8}" in drawn[3] and sign not in drawn[1]
    assert any(line.startswith(f"{sign}  63") and "suspended: no CPUs" in line for line in drawn)


def test_threads_stand_below_one_another_only_where_the_numbers_tell() -> None:
    told = boxes(bare(threads_per_core=2, cpu_ids="0-7", numa=(NumaNode(0, "0-3,8-11", 1),)))
    assert told[0].rows == ((0, 1, 2, 3), (8, 9, 10, 11))
    assert boxes(bare(threads_per_core=2, numa=(NumaNode(0, "0-7", 1),)))[0].rows == (tuple(range(8)),)


def test_what_is_not_told_has_a_box_of_its_own() -> None:
    gpus = (Gpu(0, "u0", "h100", numa=0), Gpu(1, "u1", "h100"))
    found = boxes(bare(sockets=2, gpus=gpus, numa=(NumaNode(0, "0-1", 1), NumaNode(3, "2-3", 1))))
    assert [box.title for box in found] == [
        "socket 0 · NUMA 0 · 1 MiB", "socket 1 · NUMA 3 · 1 MiB", "GPUs of an unknown NUMA node",
    ]  # fmt: skip
    assert [[gpu.gpu.index for gpu in box.gpus] for box in found] == [[0], [], [1]]
    assert [box.title for box in boxes(bare(sockets=2))] == ["2 sockets"]
    assert boxes(bare(sockets=2, numa=(NumaNode(0, "0-3", 1),)))[0].title == "NUMA 0 · 1 MiB"
    assert boxes(bare(cpu_ids="", numa=(NumaNode(0, "nonsense", 1),)))[0].rows == ()


def test_many_jobs_share_the_last_sign() -> None:
    jobs = [sample.job(number, "eve", "x", sample.gpus(1), sample.pending(1, 1)) for number in range(60)]
    signs = letters(jobs)
    assert signs[0][0] == "a" and signs[51][0] == LETTERS[-1] and signs[52][0] == "#" and len(signs) == 60
