"""A real agent and keeper, real processes, a controller that only speaks: what becomes of jobs."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.agent_fake_controller import Rig, alive, opened_rig, part, until

from flagplot_agent.launch.journal import Journal
from flagplot_wire import agentlink as al
from flagplot_wire.alloc import Allocation, GpuPart
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import JobSpec, Request

BASH = "#!/bin/bash\n"
ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with opened_rig() as made:
        await made.start()
        yield made


def mentions(text: str) -> list[int]:
    """Live processes whose command line has `text`."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if text in Path(f"/proc/{name}/cmdline").read_text() and alive(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return found


async def test_a_job_runs_and_its_output_code_and_use_come_back(rig: Rig) -> None:
    assert rig.controller.hellos[0].node == "gpu01" and rig.controller.hellos[0].inventory.simulated
    rig.launch(41, BASH + 'echo "hello $1"; echo oops >&2; exit 7\n', args=("you",))
    started = await rig.controller.started(41)
    assert started.stdout == str(rig.work / "41.out") and abs(started.time - time.time()) < 30
    end = await rig.controller.end(41)
    assert (end.cause, end.exit_code, end.signal, end.message) == ("exited", 7, 0, "")
    assert end.memory_peak_mib > 0 and end.started <= end.time
    assert rig.out("41.out") == "hello you\noops\n"
    piece = await rig.controller.piece(
        al.ReadFile(1, JobNumber(41), 1, "stdout", "", "root", os.getuid(), os.getgid(), -5, 100)
    )
    assert (piece.offset, piece.size, piece.data, piece.error) == (10, 15, b"oops\n", "")
    await until(lambda: any(isinstance(body, al.SampleReport) for body in rig.controller.heard), 20, "a sample")


async def test_death_by_a_signal_is_told(rig: Rig) -> None:
    rig.launch(1, BASH + "kill -SEGV $$\n")
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code, end.signal) == ("exited", 139, signal.SIGSEGV)


async def test_the_time_limit_gives_a_grace_period(rig: Rig) -> None:
    rig.launch(1, BASH + 'trap "echo saved; exit 0" TERM\necho begun\nwhile :; do sleep 0.1; done\n', deadline_s=1)
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code) == ("timeout", 0)
    text = rig.out("1.out")
    assert "begun\n" in text and "saved\n" in text
    assert "flagplot: *** JOB 1 ON gpu01 CANCELLED AT 20" in text and "DUE TO TIME LIMIT ***" in text


async def test_who_ignores_the_time_limit_is_killed(rig: Rig) -> None:
    rig.launch(1, BASH + 'trap "" TERM\nwhile :; do sleep 0.1; done\n', deadline_s=1, kill_wait_s=1)
    began = time.monotonic()
    end = await rig.controller.end(1)
    assert (end.cause, end.signal) == ("timeout", signal.SIGKILL)
    assert time.monotonic() - began > 1.5


async def test_a_stop_ends_everything_and_says_who(rig: Rig) -> None:
    rig.launch(1, BASH + "sleep 301.25 & sleep 301.25\n")
    await rig.controller.started(1)
    await until(lambda: len(mentions("301.25")) >= 2)
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 30, "CANCELLED BY alice\x1b[2J"))
    end = await rig.controller.end(1)
    assert end.cause == "stopped" and not mentions("301.25")
    assert "CANCELLED BY alice?[2J AT 20" in rig.out("1.out")


async def test_a_longer_limit_and_signals_reach_a_running_job(rig: Rig) -> None:
    script = BASH + 'trap "echo usr1" USR1\necho begun\nfor i in $(seq 30); do sleep 0.1; done\n'
    rig.launch(1, script, deadline_s=2)
    await rig.controller.started(1)
    await until(lambda: "begun" in rig.out("1.out"))
    rig.controller.send(al.Extend(Epoch(1), JobNumber(1), 1, 600))
    rig.controller.send(al.Signal(Epoch(1), JobNumber(1), 1, "USR1"))
    end = await rig.controller.end(1)
    assert end.cause == "exited" and end.exit_code == 0 and "usr1" in rig.out("1.out")


async def test_daemons_that_left_the_session_end_with_their_job(rig: Rig) -> None:
    rig.launch(1, BASH + "setsid -f sleep 302.25\n(setsid nohup sleep 302.25 &)\nsleep 0.2\n")
    assert (await rig.controller.end(1)).exit_code == 0
    assert not mentions("302.25")


