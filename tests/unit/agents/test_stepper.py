"""The parent of a step's tasks, as a real process: who they run as, their input and output, how they end."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flagplot_agent.launch.spawn import begin
from flagplot_wire import step_messages

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")


def plan(argv: list[str], tasks: int = 1, **changes: Any) -> dict[str, Any]:
    account = pwd.getpwuid(os.getuid())
    environment = {"PATH": os.environ["PATH"], "FLAGPLOT_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    one = {"argv": argv, "program": argv[0], "cpus": [], "stdout": "", "stderr": "", "stdin": ""}
    return {
        "number": 7, "attempt": 1, "step": 0, "node": "n1", "user": account.pw_name, "uid": account.pw_uid,
        "gid": account.pw_gid, "work_dir": "/", "append": False, "kill_wait_s": 1, "kill_on_bad_exit": False,
        "input": "all", "pty": False, "rows": 24, "columns": 80, "joins": [],
        "tasks": [{**one, "rank": rank, "environment": {**environment, "SLURM_PROCID": str(rank)}} for rank in range(tasks)],
        **changes,
    }  # fmt: skip


class Part:
    """A stepper with its client's end in our hands."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        self.client, theirs = socket.socketpair()
        self.client.settimeout(15)
        memory = os.memfd_create("plan")
        os.write(memory, json.dumps(recipe).encode())
        os.lseek(memory, 0, os.SEEK_SET)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "flagplot_agent.steps.stepper", str(memory)], stdin=theirs.fileno(),
            stdout=subprocess.PIPE, pass_fds=(memory,),
        )  # fmt: skip
        os.close(memory)
        theirs.close()
        self.reader = step_messages.Reader()
        self.news: list[dict[str, Any]] = []
        self.out: dict[tuple[bytes, int], bytes] = {}

    def send(self, kind: bytes, data: bytes) -> None:
        self.client.sendall(step_messages.message(kind, data))

    def hear(self, until: str) -> None:
        """Take messages up to one of news, or to some output."""
        while not any(one["event"] == until for one in self.news) and until.encode() not in b"".join(self.out.values()):
            data = self.client.recv(65_536)
            assert data, f"it ended before {until}: {self.news} {self.out}"
            for kind, content in self.reader.feed(data):
                if kind == b"n":
                    self.news.append(json.loads(content))
                else:
                    key = (kind, int.from_bytes(content[:4], "big"))
                    self.out[key] = self.out.get(key, b"") + content[4:]

    def end(self) -> dict[str, Any]:
        """The record of its end."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.read())
        return found

    def close(self) -> None:
        self.client.close()
        self.process.wait(15)


@pytest.fixture
def parts() -> Iterator[list[Part]]:
    made: list[Part] = []
    yield made
    for one in made:
        one.close()


def start(parts: list[Part], *args: Any, **changes: Any) -> Part:
    parts.append(Part(plan(*args, **changes)))
    return parts[-1]


def test_output_input_and_codes_of_each_task(parts: list[Part]) -> None:
    part = start(parts, ["sh", "-c", "read word; echo $word-$SLURM_PROCID; echo bad >&2; exit $SLURM_PROCID"], 3)
    part.send(b"i", b"hello\n")
    part.hear("ended")
    assert part.out == {
        **{(b"o", rank): f"hello-{rank}\n".encode() for rank in range(3)},
        **{(b"e", rank): b"bad\n" for rank in range(3)},
    }
    assert sorted(one["code"] for one in part.news if one["event"] == "exited") == [0, 1, 2]
    end = part.end()
    assert (end["cause"], end["exit_code"], end["signal"]) == ("exited", 2, 0) and end["memory_peak_mib"] > 0


@ROOT_ONLY
def test_tasks_run_as_the_jobs_user_and_nobody_else(parts: list[Part]) -> None:
    nobody = pwd.getpwnam("nobody")
    who = {"user": "nobody", "uid": nobody.pw_uid, "gid": nobody.pw_gid}
    part = start(parts, ["sh", "-c", "id -u; id -g; id -G"], **who)
    part.hear("ended")
    assert part.out[b"o", 0].split() == [
        str(nobody.pw_uid).encode(),
        str(nobody.pw_gid).encode(),
        str(nobody.pw_gid).encode(),
    ]
    part = start(parts, ["sh", "-c", "tty; stat -c %u $(tty); echo x > $(tty)"], pty=True, **who)
    part.hear("ended")
    assert b"/dev/pts/" in part.out[b"o", 0] and f"{nobody.pw_uid}\r\nx".encode() in part.out[b"o", 0]
    part = start(parts, ["true"], user="no-such-user", uid=64_001, gid=64_001)
    part.hear("ended")
    assert part.end()["cause"] in ("exited", "launch_failed")


def test_what_cannot_start_is_told(parts: list[Part]) -> None:
    part = start(parts, ["/no/such"])
    part.hear("ended")
    assert "cannot execute /no/such: No such file or directory" in part.news[0]["message"], part.news
    assert part.end()["cause"] == "launch_failed"
    part = start(parts, ["true"], work_dir="/no/folder")
    part.hear("ended")
    assert "cannot enter the working folder /no/folder" in part.end()["message"]


def living(mark: str) -> list[str]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found


def test_all_of_it_ends_when_its_client_is_gone(parts: list[Part]) -> None:
    script = 'trap "" TERM; (setsid sleep 617.25 &); echo ready; while :; do sleep 0.1; done'
    part = start(parts, ["sh", "-c", script])
    part.hear("ready")
    part.client.close()
    end = part.end()
    assert (end["cause"], end["signal"]) == ("cancelled", 9) and not living("617.25")


@pytest.mark.parametrize("bytes_", [b"c\0\0\0\4what", b"c\0\0\0\2[]", b"i\x7f\xff\xff\xff"])
def test_a_client_that_says_nonsense_is_taken_for_gone(parts: list[Part], bytes_: bytes) -> None:
    part = start(parts, ["sleep", "619.25"])
    part.hear("started")
    part.client.sendall(bytes_)
    assert part.end()["cause"] == "cancelled" and not living("619.25")


def test_what_a_task_leaves_behind_goes_with_it(parts: list[Part]) -> None:
    part = start(parts, ["sh", "-c", "(setsid env -i /bin/sleep 618.25 >/dev/null 2>&1 &); exit 3"])
    part.hear("ended")
    assert part.end()["exit_code"] == 3 and not living("618.25")


def test_a_client_that_does_not_read_stops_the_tasks_and_costs_little(parts: list[Part]) -> None:
    part = start(parts, ["cat", "/dev/zero"])
    part.hear("started")

    def resident() -> int:
        lines = Path(f"/proc/{part.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))

    before, deadline, quiet = resident(), time.monotonic() + 10, 0
    cat = part.news[0]["pid"]
    last = ""
    while quiet < 20 and time.monotonic() < deadline:
        now = Path(f"/proc/{cat}/io").read_text()
        quiet, last = (quiet + 1, last) if now == last else (0, now)
        time.sleep(0.01)
    assert quiet == 20 and resident() - before < 8


def test_a_signal_right_after_the_fork_is_not_swallowed_by_our_handlers(tmp_path: Path) -> None:
    """The stepper handles SIGTERM; its child must die of one that comes before it has put that away."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o700)
    recipe = {"uid": os.getuid(), "gid": os.getgid(), "cpus": [], "work_dir": str(tmp_path), "append": False}
    task = {"argv": [str(script)], "environment": {}, "stdin": "", "stdout": os.devnull, "stderr": ""}
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        for _ in range(20):
            starting = begin(recipe, task, [])
            os.kill(starting.pid, signal.SIGTERM)
            _, status = os.waitpid(starting.pid, 0)
            starting.channel.close()
            assert os.WTERMSIG(status) == signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
