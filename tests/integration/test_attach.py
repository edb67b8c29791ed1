"""Joining running steps: input, several at once, the detach key, and other people's jobs."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from support.cluster import BIN, Cluster, wait_until
from support.other_identity import as_somebody_else
from support.terminal import Terminal

RUN = str(BIN / "flagplot")


@pytest.fixture(scope="module")
def held(fleet: Cluster) -> Iterator[int]:
    number = fleet.submit("-N2", "-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(number, "RUNNING")
    yield number
    fleet.run("cancel", str(number))


class Running:
    """A command of ours with pipes; `step` is its step's number."""

    def __init__(self, fleet: Cluster, *words: str) -> None:
        self.process = subprocess.Popen(
            [RUN, *words], env=fleet.environment, cwd=fleet.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


def begun(fleet: Cluster, job: int, *words: str) -> tuple[Running, str]:
    """A step that has said `ready`, and its id."""
    running = Running(fleet, "run", "--jobid", str(job), "-N1", "-n1", *words)
    assert "ready" in running.line()
    return running, str(fleet.job(job)["steps"][-1]["id"])


def test_what_is_typed_reaches_every_task(fleet: Cluster, held: int) -> None:
    first = Running(fleet, "run", "--jobid", str(held), "-l", "sh", "-c", "echo ready; exec cat")
    assert {first.line(), first.line()} == {"0: ready\n", "1: ready\n"}
    second = Running(fleet, "attach", "-l", str(held))
    assert {second.line(), second.line()} == {"0: ready\n", "1: ready\n"}
    second.say("from the second\n")
    first.say("from the first\n")
    seen = [{first.line() for _ in range(4)}, {second.line() for _ in range(4)}]
    assert seen[0] == seen[1] == {f"{rank}: from the {who}\n" for rank in (0, 1) for who in ("first", "second")}
    # The end of its file is not the end of the tasks' input.
    assert second.process.stdin is not None
    second.process.stdin.close()
    first.say("still\n")
    assert {second.line(), second.line()} == {"0: still\n", "1: still\n"}
    assert first.end()[0] == 0 and second.process.wait(20) == 0


def test_input_goes_between_the_clients_messages(fleet: Cluster, held: int) -> None:
    """Much comes from both sides at once: nothing is lost, torn messages would end the step."""
    first, step = begun(fleet, held, "sh", "-c", "echo ready; exec cat")
    seed = random.randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    alphabets = {"a": "abcdefghij", "b": "0123456789"}
    texts = {who: "".join(dice.choices(letters, k=600_000)) for who, letters in alphabets.items()}
    for who, text in texts.items():
        (fleet.work / f"text-{who}").write_text(text)
    with (fleet.work / "seen").open("wb") as seen:
        second = subprocess.Popen(
            ["sh", "-c", f'cat text-b | "{RUN}" attach {step}'], env=fleet.environment, cwd=fleet.work, stdout=seen
        )
    assert first.process.stdin is not None and first.process.stdout is not None
    copying = subprocess.Popen(["cat", str(fleet.work / "text-a")], stdout=first.process.stdin)
    got = first.process.stdout.read(1_200_000)
    assert copying.wait(20) == 0
    for who, letters in alphabets.items():
        assert "".join(letter for letter in got if letter in letters) == texts[who]
    assert first.end()[0] == 0 and second.wait(20) == 0


def test_only_watching(fleet: Cluster, held: int) -> None:
    first, step = begun(fleet, held, "sh", "-c", "echo ready; exec cat")
    watching = Running(fleet, "attach", str(held), "--step", step.partition(".")[2], "--no-stdin")
    assert watching.line() == "ready\n"
    watching.say("unheard\n")
    first.say("heard\n")
    assert watching.line() == "heard\n"
    assert first.end()[:2] == (0, "heard\n") and watching.end()[:2] == (0, "")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_two_terminals_share_a_shell_and_one_leaves(fleet: Cluster, held: int) -> None:
    options = {"env": fleet.environment, "cwd": fleet.work}
    with Terminal([RUN, "run", "--jobid", str(held), "--pty", "-n1", "sh"], **options) as one:
        one.type("echo first-$((1+1))\n")
        one.wait_for("first-2")
        with Terminal(["sh", "-c", f"{RUN} attach {held}; echo code-$?; exec cat"], **options) as two:
            two.wait_for("Ctrl-] leaves it running")
            two.type("echo second-$((1+2))\n")
            two.wait_for("second-3")
            one.wait_for("second-3")
            two.keys("C-]")
            two.wait_for("which goes on", "code-0")
        one.type("echo third-$((2+2))\n")
        one.wait_for("third-4")
        one.type("exit\n")


def test_what_cannot_be_attached_to(fleet: Cluster, held: int) -> None:
    script = fleet.run("attach", f"{held}.batch")
    assert script.returncode == 2 and "reads /dev/null" in script.stderr
    lone = fleet.submit("-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(lone, "RUNNING")
    none = fleet.run("attach", str(lone))
    assert (
        none.returncode == 3 and "its script reads no input from here" in none.stderr and "flagplot logs" in none.stderr
    )
    fleet.cli("cancel", str(lone))
    key = fleet.run("attach", str(held), "--detach-key", "x")
    assert key.returncode == 2 and "write ctrl-a to ctrl-z" in key.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to run jobs as other users")
def test_operators_only_watch_other_peoples_steps(fleet: Cluster, alice: pwd.struct_passwd) -> None:
    environment = as_somebody_else(fleet, alice.pw_name)
    hers = subprocess.Popen(
        [RUN, "--cluster", "there", "run", "-n1", "-D", "/", "-J", "hers", "sh", "-c", "echo ready; id -un; exec cat"],
        env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert hers.stdout is not None and hers.stdin is not None
    assert [hers.stdout.readline() for _ in range(2)] == ["ready\n", f"{alice.pw_name}\n"]
    job = next(one["job_id"] for one in fleet.json("queue") if one["name"] == "hers")
    watching = Running(fleet, "attach", str(job))
    assert [watching.line() for _ in range(2)] == ["ready\n", f"{alice.pw_name}\n"]
    watching.say("from an operator\n")
    hers.stdin.write("mine\n")
    hers.stdin.flush()
    assert watching.line() == hers.stdout.readline() == "mine\n"
    hers.stdin.close()
    assert hers.wait(20) == 0
    code, out, told = watching.end()
    assert (code, out) == (0, "") and f"only watching: job {job} belongs to {alice.pw_name}" in told
    wait_until(lambda: fleet.state(job) == "COMPLETED", 20, "the end of her job")