async def test_a_killed_agent_finds_its_running_job_again(rig: Rig) -> None:
    rig.launch(1, BASH + "echo $$ >pid; sleep 2; echo done; exit 3\n")
    await rig.controller.started(1)
    keeper = rig.keeper_pid()
    rig.kill()
    await rig.start()
    assert rig.controller.hellos[-1].running == (al.Attempt(JobNumber(1), 1),)
    assert rig.controller.hellos[-1].epoch == 1
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code) == ("exited", 3)
    assert rig.out("1.out") == "done\n" and rig.keeper_pid() == keeper


async def test_an_end_while_the_agent_is_away_is_delivered_until_acknowledged(rig: Rig) -> None:
    journal = Journal(rig.agent_dir / "jobs")
    rig.controller.acknowledging = False
    rig.launch(1, BASH + "sleep 0.5; exit 4\n")
    await rig.controller.started(1)
    rig.kill()
    await until(lambda: journal.end_of("1.1") is not None)
    await rig.start()
    assert [end.exit_code for end in rig.controller.hellos[-1].ended] == [4]
    await until(lambda: any(isinstance(body, al.Ended) for body in rig.controller.heard), 20, "a repeated end")
    rig.controller.acknowledging = True
    await until(lambda: journal.acknowledged("1.1"))
    rig.kill()
    await rig.start()
    assert rig.controller.hellos[-1].ended == () and rig.controller.hellos[-1].running == ()


async def test_a_repeated_launch_starts_nothing(rig: Rig) -> None:
    launch = rig.launch(1, BASH + "echo once >>ledger; sleep 0.3\n")
    rig.controller.send(launch)
    await rig.controller.end(1)
    count = len(rig.controller.ends(1))
    rig.controller.send(launch)
    await until(lambda: len(rig.controller.ends(1)) > count, 20, "the end again")
    assert rig.out("ledger") == "once\n"


async def test_an_older_controller_is_not_obeyed(rig: Rig) -> None:
    await rig.controller.close()
    rig.controller.epoch = 5
    await rig.controller.open()
    await until(lambda: len(rig.controller.hellos) == 2)
    rig.launch(1, BASH + "echo old >>ledger\n", epoch=4)
    rig.launch(2, BASH + "echo new >>ledger; sleep 60\n")
    await rig.controller.started(2)
    rig.controller.send(al.Stop(Epoch(4), JobNumber(2), 1, 0))
    rig.launch(3, BASH + ":\n")
    await rig.controller.end(3)
    assert rig.out("ledger") == "new\n" and not rig.controller.ends(2) and not rig.controller.ends(1)
    await rig.controller.close()
    rig.controller.epoch = 4
    await rig.controller.open()
    await until(lambda: len(rig.controller.hellos) >= 4, 20, "further tries")
    rig.kill()
    rig.controller.epoch = 5
    await rig.start()
    assert rig.controller.hellos[-1].epoch == 5
    assert rig.controller.hellos[-1].running == (al.Attempt(JobNumber(2), 1),)


async def test_array_and_gpu_environment(rig: Rig) -> None:
    gpus = (GpuPart(1, 3, 8, "h100", "GPU-fake-1"),)
    rig.launch(
        7,
        BASH + "env\n",
        allocation=Allocation((part("gpu01", gpus=gpus), part("gpu02"))),
        environment={"SLURM_ARRAY_TASK_STEP": "9", "FLAGPLOT_FD": "3", "MINE": "a=b", "HOME": "/nowhere"},
        array_number=JobNumber(5), array_index=3, array_min=1, array_max=9, array_count=9,
        deadline_s=600, restarts=2, cluster="test", submit_host="login",
    )  # fmt: skip
    await rig.controller.end(7)
    found = dict(line.split("=", 1) for line in rig.out("7.out").splitlines())
    wanted = {
        "SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MAX": "9",
        "SLURM_JOB_NODELIST": "gpu[01-02]", "SLURM_NNODES": "2", "SLURM_RESTART_COUNT": "2", "WORLD_SIZE": "2",
        "CUDA_VISIBLE_DEVICES": "GPU-fake-1", "SLURM_JOB_GPUS": "1", "FLAGPLOT_SHARDS": "3", "MINE": "a=b",
        "FLAGPLOT_VRAM_MIB": str(81920 * 3 // 8), "MASTER_ADDR": "gpu01", "HOME": pwd.getpwuid(os.getuid()).pw_dir,
        "SLURM_SUBMIT_HOST": "login", "SLURM_CLUSTER_NAME": "test",
    }  # fmt: skip
    assert {name: found.get(name) for name in wanted} == wanted
    assert int(found["SLURM_JOB_END_TIME"]) - int(found["SLURM_JOB_START_TIME"]) == 600
    assert not {"SLURM_ARRAY_TASK_STEP", "FLAGPLOT_FD"} & set(found)


async def test_tasks_have_ranks_and_the_first_failure_ends_the_others(rig: Rig) -> None:
    allocation = Allocation((part("gpu00", tasks=2), part("gpu01", tasks=3, first_rank=2)))
    request = Request(launch="tasks", tasks=5)
    script = BASH + 'echo "$RANK $LOCAL_RANK $WORLD_SIZE"\n[ $RANK != 3 ] || { sleep 0.5; exit 9; }\nsleep 60\n'
    rig.launch(1, script, allocation=allocation, node_index=1, request=request)
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code) == ("exited", 9)
    lines = rig.out("1.out").splitlines()
    assert sorted(lines) == ["2 0 5", "3 1 5", "4 2 5"]


