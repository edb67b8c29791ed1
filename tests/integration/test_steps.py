"""Steps on a real fleet of three agents: `flagplot run`, shells, ports and files."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import BIN, Cluster, wait_until
from support.terminal import Terminal as Screen

from flagplot_wire.hostlist import expand_hosts

RUN = str(BIN / "flagplot")


@pytest.fixture(scope="module")
def held(fleet: Cluster) -> Iterator[int]:
    """A job of two nodes with two tasks each that stays until the module is done."""
    number = fleet.submit("-N2", "--ntasks-per-node=2", "-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(number, "RUNNING")
    yield number
    fleet.run("cancel", str(number))


def in_job(fleet: Cluster, job: int, *args: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [RUN, "run", "--jobid", str(job), *args], env=fleet.environment, cwd=fleet.work, input=text,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def steps(fleet: Cluster, job: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = fleet.job(job)["steps"]
    return found


def test_tasks_have_ranks_and_their_lines_are_labelled(fleet: Cluster, held: int) -> None:
    words = "$SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS $RANK/$WORLD_SIZE $FLAGPLOT_NODE $MASTER_ADDR"
    done = in_job(fleet, held, "-l", "sh", "-c", f"echo {words}; echo $SLURM_STEP_NODELIST $SLURM_TASKS_PER_NODE")
    assert (done.returncode, done.stderr) == (0, "")
    nodes = fleet.job(held)["nodes"]
    expected = [f"{rank}: {rank} {rank % 2} {rank // 2} 4 {rank}/4 {nodes[rank // 2]} {nodes[0]}" for rank in range(4)]
    lines = sorted(done.stdout.splitlines())
    assert [line for line in lines if "[" not in line] == expected
    assert [line for line in lines if "[" in line] == [f"{rank}: gpu[01-02] 2(x2)" for rank in range(4)]
    last = steps(fleet, held)[-1]
    assert (last["state"], last["tasks"], last["nodes"], last["exit_code"]) == ("COMPLETED", 4, nodes, 0)
    assert str(last["id"]).startswith(f"{held}.") and int(str(last["memory_peak_mib"])) > 0


def test_the_exit_code_is_the_highest_of_the_tasks(fleet: Cluster, held: int) -> None:
    done = in_job(fleet, held, "sh", "-c", "exit $SLURM_PROCID")
    assert done.returncode == 3 and "task 3 on gpu02 ended with exit code 3" in done.stderr
    assert (steps(fleet, held)[-1]["state"], steps(fleet, held)[-1]["exit_code"]) == ("FAILED", 3)
    done = in_job(fleet, held, "-n1", "/no/such/program")
    assert done.returncode == 127 and "cannot execute /no/such/program: No such file or directory" in done.stderr


def test_what_a_step_cannot_have_is_told(fleet: Cluster, held: int) -> None:
    done = in_job(fleet, held, "-n1", "-N1", "--mem=900G", "-t5", "echo", "done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert f"--mem, --time: no effect on a step, which has what job {held} holds" in done.stderr


def test_one_that_fails_ends_the_others_where_wanted(fleet: Cluster, held: int) -> None:
    began = time.monotonic()
    done = in_job(fleet, held, "-K", "sh", "-c", "[ $SLURM_PROCID = 3 ] && exit 9; exec sleep 60")
    assert done.returncode == 9 and time.monotonic() - began < 20


def test_input_reaches_every_task_or_one(fleet: Cluster, held: int) -> None:
    assert in_job(fleet, held, "cat", text="abc\n").stdout == "abc\n" * 4
    assert in_job(fleet, held, "-i", "2", "-l", "cat", text="abc\n").stdout == "2: abc\n"
    many = "x" * 2_000_000
    assert in_job(fleet, held, "-n1", "-N1", "cat", text=many).stdout == many


def test_output_files_are_written_on_the_nodes(fleet: Cluster, held: int) -> None:
    done = in_job(fleet, held, "-o", "out.%t", "sh", "-c", "echo $SLURM_PROCID")
    assert (done.returncode, done.stdout) == (0, "")
    assert [(fleet.work / f"out.{rank}").read_text() for rank in range(4)] == ["0\n", "1\n", "2\n", "3\n"]


def test_steps_beside_each_other_get_different_gpus(fleet: Cluster) -> None:
    done = fleet.run(
        "run", "-n2", "-N1", "--gpus-per-task=1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $SLURM_STEP_GPUS"
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 2 and len(set(lines)) == 2, done.stderr


def test_a_script_runs_steps_without_a_key_of_its_own(fleet: Cluster) -> None:
    script = fleet.work / "steps.sh"
    body = (
        "unset FLAGPLOT_DATA_DIR\nexport HOME=/nonexistent\nflagplot run -l sh -c 'echo $SLURM_STEP_ID'\necho rc=$?\n"
    )
    script.write_text(f"#!/bin/sh\n#SBATCH -N2 -n2 -o steps.out\n{body}")
    number = fleet.submit(str(script))
    fleet.wait_state(number, "COMPLETED")
    lines = (fleet.work / "steps.out").read_text().splitlines()
    assert sorted(lines[:2]) == ["0: 0", "1: 0"] and lines[2] == "rc=0"
    assert [one["id"] for one in steps(fleet, number)] == [f"{number}.batch", f"{number}.0"]


def test_a_job_of_its_own_ends_with_the_command(fleet: Cluster) -> None:
    done = fleet.run("run", "-N2", "-J", "own", "sh", "-c", "echo $FLAGPLOT_NODE; exit 4")
    assert done.returncode == 4 and len(done.stdout.split()) == 2
    job = next(one for one in fleet.json("queue", "--all") if one["name"] == "own")
    assert fleet.wait_state(job["job_id"], "FAILED") and fleet.job(job["job_id"])["exit_code"] == 4


def test_a_command_is_no_array(fleet: Cluster) -> None:
    """Its elements had held nodes for ever, with nobody to run anything in them."""
    done = fleet.run("run", "-a", "0-3", "-J", "many", "true")
    assert done.returncode == 2 and "--array is for submit" in done.stderr
    assert not [one for one in fleet.json("queue", "--all") if one["name"] == "many"]


def test_ctrl_c_while_it_waits_cancels(fleet: Cluster) -> None:
    waiting = subprocess.Popen(
        [RUN, "run", "-J", "waits", "--begin=now+1hour", "true"], env=fleet.environment, cwd=fleet.work,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert waiting.stderr is not None
    line = waiting.stderr.readline()
    assert "queued and waiting for resources" in line
    job = next(one["job_id"] for one in fleet.json("queue") if one["name"] == "waits")
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=20)
    assert waiting.returncode == 130 and fleet.state(job) == "CANCELLED"


def test_a_step_is_watched_by_another(fleet: Cluster, held: int) -> None:
    gate = fleet.work / "gate"
    script = f"echo before-$SLURM_PROCID; until [ -e {gate} ]; do sleep 0.05; done; echo after; exit $SLURM_PROCID"
    running = subprocess.Popen(
        [RUN, "run", "--jobid", str(held), "sh", "-c", script], env=fleet.environment, cwd=fleet.work,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert running.stdout is not None and running.stdout.readline().startswith("before-")
    watching = subprocess.Popen(
        [RUN, "attach", "-l", str(held)],
        env=fleet.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    seen = sorted(watching.stdout.readline() for _ in range(4))
    assert seen == [f"{rank}: before-{rank}\n" for rank in range(4)]
    gate.touch()
    assert sorted(watching.communicate(timeout=20)[0].splitlines()) == [f"{rank}: after" for rank in range(4)]
    assert (watching.returncode, running.wait(20)) == (3, 3)
    gone = fleet.run("attach", f"{held}.9999")
    assert gone.returncode == 3 and "does not run" in gone.stderr


def test_ctrl_c_asks_once_and_kills_twice(fleet: Cluster, held: int) -> None:
    script = 'trap "echo asked" INT; echo ready; while :; do sleep 0.1; done'
    running = subprocess.Popen(
        [RUN, "run", "--jobid", str(held), "-n1", "sh", "-c", script], env=fleet.environment, cwd=fleet.work,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)
    assert running.stdout.readline() == "asked\n"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=20)
    assert running.returncode == 137 and steps(fleet, held)[-1]["state"] == "CANCELLED"


def test_a_step_whose_client_dies_ends(fleet: Cluster, held: int) -> None:
    running = subprocess.Popen(
        [RUN, "run", "--jobid", str(held), "-n1", "sh", "-c", "echo ready; exec sleep 300"],
        env=fleet.environment, cwd=fleet.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    running.kill()
    running.communicate(timeout=20)
    wait_until(lambda: steps(fleet, held)[-1]["state"] == "CANCELLED", 20, "the end of the step")


def test_steps_are_cancelled_and_end_with_their_job(fleet: Cluster) -> None:
    number = fleet.submit("-n1", "-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(number, "RUNNING")
    clients = [
        subprocess.Popen(
            [RUN, "run", "--jobid", str(number), "sh", "-c", "echo ready; exec sleep 300"], env=fleet.environment,
            cwd=fleet.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert [one.stdout.readline() for one in clients if one.stdout] == ["ready\n"] * 2
    first = str(steps(fleet, number)[0]["id"])
    assert "cancelled" in fleet.cli("cancel", first)
    wait_until(lambda: steps(fleet, number)[0]["state"] == "CANCELLED", 20, "the end of the step")
    fleet.cli("cancel", str(number))
    assert [one.wait(20) != 0 for one in clients] == [True, True]
    fleet.wait_state(number, "CANCELLED")
    assert {one["state"] for one in steps(fleet, number)} == {"CANCELLED"}


class Terminal:
    """A command on a pty of ours."""

    def __init__(self, fleet: Cluster, *args: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [RUN, *args], env=fleet.environment, cwd=fleet.work, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.text = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def see(self, text: str, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < deadline, f"{text!r} never came, but: {self.text!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                self.text += os.read(self.master, 65_536).decode(errors="replace")

    def end(self) -> int:
        code = self.process.wait(20)
        os.close(self.master)
        return code


def test_a_terminal_is_a_real_one(fleet: Cluster, held: int) -> None:
    terminal = Terminal(fleet, "run", "--jobid", str(held), "--pty", "bash", "--norc")
    terminal.type("stty size; tty; echo in-$SLURM_STEP_ID\n")
    terminal.see("/dev/pts/")
    terminal.type("exec 3</dev/tty && echo tty-o''k\n")
    terminal.see("tty-ok")
    terminal.type("exit 6\n")
    assert terminal.end() == 6


def test_a_shell_is_inside_the_job(fleet: Cluster, held: int) -> None:
    refused = fleet.run("shell", str(held))
    assert refused.returncode == 2 and "needs a terminal" in refused.stderr
    terminal = Terminal(fleet, "shell", str(held), "-w", "gpu02")
    terminal.type('echo "job-$SLURM_JOB_ID on $FLAGPLOT_NODE"; exit\n')
    terminal.see(f"job-{held} on gpu02")
    assert terminal.end() == 0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_port_of_the_job_is_reached_from_here(fleet: Cluster, held: int) -> None:
    (fleet.work / "big").write_bytes(os.urandom(3_000_000))
    there, here = free_port(), free_port()
    server = subprocess.Popen(
        [RUN, "run", "--jobid", str(held), "-n1", "python3", "-m", "http.server", str(there)], env=fleet.environment,
        cwd=fleet.work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    forward = subprocess.Popen(
        [RUN, "forward", str(held), f"{here}:{there}"], env=fleet.environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert forward.stdout is not None and f"127.0.0.1:{here}" in forward.stdout.readline()

        def page() -> bytes:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{here}/big", timeout=10) as answer:
                    return bytes(answer.read())
            except OSError:
                return b""

        assert wait_until(page, 20, "the page") == (fleet.work / "big").read_bytes()
    finally:
        for one in (forward, server):
            one.terminate()
            one.wait(20)


def test_files_go_there_and_back(fleet: Cluster, held: int, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    source = fleet.work / "tree"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "data").write_bytes(os.urandom(700_000))
    fleet.cli("cp", "tree", f"{held}:{there}/copy")
    assert (there / "copy" / "inner" / "data").read_bytes() == (source / "inner" / "data").read_bytes()
    fleet.cli("cp", f"{held}:{there}/copy", "back")
    assert (fleet.work / "back" / "inner" / "data").read_bytes() == (source / "inner" / "data").read_bytes()
    missing = fleet.run("cp", f"{held}:{there}/none", "back2")
    assert missing.returncode == 3 and f"{there}/none: No such file or directory" in missing.stderr


def test_a_file_is_sent_to_every_node_and_summed(fleet: Cluster, held: int, tmp_path: Path) -> None:
    (fleet.work / "data").write_bytes(os.urandom(1_500_000))
    target = tmp_path / "data"
    # Both nodes are this machine: the second of them finds the file there and must be told to replace it.
    told = fleet.cli("bcast", "--jobid", str(held), "--force", "data", str(target))
    assert "on 2 nodes, sha256" in told and target.read_bytes() == (fleet.work / "data").read_bytes()
    refused = fleet.run("bcast", "--jobid", str(held), "data", str(target))
    assert refused.returncode == 3 and "exists already" in refused.stderr


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh client here")
def test_the_real_ssh_client_gets_into_the_job(fleet: Cluster, held: int) -> None:
    config = fleet.work / "ssh_config"
    config.write_text(fleet.cli("ssh-config") + "\n")

    def ssh(*args: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["ssh", "-F", str(config), *args], env=fleet.environment, input=text, capture_output=True, text=True,
            timeout=40, check=False,
        )  # fmt: skip

    done = ssh(f"flagplot-{held}.gpu02", "echo in $SLURM_JOB_ID on $FLAGPLOT_NODE; cat; exit 5", text="abc")
    assert (done.returncode, done.stdout) == (5, f"in {held} on gpu02\nabc"), done.stderr
    done = ssh("-tt", f"flagplot-{held}", "tty")
    assert done.returncode == 0 and "/dev/pts/" in done.stdout
    refused = ssh("flagplot-999999", "true")
    assert refused.returncode == 255 and "job 999999" in refused.stderr
    there, here = free_port(), free_port()
    serve = f"python3 -m http.server {there} --bind 127.0.0.1 >/dev/null 2>&1"
    forwarding = subprocess.Popen(
        ["ssh", "-F", str(config), "-L", f"{here}:localhost:{there}", f"flagplot-{held}", serve],
        env=fleet.environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:

        def page() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{here}/", timeout=10) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        assert wait_until(page, 20, "the page through ssh -L")
    finally:
        forwarding.terminate()
        forwarding.wait(20)


def resident(fleet: Cluster) -> int:
    """MiB of the controller."""
    pid = json.loads((fleet.data_dir / "controller.json").read_text())["pid"]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


def test_a_reader_that_stops_holds_up_itself_alone(fleet: Cluster, held: int) -> None:
    memory = resident(fleet)
    stuck = subprocess.Popen(
        [RUN, "run", "--jobid", str(held), "cat", "/dev/zero"], env=fleet.environment, cwd=fleet.work,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert stuck.stdout is not None and stuck.stdout.read(1 << 20)
        for _ in range(5):
            assert in_job(fleet, held, "-l", "echo", "on").stdout.count("on\n") == 4
        status = fleet.json("status")
        assert all(agent["responding"] for agent in status["agents"])
        assert resident(fleet) - memory < 40
    finally:
        stuck.kill()
        stuck.communicate(timeout=20)


def test_a_step_is_in_its_jobs_control_groups(fleet: Cluster) -> None:
    (fleet.work / "group.sh").write_text(
        "#!/bin/sh\n#SBATCH -n1 -o group.out\ncat /proc/self/cgroup; echo --; flagplot run cat /proc/self/cgroup\n"
    )
    number = fleet.submit(str(fleet.work / "group.sh"))
    fleet.wait_state(number, "COMPLETED")
    own, _, steps_own = (fleet.work / "group.out").read_text().partition("--\n")
    assert own and own == steps_own


def test_a_step_out_of_memory_says_so(fleet: Cluster) -> None:
    """The kernel's SIGKILL alone would leave people guessing, in the step as well as in the job made for it."""
    eat = "head -c 300M /dev/zero | tail -c 300M >/dev/null; kill -9 $$"
    done = subprocess.run(
        [RUN, "run", "-n1", "--mem=60M", "-J", "eats", "sh", "-c", eat], env=fleet.environment, cwd=fleet.work,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    (job,) = [one for one in fleet.json("queue", "--all") if one["name"] == "eats"]
    if "memory" not in fleet.json("show", "job", str(job["job_id"]))["confined"][0]["enforced"]:
        pytest.skip("memory is not enforced on this machine")
    assert done.returncode == 137 and "out of memory, the job's limit there was reached (--mem)" in done.stderr
    wait_until(lambda: "its limit of 60 MiB was reached" in fleet.job(int(job["job_id"]))["message"], 20, "the message")
    assert fleet.job(int(job["job_id"]))["state"] == "OUT_OF_MEMORY"


def test_a_step_ends_with_its_agent_and_the_job_goes_on(fleet: Cluster) -> None:
    number = fleet.submit("-w", "gpu03", "-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(number, "RUNNING")
    running = subprocess.Popen(
        [RUN, "run", "--jobid", str(number), "sh", "-c", "echo ready; exec sleep 619.25"], env=fleet.environment,
        cwd=fleet.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    agent = json.loads((fleet.data_dir / "run" / "agent-gpu03.json").read_text())["pid"]
    os.kill(agent, signal.SIGKILL)
    told = running.communicate(timeout=20)[1]
    assert running.returncode == 1 and "gpu03" in told
    fleet.cli("up", "--detach")
    wait_until(lambda: steps(fleet, number)[0]["state"] != "RUNNING", 30, "the end of the step")
    assert steps(fleet, number)[0]["message"] == "the agent of gpu03 was restarted"
    assert fleet.state(number) == "RUNNING"
    assert in_job(fleet, number, "echo", "again").stdout == "again\n"
    fleet.cli("cancel", str(number))


@pytest.mark.parametrize("way", ["own", "ssh"])
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_key_s_opens_a_shell_and_brings_the_cockpit_back(fleet: Cluster, held: int, way: str) -> None:
    command = [RUN]
    if way == "ssh":
        if shutil.which("ssh") is None:
            pytest.skip("there is no ssh client here")
        key = fleet.work / "id"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        subprocess.run(
            [str(BIN / "flagplotd"), "add-key", "--user", "root", "--role", "admin", f"{key}.pub"],
            env=fleet.environment, check=True, capture_output=True,
        )  # fmt: skip
        port = json.loads((fleet.data_dir / "controller.json").read_text())["port"]
        safe = [
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            f"UserKnownHostsFile={fleet.work}/known",
            "-o",
            "IdentitiesOnly=yes",
        ]
        command = ["ssh", "-t", "-F", "none", *safe, "-i", str(key), "-p", str(port), "root@127.0.0.1"]
    with Screen(command, env=fleet.environment, cwd=fleet.work) as screen:
        screen.wait_for("Queue", "wrap", "gpu[01-02]")
        screen.keys("Enter")
        screen.wait_for("job " + str(held))
        screen.keys("s")
        screen.wait_for("exit brings the cockpit back")
        screen.type("echo job-$SLURM_JOB_ID-on-$FLAGPLOT_NODE; exit\n")
        screen.wait_for("job " + str(held), "Detail")
        screen.keys("@")
        screen.wait_for(f"flagplot shell {held}", "ended with 0")


def test_show_job_tells_what_is_enforced_and_what_is_not(fleet: Cluster) -> None:
    """Of its many CPUs this machine has a few: it says that they are not bound."""
    job = fleet.submit("-N2", "-c16", "-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(job, "RUNNING")
    told = wait_until(lambda: fleet.job(job)["confined"], 20, "what the nodes enforce")
    text = fleet.run("show", "job", str(job)).stdout
    assert f"on {told[0]['nodes']}: enforced " in text and "\n  not bound to CPUs" in text
    assert all("not bound to CPUs: the node's CPUs are simulated" in one["notes"] for one in told)
    assert "pids" in told[0]["enforced"] or "the number of processes is not limited" in told[0]["notes"]
    wait_until(lambda: len(expand_hosts(",".join(one["nodes"] for one in fleet.job(job)["confined"]))) == 2, 20)
    fleet.run("cancel", str(job))
