"""A real cluster on loopback, driven by the real command line."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.kernels import one_cache

from flagplot_wire import PROTOCOL_VERSION, replies, requests
from flagplot_wire.codec import Decoder, encode
from flagplot_wire.errors import Refused

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent


def wait_until(condition: Callable[[], Any], seconds: float = 30, what: str = "the condition") -> Any:
    """Poll `condition` until it is true and return its value; fails naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {seconds} s")
        time.sleep(0.05)


class Cluster:
    """A cluster in a data directory of its own; `cli` runs `flagplot` against it."""

    def __init__(self, folder: Path) -> None:
        self.data_dir = folder / "data"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        home = folder / "home"
        home.mkdir()
        self.environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "PYTHON": sys.executable,
            "FLAGPLOT_DATA_DIR": str(self.data_dir),
            "NUMBA_CACHE_DIR": one_cache(),
        }
        if "PYTHONPATH" in os.environ:
            self.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]

    def run(self, *args: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run one command whatever its exit code."""
        return subprocess.run(
            [str(BIN / "flagplot"), *args],
            env=self.environment,
            cwd=self.work,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )

    def cli(self, *args: str, seconds: float = 120) -> str:
        """Run one command that must succeed; returns its standard output."""
        done = self.run(*args, seconds=seconds)
        if done.returncode != 0:
            pytest.fail(f"flagplot {' '.join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}\n{self.logs()}")
        return done.stdout.strip()

    def json(self, *args: str) -> Any:
        """The parsed JSON output of one command that must succeed."""
        return json.loads(self.cli(*args, "--json"))

    def submit(self, *args: str) -> int:
        """Submit a job; returns its number."""
        number: int = json.loads(self.cli("submit", "--json", *args))["job_id"]
        return number

    def job(self, number: int | str) -> dict[str, Any]:
        """One job as `flagplot show job --json` gives it."""
        shown = self.json("show", "job", str(number))
        return shown[0] if isinstance(shown, list) else shown

    def state(self, number: int | str) -> str:
        """A job's state word."""
        return str(self.job(number)["state"])

    def wait_state(self, number: int | str, *states: str, seconds: float = 60) -> str:
        """Wait until a job is in one of `states`; asks on a connection of its own, which costs less than commands."""
        with Asking(self.data_dir / "controller.sock") as asking:

            def reached() -> str:
                state = asking.state(number)
                return state if state in states else ""

            return str(wait_until(reached, seconds, f"job {number} in {'/'.join(states)}"))

    def logs(self) -> str:
        """The ends of the logs, for failures."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted((self.data_dir / "logs").glob("*.log"))
        )


class Asking:
    """A connection over a controller's socket that asks one thing after another."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self._decoder: Decoder[Any] = Decoder(replies.Reply | replies.Push)
        self._ask(requests.Hello(PROTOCOL_VERSION, "0", "tests"))

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _ask(self, request: requests.AnyRequest) -> Any:
        self._socket.sendall(encode(request, 1))
        while data := self._socket.recv(65_536):
            for call, body in self._decoder.feed(data):
                if call == 1:
                    assert not isinstance(body, (replies.Failure, Refused)), body
                    return body
        raise AssertionError(f"the controller closed the connection instead of answering {request}")

    def state(self, job: int | str) -> str:
        """A job's state word, an array's where it is one."""
        jobs = self._ask(requests.GetJob(str(job))).jobs
        assert jobs, f"there is no job {job}"
        whole = "_" not in str(job)
        return str(next((one for one in jobs if one.is_array == whole), jobs[0]).status.state)


def start_cluster(folder: Path, *options: str) -> Cluster:
    """Bring a cluster up and wait until it answers."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder)
    cluster.cli("up", "--detach", *options, seconds=170)
    return cluster
