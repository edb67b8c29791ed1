"""Two logs of the Parallel Workloads Archive against published figures, to the second.

Needs the traces in ../shared/traces/swf beside the checkout.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

from flagplotd.sim import swf
from flagplotd.sim.engine import simulate
from flagplotd.sim.report import measure

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces" / "swf"
POLICIES = {
    "FCFS": ("fcfs", False),
    "EASY": ("easy", False),
    "EASY-SJBF": ("easy-sjbf", False),
    "EASY-clairvoyant": ("easy", True),
    "SJBF-clairvoyant": ("easy-sjbf", True),
    "CONS-compress": ("conservative", False),
}

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the logs are not in {TRACES}: nothing was compared")


def anchors() -> list[dict[str, str]]:
    if not TRACES.is_dir():
        return []
    with (TRACES / "anchors.csv").open() as file:
        return list(csv.DictReader(file))


@cache
def log(name: str) -> swf.Log:
    return swf.read(TRACES / f"{name}.swf.gz")


@pytest.mark.parametrize("anchor", anchors(), ids=lambda row: f"{row['trace'].partition('-')[0]}-{row['policy']}")
def test_figures_are_those_published(anchor: dict[str, str]) -> None:
    read = log(anchor["trace"])
    assert read.max_procs == int(anchor["procs"])
    policy, clairvoyant = POLICIES[anchor["policy"]]
    figures = measure(simulate(swf.workload(read, read.max_procs), policy, clairvoyant))
    assert figures.jobs == int(anchor["jobs"])
    assert figures.sum_wait_s == int(anchor["sum_wait_s"])
    assert figures.max_wait_s == float(anchor["max_wait_s"])
    assert round(figures.mean_wait_s, 2) == float(anchor["mean_wait_s"])
    assert round(figures.mean_bsld, 6) == float(anchor["mean_bsld_tau10"])
    assert figures.utilisation is not None
    assert round(figures.utilisation, 6) == float(anchor["util_to_last_submit"])


def test_every_published_policy_was_compared() -> None:
    assert {(row["trace"][:3], row["policy"]) for row in anchors()} == {
        (trace, policy) for trace in ("KTH", "SDS") for policy in POLICIES
    }