async def test_another_node_of_a_batch_job_is_held_until_stopped(rig: Rig) -> None:
    rig.launch(1, BASH + "echo never >ledger\n", allocation=Allocation((part("gpu00"), part("gpu01"))), node_index=1)
    await rig.controller.started(1)
    rig.kill()
    await rig.start()
    assert rig.controller.hellos[-1].running == (al.Attempt(JobNumber(1), 1),)
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 30))
    assert (await rig.controller.end(1)).cause == "stopped"
    assert not rig.out("ledger")


@pytest.mark.parametrize(
    ("script", "more", "words"),
    [
        (BASH, {"stdout": "no/such/%j.out"}, ["user: cannot open the output", "No such file", "create the folder"]),
        (BASH, {"stdout": "/proc/self"}, ["user: cannot open the output"]),
        (BASH, {"spec": JobSpec("j", "/no/such/folder")}, ["user: cannot enter the working folder /no/such/folder"]),
        ("#!/no/such/interpreter\n", {}, ["user: ", "#! line", "No such file"]),
        ("no first line\n", {}, ["user: ", "#! line"]),
        (BASH, {"args": ("a\0b",)}, ["null"]),
    ],
)
async def test_what_cannot_be_started_says_why(
    rig: Rig, script: str, more: dict[str, object], words: list[str]
) -> None:
    rig.launch(1, script, **more)
    end = await rig.controller.end(1)
    assert end.cause == "launch_failed" and end.exit_code == 0
    assert [word for word in words if word not in end.message] == [], end.message


async def test_a_fifo_as_output_hangs_nothing(rig: Rig) -> None:
    os.mkfifo(rig.work / "pipe")
    rig.launch(1, BASH, stdout="pipe")
    assert (await rig.controller.end(1)).message.startswith("user: cannot open the output")
    await rig.controller.piece(al.ReadFile(1, JobNumber(9), 1, "stdout", str(rig.work / "pipe"), "root", 0, 0, 0, 9))
    pieces = [body for body in rig.controller.heard if isinstance(body, al.FilePiece)]
    assert "no regular file" in pieces[0].error


async def test_a_killed_keeper_is_replaced_and_its_jobs_watched(rig: Rig) -> None:
    rig.launch(1, BASH + "sleep 1.5\n")
    rig.launch(2, BASH + "sleep 303.25\n")
    await rig.controller.started(1)
    await rig.controller.started(2)
    keeper = rig.keeper_pid()
    os.kill(keeper, signal.SIGKILL)
    await until(lambda: rig.keeper_pid() not in (0, keeper), 20, "another keeper")
    assert len(mentions("303.25")) == 1
    end = await rig.controller.end(1)
    assert end.cause == "lost" and "keeper" in end.message
    rig.controller.send(al.Stop(Epoch(1), JobNumber(2), 1, 30))
    assert (await rig.controller.end(2)).cause == "stopped"
    assert not mentions("303.25")
    rig.launch(3, BASH + "exit 5\n")
    assert (await rig.controller.end(3)).exit_code == 5


async def test_agent_and_keeper_killed_while_a_job_ends(rig: Rig) -> None:
    rig.launch(1, BASH + "sleep 0.3\n")
    await rig.controller.started(1)
    rig.kill()
    keeper = rig.keeper_pid()
    os.kill(keeper, signal.SIGKILL)
    await until(lambda: not alive(keeper))
    await rig.start()
    assert (await rig.controller.end(1)).cause == "lost"


