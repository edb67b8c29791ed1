"""Steps in containers: in the one that the job's script runs in, in a new one, and outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from support import images
from support.by_hand import started
from support.cluster import BIN, Cluster, wait_until
from support.terminal import Terminal

RUN = str(BIN / "flagplot")
IN_IMAGE = "[ -e /etc/debian_version ] && echo node || echo image"


@pytest.fixture(scope="module")
def boxed() -> Iterator[Cluster]:
    """A node with podman and our image."""
    with images.storage() as environment, started({"n1": images.agent_prefix()}) as cluster:
        home = cluster.environment["HOME"]
        cluster.environment.update(environment)
        cluster.environment["HOME"] = home
        yield cluster


@pytest.fixture(scope="module")
def held(boxed: Cluster) -> Iterator[int]:
    """A job whose script runs in a container and has left something there."""
    script = boxed.work / "boxed.sh"
    script.write_text("#!/bin/sh\numask > mask\necho mine > /made-by-script\ntouch ready\nexec sleep 600\n")
    limited = 'umask 027; ulimit -n 321; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", limited, "sh", RUN, "submit", "--parsable", "-o", "/dev/null", f"--container-image={images.IMAGE}",
         str(script)], env=boxed.environment, cwd=boxed.work, capture_output=True, text=True, check=True,
    )  # fmt: skip
    number = int(done.stdout)
    wait_until((boxed.work / "ready").exists, 60, f"the script in its container\n{boxed.logs()}")
    yield number
    boxed.run("cancel", str(number))


def in_job(cluster: Cluster, job: int, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [RUN, "run", "--jobid", str(job), *words], env=cluster.environment, cwd=cluster.work, input=text,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_step_goes_into_the_scripts_container(boxed: Cluster, held: int) -> None:
    words = f'{IN_IMAGE}; cat /made-by-script; pwd; ulimit -n; echo "$MINE $SLURM_STEP_ID"; cat; exit 5'
    done = in_job(boxed, held, "env", "MINE=a b", "sh", "-c", words, text="given\n")
    lines = done.stdout.splitlines()
    assert done.returncode == 5, done.stderr
    assert lines[:4] == ["image", "mine", str(boxed.work), "321"] and lines[5] == "given"
    assert lines[4].startswith("a b ") and lines[4].split()[-1].isdecimal()


def test_a_step_may_stay_outside_and_has_the_jobs_umask_and_limits(boxed: Cluster, held: int) -> None:
    done = in_job(boxed, held, "--no-container", "sh", "-c", f"{IN_IMAGE}; umask; ulimit -n; touch by-step")
    assert done.stdout.split() == ["node", "0027", "321"], done.stderr
    assert (boxed.work / "mask").read_text() == in_job(boxed, held, "sh", "-c", "umask").stdout == "0027\n"
    assert (boxed.work / "by-step").stat().st_mode & 0o777 == 0o640


def test_a_step_has_a_container_of_its_own(boxed: Cluster, held: int) -> None:
    (boxed.work / "given").mkdir()
    (boxed.work / "given/word").write_text("from the node\n")
    mounts = f"--container-mounts={boxed.work}/given:/in:ro"
    words = (
        f"{IN_IMAGE}; cat /in/word; touch /in/no 2>/dev/null || echo read only; [ -e /made-by-script ] || echo new; pwd"
    )
    done = in_job(
        boxed, held, f"--container-image={images.IMAGE}", mounts, "--container-workdir=/in", "sh", "-c", words
    )
    assert done.stdout.splitlines() == ["image", "from the node", "read only", "new", "/in"], done.stderr
    both = in_job(boxed, held, f"--container-image={images.IMAGE}", "--no-container", "true")
    assert both.returncode == 3 and "contradict" in both.stderr


def test_a_job_made_for_a_command_has_its_container(boxed: Cluster) -> None:
    done = subprocess.run(
        [RUN, "run", "-n2", f"--container-image={images.IMAGE}", "sh", "-c", f"{IN_IMAGE}; exit $SLURM_PROCID"],
        env=boxed.environment, cwd=boxed.work, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.returncode) == (["image"] * 2, 1), done.stderr


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_shell_is_in_the_container_on_a_terminal(boxed: Cluster, held: int) -> None:
    with Terminal([RUN, "shell", str(held)], env=boxed.environment, cwd=boxed.work) as screen:
        screen.type("cat /made-by-script; tty; stty size; echo in-$SLURM_JOB_ID\n")
        screen.wait_for("mine", "/dev/pts/", f"in-{held}")
        screen.type("exit\n")


def engines_left(environment: dict[str, str]) -> list[str]:
    told = subprocess.run(
        ["podman", "ps", "--all", "--format={{.Names}} {{.Status}}"], env={**os.environ, **environment},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [line for line in told.splitlines() if not line.startswith("flagplot-")]


@pytest.mark.parametrize("new", [True, False])
def test_what_runs_in_a_container_ends_with_the_steps_client(boxed: Cluster, held: int, new: bool) -> None:
    mark = f"sleep 6{int(new)}7.25"
    words = [f"--container-image={images.IMAGE}"] if new else []
    running = subprocess.Popen(
        [RUN, "run", "--jobid", str(held), *words, "sh", "-c", f'trap "" TERM; echo ready; {mark} & wait; wait'],
        env=boxed.environment, cwd=boxed.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    running.send_signal(2)
    running.send_signal(2)
    running.communicate(timeout=20)

    def over() -> bool:
        return all(one["state"] != "RUNNING" for one in boxed.job(held)["steps"])

    wait_until(over, 20, "the end of the step")
    assert not living(mark)
    storage = {"CONTAINERS_STORAGE_CONF": boxed.environment["CONTAINERS_STORAGE_CONF"]}
    assert engines_left(storage) == []
    assert boxed.state(held) == "RUNNING" and in_job(boxed, held, "cat", "/made-by-script").stdout == "mine\n"


def living(mark: str) -> list[str]:
    told = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in told.splitlines() if line == mark]


def test_what_cannot_be_boxed_says_why(boxed: Cluster, held: int) -> None:
    done = in_job(boxed, held, f"--container-image={images.IMAGE}", "--container-mounts=data:/in", "true")
    assert done.returncode == 1 and "'data' is no absolute path" in done.stderr
    done = in_job(boxed, held, f"--container-image={images.IMAGE}", "/no/such")
    assert done.returncode == 127 and "/no/such" in done.stderr
