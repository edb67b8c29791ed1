"""`kill -9` of the controller, then of the agent, with ten jobs running and ten pending: each ends exactly once.

The jobs keep an append-only ledger of their own; it is the judge.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from support.cluster import Cluster, start_cluster, wait_until

pytestmark = pytest.mark.timeout(300)

JOB = """#!/bin/bash
#SBATCH --mem=32M
#SBATCH -t 10
echo "$SLURM_JOB_ID start $FLAGPLOT_ATTEMPT" >> ledger
sleep 20
echo "$SLURM_JOB_ID end $FLAGPLOT_ATTEMPT" >> ledger
exit $((SLURM_JOB_ID % 3))
"""


def test_twenty_jobs_survive_both_kills() -> None:
    folder = Path(tempfile.mkdtemp(prefix="flagplot-k-"))
    cluster = start_cluster(folder, "--demo", "--nodes", "2", "--no-jobs")
    try:
        wait_until(lambda: sum(node["responding"] for node in cluster.json("nodes")) == 2, 90, "two nodes")
        (cluster.work / "job.sh").write_text(JOB.replace("shard:8", "gpu:1"))
        cluster.cli("drain", "gpu02", "--reason", "keep ten running")
        one_too_many = [cluster.submit("--gres=gpu:1", "-o", "/dev/null", "job.sh") for _ in range(8)]
        cluster.cli("resume", "gpu02")
        numbers = one_too_many + [cluster.submit("--gres=gpu:4", "-o", "/dev/null", "job.sh") for _ in range(12)]
        wait_until(lambda: count(cluster, "RUNNING") == 10, 60, "ten running jobs")
        assert count(cluster, "PENDING") == 10
        before = cluster.json("status")
        os.kill(before["controller"]["pid"], signal.SIGKILL)
        cluster.cli("up", "--detach")
        after = cluster.json("status")
        assert after["controller"]["pid"] != before["controller"]["pid"]
        for agent in after["agents"]:
            os.kill(agent["pid"], signal.SIGKILL)
        cluster.cli("up", "--detach")
        for number in numbers:
            cluster.wait_state(number, "COMPLETED", "FAILED", seconds=150)
        ledger = [line.split() for line in (cluster.work / "ledger").read_text().splitlines()]
        assert Counter((job, what) for job, what, _ in ledger) == Counter(
            {(str(number), what): 1 for number in numbers for what in ("start", "end")}
        )
        for number in numbers:
            job = cluster.job(number)
            assert job["exit_code"] == number % 3
            assert job["state"] == ("COMPLETED" if number % 3 == 0 else "FAILED")
            assert job["restarts"] == 0
        assert not any(node["jobs"] for node in cluster.json("nodes"))
    finally:
        cluster.run("down", "--cancel-jobs")


def count(cluster: Cluster, state: str) -> int:
    return sum(job["state"] == state for job in cluster.json("queue"))
