"""`flagplot gpus`: who holds a card, who is on it without a job, and who holds one for nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner
from support.states import inventory

from flagplot.cli.main import cli
from flagplot_wire.ids import JobNumber
from flagplot_wire.node import Node
from flagplot_wire.replies import HeldOnNode, Nodes, NodeView
from flagplot_wire.telemetry import GpuProcess, GpuSample, NodeSample


@pytest.fixture(autouse=True)
def answer(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = (
        GpuProcess(11, 500, "ada", "python", JobNumber(4)),
        GpuProcess(12, 2_048, "root", "X\x1b[31morg"),
        GpuProcess(13, None, "", "?"),
    )
    gpus = (GpuSample(0, 0, 3_000, processes=processes), GpuSample(1, 0, processes=processes[1:2]), GpuSample(2))
    view = NodeView(
        Node("n1", inventory(gpus=3), responding=True), "MIXED", (),
        (HeldOnNode(JobNumber(4), "4", "ada", "RUNNING", 1, 1, ((0, 8), (2, 8))),), NodeSample("n1", 5, gpus=gpus),
    )  # fmt: skip

    def ask(context: click.Context, work: Callable[[Any], Awaitable[Any]]) -> Nodes:
        return Nodes((view,))

    monkeypatch.setattr("flagplot.cli.gpus.ask", ask)


def test_json_lists_outsiders_and_idle_holders() -> None:
    found = json.loads(CliRunner().invoke(cli, ["gpus", "--json"]).stdout)
    assert [gpu["idle"] for gpu in found] == [True, None, None]
    assert [(one["pid"], one["user"], one["memory_mib"]) for one in found[0]["outsiders"]] == [
        (12, "root", 2_048),
        (13, "", None),
    ]
    assert [len(gpu["outsiders"]) for gpu in found] == [2, 1, 0]


def test_the_table_says_so_too_and_hostile_names_are_harmless() -> None:
    text = CliRunner().invoke(cli, ["gpus"]).stdout
    first, second, third = text.splitlines()[1:]
    assert "whole idle" in first and "4 ada, ! root pid 12 2048 MiB" in first and "! ? pid 13 ? MiB" in first
    assert "free" in second and "idle" not in second and " ! root pid 12" in second and "\x1b" not in text
    assert third.split()[3] == "whole" and "idle" not in third
