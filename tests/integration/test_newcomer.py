"""A newcomer's first minutes, by keystrokes in a real terminal over a real plain ssh; screen and store agree."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess

import pytest
from support.cluster import ROOT, Cluster, wait_until
from support.terminal import Terminal

from flagplot.view.draft import FIELDS

pytestmark = pytest.mark.timeout(300)
TO_COMMAND = len(FIELDS)
"""Tab presses from the form's first field to the command."""


def plain_ssh(lab: Cluster) -> list[str]:
    """The ssh command of a machine that has nothing of ours."""
    port = lab.json("status")["controller"]["port"]
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "IdentitiesOnly=yes")
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-F", "none", *words, "-i", str(lab.data_dir / "keys/user_ed25519"), "-p", str(port), "localhost"]


def stored_state(lab: Cluster, number: int) -> str:
    """A job's state as the SQLite file has it."""
    with sqlite3.connect(f"file:{lab.data_dir / 'flagplot.db'}?mode=ro", uri=True) as store:
        (state,) = store.execute("select state from jobs where number = ?", (number,)).fetchone()
    return str(state)


def fill_command(terminal: Terminal, name: str, command: str) -> None:
    """Open the form, give name and command, and submit with F2."""
    terminal.keys("n")
    terminal.wait_for("Submit a job")
    terminal.type(name)
    terminal.wait_for(f"--job-name={name}")
    terminal.keys(*["Tab"] * TO_COMMAND)
    terminal.wait_focus("Command")
    terminal.type(command)
    terminal.wait_for(f"--job-name={name}", "--wrap")
    terminal.keys("F2")
    terminal.wait_gone("Submit a job")


def test_the_whole_way_by_keys_over_plain_ssh(lab: Cluster) -> None:
    shutil.copy(ROOT / "examples" / "shared_gpu.sh", lab.work)
    with Terminal(plain_ssh(lab), env=lab.environment, cwd=lab.work) as terminal:
        terminal.wait_for("demo", "SIMULATED", "The queue is empty", "live")
        submit_watch_and_follow(lab, terminal)
        pick_a_script(lab, terminal)
        cancel_with_confirmation(lab, terminal)
        drain_and_resume(lab, terminal)
        terminal.resize(80, 24)
        terminal.wait_for("Queue", "live")
        terminal.keys("q")
        terminal.wait_exit()


def submit_watch_and_follow(lab: Cluster, terminal: Terminal) -> None:
    fill_command(terminal, "trial", "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.5; done")
    terminal.wait_for("trial", "● R")
    assert stored_state(lab, 1) == "RUNNING"
    terminal.keys("Enter")
    terminal.wait_for("trial", "Detail")
    terminal.keys("l")
    terminal.wait_for("line 1")
    terminal.wait_for("line 6")
    terminal.keys("Escape")
    terminal.wait_gone("Why pending")
    lab.wait_state(1, "COMPLETED")
    assert stored_state(lab, 1) == "COMPLETED"


def pick_a_script(lab: Cluster, terminal: Terminal) -> None:
    terminal.keys("n")
    terminal.wait_for("Submit a job")
    terminal.keys("F8")
    terminal.keys(*["Tab"] * (TO_COMMAND + 1))
    terminal.tab_to("or script file")
    terminal.type(str(lab.work / "shared_gpu.sh"))
    terminal.wait_for("tart now")
    terminal.keys("F2")
    terminal.wait_gone("Submit a job")
    lab.wait_state(2, "COMPLETED")
    assert lab.job(2)["name"] == "notebook"


def cancel_with_confirmation(lab: Cluster, terminal: Terminal) -> None:
    lab.cli("submit", "--hold", "-J", "waiting", "-t", "30", "-o", "/dev/null", "--wrap", "true")
    terminal.wait_for("waiting", "JobHeldUser")
    edit_time_limit(lab, terminal)
    fill_command(terminal, "victim", "sleep 600")
    number = 4
    lab.wait_state(number, "RUNNING")
    terminal.wait_for("victim")
    terminal.keys("/")
    terminal.type("victim")
    terminal.keys("Enter")
    terminal.wait_gone("waiting")
    terminal.keys("C-d")
    terminal.wait_for("victim", "No")
    terminal.keys("Enter")
    assert lab.state(number) == "RUNNING"
    terminal.keys("C-d")
    terminal.wait_for("Yes")
    terminal.keys("y")
    lab.wait_state(number, "CANCELLED")
    assert stored_state(lab, number) == "CANCELLED"
    terminal.keys("Escape")
    terminal.wait_for("waiting", "victim")


def edit_time_limit(lab: Cluster, terminal: Terminal) -> None:
    terminal.keys("/")
    terminal.type("waiting")
    terminal.keys("Enter")
    terminal.wait_for("1 of")
    terminal.keys("e")
    terminal.wait_for("Edit job 3")
    terminal.keys("C-a", "C-k")
    terminal.wait_for("Time limit is empty: write UNLIMITED for none")
    terminal.type("2:00:00")
    terminal.wait_for("--time=2:00:00")
    terminal.keys("F2")
    wait_until(lambda: lab.job(3)["time_limit_s"] == 7_200, 20, "the new time limit")
    terminal.wait_gone("Edit job 3")
    terminal.keys("Escape")
    terminal.wait_for("trial", "waiting")


def drain_and_resume(lab: Cluster, terminal: Terminal) -> None:
    terminal.keys("2")
    terminal.wait_for("gpu01", "gpu02")
    terminal.keys("D")
    terminal.wait_for("Drain", "eason")
    terminal.type("fan 3 failed")
    terminal.wait_for("fan 3 failed")
    terminal.keys("C-s")
    wait_until(lambda: lab.json("show", "node", "gpu01")["state"] == "DRAINED", 20, "gpu01 drained")
    terminal.wait_for("drained")
    assert lab.json("show", "node", "gpu01")["reason"] == "fan 3 failed"
    kept_away = lab.submit("--nodelist=gpu01", "-o", "/dev/null", "--wrap", "true")
    explained = lab.json("explain", str(kept_away))
    assert [reason["reason"] for reason in explained["reasons"]] == ["ReqNodeNotAvail"]
    assert lab.state(kept_away) == "PENDING"
    terminal.keys("u")
    terminal.wait_for("Yes")
    terminal.keys("y")
    lab.wait_state(kept_away, "COMPLETED")
    assert lab.json("show", "node", "gpu01")["state"] == "IDLE"


def test_somebody_elses_key_is_refused(lab: Cluster) -> None:
    key = lab.work / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    command = [word if word != str(lab.data_dir / "keys/user_ed25519") else str(key) for word in plain_ssh(lab)]
    done = subprocess.run(
        [*command, "flagplot", "queue"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env=lab.environment, timeout=60,
    )  # fmt: skip
    assert done.returncode == 255 and "Permission denied" in done.stderr


def test_a_command_over_plain_ssh(lab: Cluster) -> None:
    done = subprocess.run(
        [*plain_ssh(lab), "flagplot", "nodes", "--json"], capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, env=lab.environment, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"gpu01"' in done.stdout
