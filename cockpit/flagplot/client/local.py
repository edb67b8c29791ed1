"""A cluster on this machine: starts, finds and stops the processes of a data directory.

Every process is known by pid *and* start time, so that nobody else's is ever signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flagplot_wire.errors import Refused

START_S = 60.0
STOP_S = 20.0
POLL_S = 0.05


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Processes:
    """The processes of a data directory, as `run/NAME.json` notes them."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.folder = data_dir / "run"

    def start(self, name: str, argv: list[str], environment: dict[str, str] | None = None) -> int:
        """Start a process in a session of its own, its output in `logs/NAME.log`; returns its pid."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        log = self.data_dir / "logs" / f"{name}.log"
        log.parent.mkdir(mode=0o700, exist_ok=True)
        with open(log, "ab") as out:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        note = {"pid": child.pid, "started": start_ticks(child.pid), "argv": argv}
        fresh = self.folder / f"{name}.new"
        fresh.write_text(json.dumps(note))
        fresh.rename(self.folder / f"{name}.json")
        return child.pid

    def pid(self, name: str) -> int | None:
        """The pid of a process that still runs."""
        try:
            note = json.loads((self.folder / f"{name}.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        pid = int(note["pid"])
        return pid if note["started"] is not None and start_ticks(pid) == note["started"] else None

    def names(self, prefix: str = "") -> list[str]:
        """The processes noted, running or not."""
        if not self.folder.is_dir():
            return []
        return sorted(path.stem for path in self.folder.glob(f"{prefix}*.json"))

    def stop(self, names: list[str]) -> list[str]:
        """SIGTERM, then after a while SIGKILL; returns the names that had to be killed."""
        for name in names:
            if (pid := self.pid(name)) is not None:
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while any(self.pid(name) is not None for name in names) and time.monotonic() < deadline:
            _reap()
            time.sleep(POLL_S)
        killed = []
        for name in names:
            if (pid := self.pid(name)) is not None:
                os.kill(pid, signal.SIGKILL)
                killed.append(name)
            (self.folder / f"{name}.json").unlink(missing_ok=True)
        return killed

    def log_end(self, name: str, lines: int = 5) -> str:
        """The last lines of a process's log."""
        try:
            text = (self.data_dir / "logs" / f"{name}.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.strip().splitlines()[-lines:])


def _reap() -> None:
    """Children that ended while `up` still runs would stay zombies."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def ready_file(data_dir: Path) -> dict[str, Any] | None:
    """What the controller wrote when it was ready; None while it is not."""
    try:
        found: dict[str, Any] = json.loads((data_dir / "controller.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return found if start_ticks(int(found["pid"])) is not None else None


def start_controller(data_dir: Path, port: int | None, simulated: bool, tell: Callable[[str], None]) -> bool:
    """Start the controller unless it runs; returns True when it was started. Raises `Refused` when it fails."""
    processes = Processes(data_dir)
    if ready_file(data_dir) is not None:
        return False
    tell("starting the controller")
    if not (data_dir / "cache" / "numba").exists():
        tell("its scheduler is compiled first, this once, for about half a minute; jobs start after that")
    argv = [sys.executable, "-m", "flagplotd.main", "run", "--data-dir", str(data_dir)]
    if port is not None:
        argv += ["--port", str(port)]
    if simulated:
        argv.append("--simulated")
    pid = processes.start("controller", argv)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        ready = ready_file(data_dir)
        if ready is not None and ready["pid"] == pid:
            return True
        _reap()
        if start_ticks(pid) is None:
            raise Refused("unavailable", f"the controller did not start:\n{processes.log_end('controller')}")
        time.sleep(POLL_S)
    raise Refused("unavailable", f"the controller is not ready after {START_S:.0f} s", f"see {data_dir}/logs")


def start_agent(data_dir: Path, node: str, simulate: Path | None = None) -> bool:
    """Start a node's agent unless it runs; returns True when it was started."""
    processes = Processes(data_dir)
    name = f"agent-{node}"
    if processes.pid(name) is not None:
        return False
    keys = data_dir / "keys"
    argv = [
        sys.executable, "-m", "flagplot_agent.main", "run", "--dir", str(data_dir / "agents" / node), "--node", node,
        "--controller-file", str(data_dir / "controller.json"), "--key", str(keys / "agent_ed25519"),
        "--host-key", str(keys / "host_ed25519.pub"),
    ]  # fmt: skip
    if simulate is not None:
        argv += ["--simulate", str(simulate)]
    processes.start(name, argv)
    return True
