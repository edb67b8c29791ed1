"""`flagplotd simulate openb`: what its readers take and refuse, the order of arrivals, the command's two outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from flagplot_wire.errors import Exit, Refused
from flagplotd.sim import openb, openb_command
from flagplotd.sim.openb_csv import TraceNode, TracePod, read_nodes, read_pods

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "n,32000,65536,4,T4\nn,16000,65536,2,P100\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + "\n".join(
    ("p,4000,8192,1,1000,", "p,2000,4096,1,500,T4", "p,1000,1024,0,0,", "p,8000,1,2,1000,P100|T4")
)


def file(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def invoke(folder: Path, *options: str) -> str:
    nodes, pods = file(folder, NODES, "nodes.csv"), file(folder, PODS, "pods.csv")
    words = ["--nodes", str(nodes), "--pods", str(pods), *options]
    return CliRunner().invoke(openb_command.command, words, catch_exceptions=False).output


def test_readers(tmp_path: Path) -> None:
    assert read_nodes(file(tmp_path, NODES)) == [
        TraceNode(32_000, 65_536, 4, "T4"),
        TraceNode(16_000, 65_536, 2, "P100"),
    ]
    pods = read_pods(file(tmp_path, PODS + "\n\n"))
    assert pods[1] == TracePod(2_000, 4_096, 1, 500, ("T4",)) and pods[3].spec == ("P100", "T4")
    assert pods[2] == TracePod(1_000, 1_024, 0, 0, ())


def test_columns_may_be_missing_or_elsewhere(tmp_path: Path) -> None:
    pods = read_pods(file(tmp_path, "\ufeffnum_gpu,cpu_milli\r\n2,7\r\n0,8\r\n"))
    assert pods == [TracePod(7, 0, 2, 1_000, ()), TracePod(8, 0, 0, 0, ())]
    assert read_nodes(file(tmp_path, "gpu,memory_mib,cpu_milli\n1,2,3\n")) == [TraceNode(3, 2, 1, "")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: there is no column cpu_milli"),
        ("cpu_milli,gpu_milli\n1,2\n", "line 1: there is no column num_gpu"),
        ("cpu_milli,num_gpu\n", "no line below its head"),
        ("cpu_milli,num_gpu\n1,1\nx,1\n", "line 3, column cpu_milli: 'x' is not a whole number"),
        ("cpu_milli,num_gpu\n1,-1\n", "line 2, column num_gpu: '-1' is not"),
        ("cpu_milli,num_gpu\n1,\n", "line 2, column num_gpu: '' is not"),
        ("cpu_milli,num_gpu\n1,²\n", "line 2, column num_gpu: '²' is not"),
        ("cpu_milli,num_gpu\n1,65\n", "line 2, column num_gpu: 65 is more than 64"),
        ("cpu_milli,num_gpu\n" + "9" * 5_000 + ",1\n", "line 2, column cpu_milli: 999"),
        ("cpu_milli,num_gpu\n1,1,1\n", "line 2: 3 values for 2 columns"),
        ("cpu_milli,num_gpu,gpu_milli\n1,1,0\n", "line 2, column gpu_milli: a pod with a GPU needs"),
        ("cpu_milli,num_gpu,gpu_milli\n1,1,1001\n", "line 2, column gpu_milli: 1001 is more than 1000"),
        ('cpu_milli,num_gpu\n"1\n2",1\n3,?\n', "line 3, column cpu_milli: '1\n2' is not"),
    ],
)
def test_bad_pods(tmp_path: Path, text: str, says: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(Refused) as refused:
        read_pods(path)
    assert str(path) in refused.value.message and says in refused.value.message
    assert refused.value.exit == Exit.USAGE


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match=r"binary\.csv is not a CSV file in UTF-8"):
        read_nodes(tmp_path / "binary.csv")
    with pytest.raises(Refused, match="cannot be read: Is a directory"):
        read_nodes(tmp_path)


@pytest.mark.parametrize(
    ("nodes", "pods", "says"),
    [
        ([TraceNode(1, 1, 0, "")], [TracePod(1, 1, 1, 1, ())], "no node has a GPU"),
        ([TraceNode(1, 1, 1, "")], [TracePod(1, 1, 0, 0, ())], "no pod asks for a GPU"),
        ([TraceNode(1, 1, 1, str(model)) for model in range(61)], [TracePod(1, 1, 1, 1, ())], "61 GPU models"),
    ],
)
def test_traces_that_make_no_sense(nodes: list[TraceNode], pods: list[TracePod], says: str) -> None:
    with pytest.raises(Refused, match=says):
        openb.workload(nodes, pods)


def test_typical_kinds_are_the_most_frequent() -> None:
    common, rare = TracePod(1, 1, 1, 500, ()), TracePod(2, 1, 1, 500, ("T4",))
    other = TracePod(1, 9, 1, 500, ())  # memory makes no other kind
    assert openb.frequent([common] * 50 + [other] * 45 + [rare] * 5) == [((1, 1, 500, ()), 95)]
    assert openb.frequent([common] * 94 + [rare] * 6) == [((1, 1, 500, ()), 94), ((2, 1, 500, ("T4",)), 6)]


@pytest.mark.parametrize("pods", [3, 400])
def test_arrivals_stop_below_the_wanted_part(pods: int) -> None:
    trace = [TracePod(1, 1, 1, 100 + 7 * index % 900, ()) for index in range(pods)]
    load = openb.workload([TraceNode(1_000, 1_000, 8, "T4")] * 4, trace)
    limit = load.capacity * 130 // 100
    for seed in range(5):
        order = openb.arrivals(load, 130, np.random.default_rng(seed))
        arrived = int(load.asks[order].sum())
        assert arrived <= limit < arrived + 1_000
        assert set(order) <= set(range(pods))
        assert (len(set(order)) == len(order)) == (pods == 400), "the short list is drawn from again, the long one cut"


def test_a_seed_repeats_and_another_differs() -> None:
    trace = [TracePod(1_000 * (index % 5), 10, 1, 100 + 7 * index % 900, ()) for index in range(50)]
    load = openb.workload([TraceNode(9_000, 1_000, 4, "T4")] * 10, trace)
    for policy in openb_command.POLICIES:
        first, again = (openb.simulate(load, policy, 1) for _ in range(2))
        assert first.allocated.tolist() == again.allocated.tolist() and first.failed == again.failed
        assert first.allocated.tolist() != openb.simulate(load, policy, 2).allocated.tolist()
        assert 0 < first.allocated_percent <= 100
        assert load.nodes.idle.sum() == load.capacity, "the next run starts with an empty cluster"


def test_models_are_kept_apart() -> None:
    load = openb.workload(
        [TraceNode(9_000, 9, 2, "T4"), TraceNode(9_000, 9, 2, "")], [TracePod(1, 1, 1, 1_000, ("T4",))]
    )
    outcome = openb.simulate(load, "flagplot", 0)
    assert (outcome.pods, outcome.failed, outcome.allocated_percent) == (5, 3, 50.0)


def test_json(tmp_path: Path) -> None:
    found = json.loads(invoke(tmp_path, "--json", "--policy", "fgd", "--seed", "7", "--arrivals", "0.9"))
    assert (found["policy"], found["seed"], found["arrivals"]) == ("fgd", 7, 0.9)
    assert set(found) == {
        "policy", "seed", "arrivals", "pods", "failed", "gpu_allocated_percent", "idle_fragmented_percent",
    }  # fmt: skip
    assert 0 < found["gpu_allocated_percent"] <= 90 and 0 <= found["failed"] < found["pods"]


@pytest.mark.parametrize("more", [(), ("--ascii",)])
def test_text_and_plot(tmp_path: Path, more: tuple[str, ...]) -> None:
    output = invoke(tmp_path, "--seed", "2", *more)
    assert output.startswith("policy flagplot, seed 2: ") and "fitted nowhere" in output
    lines = output.splitlines()
    assert lines[-1].split() == ["0", "arrived", "130", "%"] and max(map(len, lines)) <= 80
    assert output.isascii() == bool(more)


def test_plot_is_to_scale() -> None:
    bars = openb_command.plot([0.0, 50.0, 100.0, *[25.0] * 20], 130, False)
    column = ["".join(line[7 + at] if len(line) > 7 + at else " " for line in bars[:-1]) for at in range(4)]
    assert column == [" " * 8, " " * 4 + "█" * 4, "█" * 8, " " * 6 + "█" * 2]


def test_command_names_the_policies() -> None:
    assert openb_command.POLICIES == openb.POLICIES


def test_arrivals_that_no_pod_fits(tmp_path: Path) -> None:
    load = openb.workload([TraceNode(9_000, 9, 2, "")], [TracePod(1, 1, 1, 1_000, ())])
    with pytest.raises(Refused, match="the first pod passes 10 %"):
        openb.simulate(load, "fgd", 0, 10)
