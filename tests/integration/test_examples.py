"""Every script of `examples/` runs end to end on a fleet; outputs and states are checked."""

from __future__ import annotations

import re
import shutil

import pytest
from support.cluster import ROOT, Cluster, wait_until

EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def ran(fleet: Cluster) -> dict[str, int]:
    """Submit all of them at once, as a lab would; the tests look at one each."""
    for script in EXAMPLES.glob("*.sh"):
        shutil.copy(script, fleet.work)
    numbers = {
        name: fleet.submit(f"{name}.sh")
        for name in ("overrun", "train_checkpoint", "sweep_array", "chain_prepare", "gang_ranks", "shared_gpu")
    }
    numbers["chain_train"] = fleet.submit(f"--dependency=afterok:{numbers['chain_prepare']}", "chain_train.sh")
    return numbers


def output(fleet: Cluster, name: str) -> str:
    path = fleet.work / name
    return path.read_text() if path.exists() else ""


def test_chain(fleet: Cluster, ran: dict[str, int]) -> None:
    fleet.wait_state(ran["chain_train"], "COMPLETED")
    assert fleet.state(ran["chain_prepare"]) == "COMPLETED"
    assert output(fleet, "chain-prepare.log") == "prepared 100 samples\n"
    assert output(fleet, "chain-train.log") == "sum 5050\n"
    assert fleet.job(ran["chain_train"])["start_time"] >= fleet.job(ran["chain_prepare"])["end_time"]


def test_array_never_runs_more_than_two(fleet: Cluster, ran: dict[str, int]) -> None:
    array = ran["sweep_array"]
    fleet.wait_state(array, "COMPLETED")
    elements = [job for job in fleet.json("queue", "--all") if job.get("array_job_id") == array]
    elements = [job for job in elements if job.get("array_task_id") is not None]
    assert sorted(job["array_task_id"] for job in elements) == [0, 1, 2, 3, 4, 5]
    assert {job["state"] for job in elements} == {"COMPLETED"}
    for moment in {job["start_time"] for job in elements}:
        running = [job for job in elements if job["start_time"] <= moment < job["end_time"]]
        assert len(running) <= 2
    for index in range(6):
        assert output(fleet, f"sweep-{array}_{index}.log").startswith(f"element {index} of 6: learning rate 0.")


def test_gang_prints_every_rank(fleet: Cluster, ran: dict[str, int]) -> None:
    fleet.wait_state(ran["gang_ranks"], "COMPLETED")
    lines = output(fleet, f"gang-{ran['gang_ranks']}.log").splitlines()
    found = [re.fullmatch(r"rank (\d) of 4, local rank (\d), node (\S+), master (\S+)", line) for line in lines]
    assert all(found), lines
    rows = sorted((int(row[1]), int(row[2]), row[3]) for row in found if row)
    assert [row[0] for row in rows] == [0, 1, 2, 3]
    assert [row[1] for row in rows] == [0, 1, 0, 1]
    assert len({row[2] for row in rows}) == 2
    assert set(fleet.job(ran["gang_ranks"])["nodes"]) == {row[2] for row in rows}


def test_shared_gpu(fleet: Cluster, ran: dict[str, int]) -> None:
    fleet.wait_state(ran["shared_gpu"], "COMPLETED")
    text = output(fleet, f"shared-{ran['shared_gpu']}.log")
    found = re.fullmatch(r"device (\S+), 3 shards, (\d+) MiB of VRAM\n", text)
    assert found, text
    assert found[1].startswith("GPU-")
    assert int(found[2]) in (81_559 * 3 // 8, 46_068 * 3 // 8)


def test_training_resumes_after_its_requeue(fleet: Cluster, ran: dict[str, int]) -> None:
    number = ran["train_checkpoint"]
    fleet.wait_state(number, "COMPLETED", seconds=120)
    text = output(fleet, f"train-{number}.log")
    assert fleet.job(number)["restarts"] == 1
    assert re.findall(r"^attempt (\d)", text, re.M) == ["1", "2"]
    assert "resumed after epoch 3" in text
    assert re.findall(r"^epoch (\d)", text, re.M) == ["1", "2", "3", "4", "5", "6"]
    assert text.rstrip().endswith("done")


def test_overrun_ends_as_timeout(fleet: Cluster, ran: dict[str, int]) -> None:
    number = ran["overrun"]
    fleet.wait_state(number, "TIMEOUT", seconds=150)
    text = output(fleet, f"overrun-{number}.log")
    assert "started" in text and "told to end, saving" in text
    job = fleet.job(number)
    assert 60 <= job["end_time"] - job["start_time"] <= 75
    wait_until(lambda: not any(node["jobs"] for node in fleet.json("nodes")), 30, "an empty fleet")