async def test_out_of_contact_beyond_the_lease_jobs_end(rig: Rig) -> None:
    rig.kill()
    rig.options = ["--lease", "41"]
    await rig.start()
    rig.launch(1, BASH + "sleep 304.25\n")
    await rig.controller.started(1)
    await until(lambda: mentions("304.25"), 20, "the sleep of the script")
    await rig.controller.close()
    await until(lambda: not mentions("304.25"), 20, "the end of the job")
    await rig.controller.open()
    assert (await rig.controller.end(1)).cause == "stopped"


@ROOT_ONLY
async def test_root_runs_jobs_as_their_user_and_reads_as_them(rig: Rig) -> None:
    nobody = pwd.getpwnam("nobody")
    os.chmod(rig.folder, 0o711)
    rig.work.chmod(0o777)
    rig.agent_dir.chmod(0o700)
    rig.launch(
        1, BASH + 'id -u; id -G; umask; echo "$HOME $0"; ls /proc/self/fd | wc -l\n', user="nobody", uid=nobody.pw_uid
    )
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code) == ("exited", 0), end.message
    lines = rig.out("1.out").splitlines()
    groups = {str(group) for group in os.getgrouplist("nobody", nobody.pw_gid)}
    assert lines[0] == str(nobody.pw_uid) and set(lines[1].split()) == groups and "0" not in groups
    assert (rig.work / "1.out").stat().st_uid == nobody.pw_uid
    secret = rig.work / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    who = ("nobody", nobody.pw_uid, nobody.pw_gid)
    piece = await rig.controller.piece(al.ReadFile(1, JobNumber(8), 1, "stdout", str(secret), *who, 0, 99))
    assert piece.data == b"" and "Permission denied" in piece.error
    piece = await rig.controller.piece(al.ReadFile(2, JobNumber(1), 1, "stdout", "", *who, 0, 4))
    assert piece.data == lines[0].encode()[:4] and not piece.error
    rig.launch(2, BASH, user="nosuchuser", uid=54321)
    assert (await rig.controller.end(2)).message.startswith("user: there is no user nosuchuser")
    rig.launch(3, BASH, user="nobody", uid=12345)
    assert "has uid" in (await rig.controller.end(3)).message


@ROOT_ONLY
async def test_memory_beyond_the_limit_is_out_of_memory(rig: Rig) -> None:
    script = BASH + "head -c 200M /dev/zero | tail -c 200M >/dev/null\n"
    rig.launch(1, script, allocation=Allocation((part("gpu01", memory=40),)))
    started = await rig.controller.started(1)
    if "memory" not in started.enforced:
        pytest.skip(f"memory is not enforced here: {started.notes}")
    end = await rig.controller.end(1)
    assert end.cause == "oom" and "40 MiB" in end.message
    assert "OUT OF MEMORY" in rig.out("1.out")


@ROOT_ONLY
async def test_a_full_disk_delays_ends_and_refuses_starts(rig: Rig) -> None:
    jobs = rig.agent_dir / "jobs"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(jobs)], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        # An end may fit into what is left of its log's last block: fill that too.
        fill = f"cat /dev/zero >{jobs}/fill; tr '\\0' '\\n' </dev/zero >>{jobs}/1.1.log"
        rig.launch(1, BASH + f"({fill}) 2>/dev/null; exit 5\n")
        await until(lambda: "cannot write its end down" in rig.log(), 20, "a word about the full disk")
        rig.launch(2, BASH)
        end = await rig.controller.end(2)
        assert end.cause == "launch_failed" and "No space left" in end.message
        rig.launch(3, BASH)
        assert not rig.controller.ends(1)
        (jobs / "fill").unlink()
        assert (await rig.controller.end(1)).exit_code == 5
        rig.launch(4, BASH + "exit 6\n")
        assert (await rig.controller.end(4)).exit_code == 6
    finally:
        subprocess.run(["umount", "-l", str(jobs)], check=True)


async def test_told_to_end_the_agent_leaves_its_jobs(rig: Rig) -> None:
    rig.launch(1, BASH + "sleep 1; exit 6\n")
    await rig.controller.started(1)
    rig.kill(signal.SIGTERM)
    await until(lambda: rig.keeper_pid() == 0, 20, "the keeper's end after the last job")
    await rig.start()
    assert [end.exit_code for end in rig.controller.hellos[-1].ended] == [6]


async def test_many_at_once(rig: Rig) -> None:
    for number in range(1, 61):
        rig.launch(number, BASH + f"exit {number % 3}\n", stdout="/dev/null")
    for number in range(1, 61):
        assert (await rig.controller.end(number)).exit_code == number % 3
    assert all(len(rig.controller.ends(number)) == 1 for number in range(1, 61))
