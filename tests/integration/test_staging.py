"""Files that come with jobs and are left by them, on a real cluster whose controller and agents are killed meanwhile."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.cluster import BIN, Cluster, wait_until
from support.other_identity import as_somebody_else

from flagplot_agent.launch.journal import Journal

RUN = str(BIN / "flagplot")


def controller_pid(fleet: Cluster) -> int:
    return int(json.loads((fleet.data_dir / "controller.json").read_text())["pid"])


def reason(fleet: Cluster, job: int) -> str:
    return fleet.run("explain", str(job)).stdout


def made(fleet: Cluster, name: str) -> Path:
    folder = fleet.work / name
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/data").write_bytes(os.urandom(400_000))
    (folder / "word").write_text("word\n")
    os.link(folder / "word", folder / "inner/again")
    (folder / "inner/near").symlink_to("../word")
    return folder


def test_files_come_before_the_start_and_go_after_the_end(fleet: Cluster, tmp_path: Path) -> None:
    folder = made(fleet, "set")
    script = fleet.work / "staged.sh"
    script.write_text(
        f"#!/bin/sh\n#FLAGPLOT --stage-in=set:{tmp_path}/%j/ --stage-in staged.sh:{tmp_path}/copy-%x\n"
        f"#FLAGPLOT --stage-out=left-%j:results/ --stage-out {tmp_path}/%j/set/word\n#SBATCH -J given -o staged.out\n"
        f"cmp {tmp_path}/copy-given {script} && echo same\n"
        f"mkdir left-$SLURM_JOB_ID; sha256sum < {tmp_path}/$SLURM_JOB_ID/set/inner/data | tee left-$SLURM_JOB_ID/sum\nexit 3\n"
    )
    (fleet.work / "results").mkdir()
    number = fleet.submit("staged.sh")
    fleet.wait_state(number, "FAILED")
    job = fleet.job(number)
    assert (job["exit_code"], job["message"]) == (3, ""), job
    lines = (fleet.work / "staged.out").read_text().splitlines()
    summed = subprocess.run(
        ["sha256sum"], stdin=(folder / "inner/data").open(), capture_output=True, text=True, check=True
    )
    assert lines == ["same", summed.stdout.strip()]
    told = fleet.cli("fetch", str(number))
    assert told.splitlines() == [str(fleet.work / "results"), str(fleet.work)]
    assert (fleet.work / f"results/left-{number}/sum").read_text() == summed.stdout
    assert (fleet.work / "word").read_text() == "word\n"
    other = tmp_path / "other"
    other.mkdir()
    told = fleet.json("fetch", str(number), "--to", str(other))
    assert told == {"job": str(number), "fetched": [str(other)] * 2, "missing": []}
    assert sorted(path.name for path in other.iterdir()) == [f"left-{number}", "word"]


def test_links_that_lead_out_and_pipes_stay_behind_and_are_told(fleet: Cluster, tmp_path: Path) -> None:
    """A folder with a link to /etc, as people have them, neither fails its job nor keeps its results from being fetched."""
    folder = made(fleet, "linked")
    (folder / "away").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe")
    (fleet.work / "alias").symlink_to(folder)
    submitted = fleet.run(
        "submit", f"--stage-in=alias:{tmp_path}/%j", f"--stage-out={tmp_path}/%j:got-%j/", "--wrap",
        f"cd {tmp_path}/$SLURM_JOB_ID && cat word inner/again inner/near && ln -s /etc/hostname inner/more",
    )  # fmt: skip
    number = int(submitted.stdout.split()[-1])
    assert "alias/away and 1 more left out: links that lead out of the folder" in submitted.stderr, submitted.stderr
    fleet.wait_state(number, "COMPLETED")
    assert f"stage-out: {tmp_path}/{number}/inner/more left out" in fleet.job(number)["message"]
    (place,) = fleet.cli("fetch", str(number)).splitlines()
    assert place == f"{fleet.work}/got-{number}"
    got = Path(place) / str(number)
    assert (got / "inner/again").read_text() == (got / "inner/near").read_text() == "word\n"
    assert not os.path.lexists(got / "inner/more") and not os.path.lexists(got / "away")


def test_a_requeued_job_gets_them_again(fleet: Cluster, tmp_path: Path) -> None:
    (fleet.work / "seed").write_text("first\n")
    wrap = f"cat {tmp_path}/seed; rm {tmp_path}/seed; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    number = fleet.submit("--stage-in", f"seed:{tmp_path}/", "-o", "again.out", "--open-mode=append", "--wrap", wrap)
    fleet.wait_state(number, "RUNNING")
    wait_until(lambda: (fleet.work / "again.out").exists() and (fleet.work / "again.out").read_text(), 20, "its output")
    (fleet.work / "seed").unlink()
    fleet.cli("requeue", str(number))
    (tmp_path / "go").touch()
    fleet.wait_state(number, "COMPLETED")
    lines = (fleet.work / "again.out").read_text().splitlines()
    assert [line for line in lines if "REQUEUED" not in line] == ["first", "first"]


def test_what_goes_wrong_is_told(fleet: Cluster, tmp_path: Path) -> None:
    missing = fleet.run("submit", "--stage-in", f"none:{tmp_path}/", "--wrap", "true")
    assert missing.returncode == 2 and f"there is no {fleet.work}/none" in missing.stderr
    relative = fleet.run("submit", "--stage-in", "none:there", "--wrap", "true")
    assert relative.returncode == 3 and "absolute path on the nodes" in relative.stderr
    (fleet.work / "small").write_text("x")
    (tmp_path / "file").write_text("")
    number = fleet.submit("--stage-in", f"small:{tmp_path}/file/below", "-o", "/dev/null", "--wrap", "true")
    fleet.wait_state(number, "FAILED")
    assert "stage-in:" in fleet.job(number)["message"] and f"{tmp_path}/file" in fleet.job(number)["message"]
    number = fleet.submit("--stage-out", "nothing-%j", "-o", "/dev/null", "--wrap", "true")
    fleet.wait_state(number, "COMPLETED")
    assert (
        "stage-out: " in fleet.job(number)["message"]
        and f"nothing-{number}: No such file" in fleet.job(number)["message"]
    )
    fetched = fleet.run("fetch", str(number))
    assert fetched.returncode == 3 and f"nothing-{number} was not left by" in fetched.stderr
    plain = fleet.submit("-o", "/dev/null", "--wrap", "true")
    assert "without --stage-out" in fleet.run("fetch", str(plain)).stderr


def large(fleet: Cluster) -> Path:
    file = fleet.work / "large"
    with file.open("wb") as opened:
        opened.truncate(80_000_000)
    return file


def half_way(fleet: Cluster, name: str, target: Path) -> tuple[subprocess.Popen[str], int]:
    """A submission that was stopped when the controller had a part of its file, and the job's number."""
    known = {path.name for path in (fleet.data_dir / "stage").iterdir()}
    process = subprocess.Popen(
        [RUN, "submit", "-J", name, "--stage-in", f"large:{target}", "-o", f"{name}.out", "--wrap", f"stat -c %s {target}"],
        env=fleet.environment, cwd=fleet.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def some() -> str:
        fresh = [path for path in (fleet.data_dir / "stage").glob("*/in-0.*") if path.parent.name not in known]
        return next((path.parent.name for path in fresh if path.stat().st_size > 100_000), "")

    deadline = time.monotonic() + 30
    while not (number := some()):
        assert time.monotonic() < deadline and process.poll() is None
    process.send_signal(signal.SIGSTOP)
    assert not (fleet.data_dir / "stage" / number / "in-0.tar").exists(), "it was too fast"
    return process, int(number)


def test_a_controller_killed_half_way_goes_on(fleet: Cluster, tmp_path: Path) -> None:
    large(fleet)
    process, number = half_way(fleet, "killed", tmp_path / "large")
    assert fleet.state(number) == "PENDING"
    os.kill(controller_pid(fleet), signal.SIGKILL)
    fleet.cli("up", "--detach", "--demo", "--nodes", "3", "--no-jobs")
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and f"Submitted batch job {number}" in out, err
    assert "trying again" in err
    fleet.wait_state(number, "COMPLETED")
    assert (fleet.work / "killed.out").read_text() == "80000000\n"
    assert [path.name for path in (fleet.data_dir / "stage" / str(number)).iterdir()] == ["in-0.tar"]


def test_a_submitter_killed_half_way_leaves_a_job_that_says_why_it_waits(fleet: Cluster, tmp_path: Path) -> None:
    large(fleet)
    process, number = half_way(fleet, "left", tmp_path / "large")
    process.kill()
    process.communicate(timeout=20)
    told = wait_until(lambda: "BurstBufferStageIn" in reason(fleet, number) and reason(fleet, number), 20, "the reason")
    assert f"flagplot stage {number} sends them" in told
    fleet.run("release", str(number))
    assert fleet.state(number) == "PENDING"
    assert "has its files" in fleet.cli("stage", str(number))
    fleet.wait_state(number, "COMPLETED")
    assert (fleet.work / "left.out").read_text() == "80000000\n"


def test_a_job_cancelled_while_its_files_are_on_their_way(fleet: Cluster, tmp_path: Path) -> None:
    large(fleet)
    process, number = half_way(fleet, "cancelled", tmp_path / "large")
    fleet.cli("cancel", str(number))
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode != 0 and fleet.state(number) == "CANCELLED"
    assert not (tmp_path / "large").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to run jobs as other users")
def test_files_are_their_owners_alone(fleet: Cluster, alice: pwd.struct_passwd) -> None:
    environment = as_somebody_else(fleet, alice.pw_name)
    home = Path(environment["HOME"])
    (home / "hers").write_text("secret\n")
    target = f"/tmp/fp-stage-{alice.pw_name}"
    try:
        done = subprocess.run(
            [RUN, "--cluster", "there", "submit", "--parsable", "-D", "/", "-o", "/dev/null", f"--stage-in=hers:{target}",
             f"--stage-out={target}:back", "--wrap", f"stat -c %U {target} > /tmp/fp-stage-{alice.pw_name}.who"],
            env=environment, cwd=home, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        number = int(done.stdout)
        fleet.wait_state(number, "COMPLETED", "FAILED")
        assert Path(f"{target}.who").read_text() == f"{alice.pw_name}\n", fleet.job(number)
        refused = fleet.run("fetch", str(number))
        assert refused.returncode == 6 and f"belongs to {alice.pw_name}" in refused.stderr
        subprocess.run([RUN, "--cluster", "there", "fetch", str(number)], env=environment, cwd=home, check=True)
        assert (home / "back").read_text() == "secret\n"
        assert (fleet.data_dir / "stage").stat().st_mode & 0o777 == 0o700
    finally:
        for path in (target, f"{target}.who"):
            Path(path).unlink(missing_ok=True)


def test_an_agent_that_is_killed_sends_what_is_owed_when_it_is_back(fleet: Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wrap = f"echo kept > kept; touch {tmp_path}/ready; until [ -e {go} ]; do sleep 0.05; done"
    number = fleet.submit("-w", "gpu03", "--stage-out", f"kept:{tmp_path}/back", "-o", "/dev/null", "--wrap", wrap)
    wait_until((tmp_path / "ready").exists, 30, "the job")
    os.kill(int(json.loads((fleet.data_dir / "run" / "agent-gpu03.json").read_text())["pid"]), signal.SIGKILL)
    go.touch()
    journal = Journal(fleet.data_dir / "agents" / "gpu03" / "jobs")
    wait_until(lambda: journal.end_of(f"{number}.1"), 20, "the end that the keeper wrote down")
    fleet.cli("up", "--detach", "--demo", "--nodes", "3", "--no-jobs")
    fleet.wait_state(number, "COMPLETED")
    fleet.cli("fetch", str(number))
    assert (tmp_path / "back").read_text() == "kept\n"
