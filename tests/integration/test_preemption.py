"""Preemption with a real controller, agent and processes: the job's own ledger tells what happened to it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.cluster import Cluster, wait_until

pytestmark = pytest.mark.timeout(240)

VICTIM = """#!/bin/bash
#SBATCH -t 10 -o victim.out
echo "start $FLAGPLOT_ATTEMPT" >> ledger
trap 'echo "TERM $FLAGPLOT_ATTEMPT" >> ledger; until [ -e let_go ]; do sleep 0.1; done; exit 9' TERM
[ "$FLAGPLOT_ATTEMPT" = 1 ] || exit 0
while :; do sleep 0.1; done
"""
PREEMPTOR = """#!/bin/bash
#SBATCH -t 10 -o /dev/null
until [ -e "$1" ]; do sleep 0.1; done
"""
SLEEPER = """#!/bin/bash
#SBATCH -t 10 -o /dev/null
echo $$ > pid
until [ -e wake ]; do sleep 0.1; done
"""


def ledger(cluster: Cluster) -> list[str]:
    path = cluster.work / "ledger"
    return path.read_text().splitlines() if path.exists() else []


def test_a_victim_gets_its_signal_and_grace_and_starts_again_after_the_preemptor(cluster: Cluster) -> None:
    cluster.cli("qos", "add", "low", "--preempt-mode", "requeue", "--grace", "10m")
    cluster.cli("qos", "add", "high", "--priority", "10", "--preempts", "low")
    (cluster.work / "victim.sh").write_text(VICTIM)
    (cluster.work / "preemptor.sh").write_text(PREEMPTOR)
    victim = cluster.submit("--qos=low", "--exclusive", "victim.sh")
    wait_until(lambda: ledger(cluster) == ["start 1"], 60, "the victim's start")
    preemptor = cluster.submit("--qos=high", "--exclusive", "preemptor.sh", "high_done")
    wait_until(lambda: ledger(cluster) == ["start 1", "TERM 1"], 30, "the victim's SIGTERM")
    shown = cluster.job(victim)
    assert (shown["state"], shown["message"]) == ("COMPLETING", f"preempted by job {preemptor}")
    words = f"waits for preempted job {victim} to end"
    assert words in cluster.cli("explain", str(preemptor))
    (reason,) = cluster.job(preemptor)["reasons"]
    assert (reason["reason"], reason["text"]) == ("Resources", words)

    os.kill(cluster.json("status")["controller"]["pid"], signal.SIGKILL)
    cluster.cli("up", "--detach")
    assert cluster.job(victim)["state"] == "COMPLETING" and cluster.state(preemptor) == "PENDING"
    late = cluster.submit("--qos=high", "--exclusive", "preemptor.sh", "late_done")
    (cluster.work / "let_go").touch()
    cluster.wait_state(preemptor, "RUNNING")
    assert (cluster.state(victim), cluster.state(late)) == ("PENDING", "PENDING")
    assert f"PREEMPTED BY JOB {preemptor} AT" in (cluster.work / "victim.out").read_text()
    cluster.cli("cancel", str(late))
    (cluster.work / "high_done").touch()
    cluster.wait_state(victim, "COMPLETED")
    assert ledger(cluster) == ["start 1", "TERM 1", "start 2"]
    assert cluster.job(victim)["restarts"] == 1 and cluster.state(preemptor) == "COMPLETED"


def test_a_suspended_job_stops_and_goes_on_where_it_was(cluster: Cluster) -> None:
    cluster.cli("qos", "add", "sleepy", "--preempt-mode", "suspend")
    cluster.cli("qos", "add", "loud", "--priority", "10", "--preempts", "sleepy")
    (cluster.work / "sleeper.sh").write_text(SLEEPER)
    (cluster.work / "preemptor.sh").write_text(PREEMPTOR)
    cpus = next(iter(cluster.json("nodes")))["cpus"]
    sleeper = cluster.submit("--qos=sleepy", f"-c{cpus}", "--mem=64M", "sleeper.sh")
    pid = int(wait_until(lambda: written(cluster.work / "pid"), 60, "the sleeper's start"))
    loud = cluster.submit("--qos=loud", "-c1", "--mem=64M", "preemptor.sh", "loud_done")
    cluster.wait_state(loud, "RUNNING")
    shown = cluster.job(sleeper)
    assert (shown["state"], shown["message"]) == ("SUSPENDED", f"preempted by job {loud}")
    wait_until(lambda: process_state(pid) == "T", 20, "the sleeper's processes to be stopped")
    other = cluster.submit("-c1", "--mem=64M", "-o", "/dev/null", "--wrap", "true")
    (cluster.work / "loud_done").touch()
    cluster.wait_state(sleeper, "RUNNING")
    wait_until(lambda: process_state(pid) == "S", 20, "the sleeper's processes to go on")
    assert cluster.state(other) == "PENDING", "what was suspended goes on first"
    (cluster.work / "wake").touch()
    cluster.wait_state(sleeper, "COMPLETED")
    cluster.wait_state(other, "COMPLETED")
    assert cluster.job(sleeper)["restarts"] == 0


def written(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def process_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
