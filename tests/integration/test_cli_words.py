"""The command line on a real one-node cluster: what bad input gets, what good input prints, where clusters are found."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.cluster import BIN, Cluster, wait_until


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("submit", "--parsable", "--partition=foo", "--wrap=true"), 3, "no partition"),
        (("submit", "--partition=foo", "--wrap", "true"), 3, "there is no partition 'foo'"),
        (("submit", "--gres=gpu:h100:1", "--wrap", "true"), 7, "h100"),
        (("submit", "-c", "4096", "--wrap", "true"), 7, "CPUs (4096 asked)"),
        (("submit", "-N", "2", "--wrap", "true"), 7, "only 1"),
        (("submit", "-n", "4096", "--wrap", "true"), 7, "its 4096 tasks are to share one node: say how many by -N"),
        (("submit", "--test-only", "-n", "4096", "--wrap", "true"), 7, "say how many by -N"),
        (("submit", "-t", "soon", "--wrap", "true"), 3, "no time limit"),
        (("submit", "nofile.sh"), 3, "cannot read nofile.sh"),
        (("submit", "bad.sh"), 3, "#!"),
        (("submit", "dos.sh"), 3, "DOS line break"),
        (("cancel", "99999"), 4, "there is no job 99999"),
        (("cancel", "x"), 3, "is not a job"),
        (("show", "job", "99999"), 4, "99999"),
        (("show", "node", "nowhere"), 4, "nowhere"),
        (("show", "partition", "foo"), 4, "there are: main"),
        (("drain", "n[3-1]", "--reason", "x"), 3, "low end comes first"),
        (("--cluster", "unknown", "queue"), 2, "flagplot connect"),
        (("nonsense",), 2, "No such command"),
        ((), 2, "needs a terminal"),
    ],
)
def test_bad_input_gets_a_sentence_and_its_exit_code(
    cluster: Cluster, args: tuple[str, ...], code: int, words: str
) -> None:
    (cluster.work / "bad.sh").write_text("echo hi\n")
    (cluster.work / "dos.sh").write_bytes(b"#!/bin/sh\r\ntrue\r\n")
    done = cluster.run(*args)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_no_controller_says_how_to_start_it(cluster: Cluster, tmp_path: Path) -> None:
    done = cluster.run("--data-dir", str(tmp_path), "queue")
    assert done.returncode == 5
    assert "flagplot up" in done.stderr


def test_a_missing_output_folder_fails_the_job_in_words(cluster: Cluster) -> None:
    number = cluster.submit("-o", "/nowhere/x.out", "--wrap", "true")
    cluster.wait_state(number, "FAILED")
    assert "/nowhere/x.out" in cluster.job(number)["message"]


def test_exit_codes_logs_and_binary_output(cluster: Cluster) -> None:
    number = cluster.submit("--wrap", "printf 'a\\000\\033[31mb\\n'; exit 4")
    waited = cluster.run("wait", str(number))
    assert (waited.returncode, waited.stderr) == (4, f"flagplot: job {number} ended as FAILED with exit code 4\n")
    done = subprocess.run(
        [str(BIN / "flagplot"), "logs", str(number)], env=cluster.environment, capture_output=True, check=True
    )
    assert done.stdout == b"a\0\x1b[31mb\n"


def test_logs_end_where_the_output_did_when_they_were_asked_for(cluster: Cluster) -> None:
    """A job that writes without end does not keep its reader for ever."""
    number = cluster.submit("-o", "endless", "--wrap", "head -c 9000000 /dev/zero; while :; do echo more; done")
    cluster.wait_state(number, "RUNNING")
    wait_until(
        lambda: (cluster.work / "endless").exists() and (cluster.work / "endless").stat().st_size > 8 << 20,
        what="8 MiB",
    )
    done = subprocess.run(
        [str(BIN / "flagplot"), "logs", str(number)],
        env=cluster.environment,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith(b"\0") and len(done.stdout) > 8 << 20
    last = subprocess.run(
        [str(BIN / "flagplot"), "logs", "-n1", str(number)], env=cluster.environment, capture_output=True, check=True,
        timeout=60,
    )  # fmt: skip
    assert last.stdout.count(b"\n") <= 1 and len(last.stdout) < 200
    cluster.cli("cancel", str(number))


def test_wait_logs_and_script_in_json(cluster: Cluster) -> None:
    number = cluster.submit("--wrap", "printf 'ä\\377\\n'; exit 4")
    waited = cluster.run("wait", str(number), "--json")
    assert waited.returncode == 4 and waited.stderr == ""
    (ended,) = json.loads(waited.stdout)
    assert (ended["job_id"], ended["state"], ended["exit_code"]) == (number, "FAILED", 4)
    piece = cluster.json("logs", str(number))
    assert (piece["text"], piece["ended"]) == ("ä\N{REPLACEMENT CHARACTER}\n", True)
    assert piece["size"] == piece["bytes"] == len("ä".encode()) + 2
    followed = [json.loads(line) for line in cluster.cli("logs", str(number), "--follow", "--json").splitlines()]
    assert followed == [piece]
    script = cluster.json("script", str(number))
    assert script["job_id"] == number and script["args"] == []
    assert script["script"].startswith("#!") and "exit 4" in script["script"]


def test_show_speaks_to_people(cluster: Cluster) -> None:
    number = cluster.submit("--hold", "-t", "90", "--mem", "2G", "--wrap", "true")
    shown = dict(line.split(None, 1) for line in cluster.cli("show", "job", str(number)).splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+", shown["submit_time"]), shown
    assert (shown["start_time"], shown["time_limit_s"]) == ("-", "1:30:00")
    assert shown["standard_output"] == "slurm-%j.out"
    assert cluster.job(number)["start_time"] == 0 and cluster.job(number)["time_limit_s"] == 5_400
    node = cluster.json("nodes")[0]
    shown = dict(line.split(None, 1) for line in cluster.cli("show", "node", node["name"]).splitlines())
    assert shown["memory_mib"].endswith(("GiB", "MiB")), shown
    cluster.cli("cancel", str(number))


def test_hold_release_update_and_explain(cluster: Cluster) -> None:
    number = cluster.submit("--hold", "-o", "/dev/null", "--wrap", "true")
    text = str(number)
    assert cluster.json("explain", text)["reasons"][0]["reason"] == "JobHeldUser"
    cluster.cli("update", text, "--time", "2:00:00", "--job-name", "renamed")
    assert (cluster.job(number)["time_limit_s"], cluster.job(number)["name"]) == (7_200, "renamed")
    cluster.cli("update", text, "TimeLimit=30")
    assert cluster.job(number)["time_limit_s"] == 1_800
    assert cluster.run("update", text, "Colour=red").returncode == 2
    cluster.cli("release", text)
    cluster.wait_state(number, "COMPLETED")
    assert re.search(rf"job {number} .*submitted", cluster.cli("events", "--job", text))


def test_drain_keeps_jobs_away_until_resume(cluster: Cluster) -> None:
    (node,) = [one["name"] for one in cluster.json("nodes")]
    cluster.cli("drain", node, "--reason", "memory errors")
    shown = cluster.json("show", "node", node)
    assert (shown["state"], shown["reason"]) == ("DRAINED", "memory errors")
    number = cluster.submit("-o", "/dev/null", "--wrap", "true")
    assert cluster.json("explain", str(number))["reasons"][0]["reason"] == "ReqNodeNotAvail"
    cluster.cli("resume", node)
    cluster.wait_state(number, "COMPLETED")


def test_connect_pins_the_host_key(cluster: Cluster) -> None:
    port = cluster.json("status")["controller"]["port"]
    key = str(cluster.data_dir / "keys/user_ed25519")
    where = f"{os.environ.get('USER', 'me')}@127.0.0.1:{port}"
    asked = cluster.run("connect", where, "--name", "lab", "--key", key)
    assert asked.returncode == 6 and "SHA256:" in asked.stdout
    assert cluster.run("connect", where, "--fingerprint", "SHA256:wrong").returncode == 6
    cluster.cli("connect", where, "--name", "lab", "--key", key, "--yes")
    assert isinstance(json.loads(cluster.cli("--cluster", "lab", "queue", "--json")), list)
    pinned = Path(cluster.environment["HOME"]) / ".config/flagplot/clusters.toml"
    other = cluster.work / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    stranger = " ".join(other.with_suffix(".pub").read_text().split()[:2])
    pinned.write_text(re.sub(r'host_key = ".*"', f'host_key = "{stranger}"', pinned.read_text()))
    changed = cluster.run("--cluster", "lab", "queue")
    assert changed.returncode == 6 and "not the one pinned" in changed.stderr
    refused = cluster.run("connect", where, "--name", "lab2", "--key", str(other), "--yes")
    assert refused.returncode == 6 and "does not know your SSH key" in refused.stderr


def test_a_second_up_comes_back_to_the_same_controller(cluster: Cluster) -> None:
    before = cluster.json("status")["controller"]["pid"]
    cluster.cli("up", "--detach")
    assert cluster.json("status")["controller"]["pid"] == before
    assert oct(cluster.data_dir.stat().st_mode & 0o777) == "0o700"


def test_down_leaves_running_jobs_to_their_keepers_and_up_finds_them(cluster: Cluster) -> None:
    number = cluster.submit("-o", "/dev/null", "--wrap", "sleep 6; exit 7")
    cluster.wait_state(number, "RUNNING")
    said = cluster.cli("down")
    assert "1 running job goes on" in said
    assert cluster.run("queue").returncode == 5
    cluster.cli("up", "--detach")
    assert cluster.state(number) in ("RUNNING", "FAILED")
    assert cluster.run("wait", str(number)).returncode == 7
    assert cluster.job(number)["attempt"] == 1


def test_watching_prints_a_line_for_each_change(cluster: Cluster) -> None:
    watching = subprocess.Popen(
        [str(BIN / "flagplot"), "queue", "--watch", "1"],
        env=cluster.environment,
        cwd=cluster.work,
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().split()[0] == "JOBID"
        number = cluster.submit("-H", "-J", "seen", "-o", "/dev/null", "--wrap", "true")
        assert f"job {number} (seen) of " in (line := watching.stdout.readline()) and "is new: held" in line
        cluster.cli("cancel", str(number))
        assert f"job {number} (seen) of " in (line := watching.stdout.readline()) and "left the queue" in line
    finally:
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 0
