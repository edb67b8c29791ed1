"""The keeper: a small process that parents the jobs, enforces their limits and journals their ends.

It outlives the agent, which finds it again by its socket. Standard library only and a single thread, so that
forking is safe. Messages are JSON, one object a line.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from flagplot_agent.launch.journal import Journal
from flagplot_agent.launch.processes import of_attempt, read_process
from flagplot_agent.launch.spawn import LaunchError, spawn

PR_SET_CHILD_SUBREAPER = 36
WATCH_S = 0.5
"""How often processes that another keeper started are looked at."""


class Running:
    """An attempt that has not ended."""

    def __init__(self, name: str, recipe: dict[str, Any]) -> None:
        self.name = name
        self.recipe = recipe
        self.pids: dict[int, int] = {}
        """pid → rank of tasks not yet reaped."""
        self.roots: set[int] = set()
        self.adopted: dict[int, int] = {}
        """pid → start time of tasks that another keeper started."""
        self.stderr = -1
        self.started = int(time.time())
        self.began = time.monotonic()
        self.deadline_s: int = recipe["deadline_s"]
        self.kill_at: float | None = None
        self.cause = ""
        self.exit_code: int | None = None
        self.signal = 0
        self.message = ""
        self.cpu_ms = 0
        self.memory_peak_mib = 0

    @property
    def marker(self) -> bytes:
        """What identifies the attempt's processes by their environment."""
        return f"FLAGPLOT_JOB_ID={self.recipe['number']}".encode()


class Keeper:
    """All attempts of one node."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder / "jobs")
        self.running: dict[str, Running] = {}
        self.clients: dict[socket.socket, bytes] = {}
        self.selector = selectors.DefaultSelector()
        self.leaving = False
        self.server = socket.socket(socket.AF_UNIX)
        path = folder / "keeper.sock"
        path.unlink(missing_ok=True)
        self.server.bind(str(path))
        path.chmod(0o600)
        self.server.listen()
        self.server.setblocking(False)
        self.selector.register(self.server, selectors.EVENT_READ)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.wake = wake_read
        self.selector.register(wake_read, selectors.EVENT_READ)

    def run(self) -> None:
        """Work until told to leave and nothing runs any more."""
        self.adopt()
        while not (self.leaving and not self.running):
            for key, _ in self.selector.select(self.pause()):
                if key.fileobj is self.server:
                    client, _ = self.server.accept()
                    client.setblocking(False)
                    self.clients[client] = b""
                    self.selector.register(client, selectors.EVENT_READ)
                elif key.fileobj == self.wake:
                    os.read(self.wake, 4096)
                elif isinstance(key.fileobj, socket.socket):
                    self.hear(key.fileobj)
            self.reap()
            self.watch_adopted()
            self.enforce()

    def pause(self) -> float:
        """Seconds until something is due."""
        now = time.monotonic()
        due = [60.0]
        for one in self.running.values():
            if one.kill_at is not None:
                due.append(one.kill_at - now)
            elif one.deadline_s and not one.cause:
                due.append(one.began + one.deadline_s - now)
            if one.adopted:
                due.append(WATCH_S)
        return max(min(due), 0.0)

    def hear(self, client: socket.socket) -> None:
        """Read commands of the agent."""
        try:
            data = client.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(client)
            del self.clients[client]
            client.close()
            return
        *lines, self.clients[client] = (self.clients[client] + data).split(b"\n")
        for line in lines:
            self.command(json.loads(line))

    def command(self, command: dict[str, Any]) -> None:
        """Carry out one command."""
        name = command.get("name", "")
        one = self.running.get(name)
        match command["do"]:
            case "start" if one is None and self.journal.end_of(name) is None:
                self.start(name, command["recipe"])
            case "stop" if one is not None:
                self.stop(one, "stopped", command["kill_wait_s"], command["reason"])
            case "signal" if one is not None:
                self.send(one, command["signal"])
            case "extend" if one is not None:
                one.deadline_s = command["deadline_s"]
            case "leave":
                self.leaving = True
            case "stay":
                self.leaving = False

    def tell(self, event: dict[str, Any]) -> None:
        """Tell every agent connected (there is one, or none)."""
        line = json.dumps(event).encode() + b"\n"
        for client in list(self.clients):
            try:
                client.sendall(line)
            except OSError:
                # It reads the journal when it comes back.
                self.selector.unregister(client)
                del self.clients[client]
                client.close()

    def start(self, name: str, recipe: dict[str, Any]) -> None:
        """Start every task; when one cannot be started none goes on."""
        one = self.running[name] = Running(name, recipe)
        try:
            for task in recipe["tasks"]:
                pid, stderr = spawn(recipe, task)
                one.pids[pid] = task["rank"]
                one.roots.add(pid)
                if one.stderr >= 0:
                    os.close(stderr)
                else:
                    one.stderr = stderr
        except (LaunchError, OSError) as wrong:
            one.message, one.cause = str(wrong), "launch_failed"
            self.kill(one, signal.SIGKILL)
            if not one.pids:
                self.finish(one)
            return
        started = {str(pid): process.started for pid in one.pids if (process := read_process(pid))}
        self.journal.note_pids(name, started, one.started)
        self.tell({"event": "started", "name": name, "time": one.started})

    def send(self, one: Running, name: str) -> None:
        """Send a signal by name to the whole attempt."""
        number = getattr(signal, f"SIG{name}", None)
        if isinstance(number, signal.Signals):
            self.kill(one, number)

    def kill(self, one: Running, number: signal.Signals) -> None:
        """Send a signal to every process of an attempt."""
        for pid in of_attempt(one.roots, one.marker, os.getpid()):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def stop(self, one: Running, cause: str, kill_wait_s: int, reason: str) -> None:
        """End an attempt: SIGTERM, after `kill_wait_s` SIGKILL; a second call can only shorten the wait."""
        now = time.monotonic()
        if not one.cause:
            one.cause = cause
            self.say(one, reason)
            if kill_wait_s > 0:
                self.kill(one, signal.SIGTERM)
                self.kill(one, signal.SIGCONT)
        wanted = now + kill_wait_s
        one.kill_at = wanted if one.kill_at is None else min(one.kill_at, wanted)
        if not one.pids and not one.adopted:
            self.finish(one)

    def say(self, one: Running, reason: str) -> None:
        """Tell the job's owner in its standard error why it ends."""
        if one.stderr < 0 or not reason:
            return
        at = time.strftime("%Y-%m-%dT%H:%M:%S")
        line = f"flagplot: *** JOB {one.recipe['number']} ON {one.recipe['node']} {reason} AT {at} ***\n"
        try:
            os.write(one.stderr, line.encode())
        except OSError as wrong:
            print(f"job {one.name}: cannot write to its standard error: {wrong}", file=sys.stderr)

    def reap(self) -> None:
        """Take the ends of children; orphans that came to us are reaped too."""
        by_pid = {pid: one for one in self.running.values() for pid in one.pids}
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            one = by_pid.get(pid)
            if one is not None and pid in one.pids:
                self.task_ended(one, pid, status, usage)
        for one in list(self.running.values()):
            if not one.pids and not one.adopted and one.roots:
                self.finish(one)

    def task_ended(self, one: Running, pid: int, status: int, usage: Any) -> None:
        """Note the end of one task; a failing task ends its fellows, which would wait for it for ever."""
        del one.pids[pid]
        code, number = os.waitstatus_to_exitcode(status), 0
        if code < 0:
            code, number = 128 - code, -code
        one.cpu_ms += int((usage.ru_utime + usage.ru_stime) * 1000)
        one.memory_peak_mib = max(one.memory_peak_mib, usage.ru_maxrss // 1024)
        if one.exit_code is None or (one.exit_code == 0 and code != 0 and one.cause != "stopped"):
            one.exit_code, one.signal = code, number
        if code != 0 and one.pids and one.kill_at is None:
            self.kill(one, signal.SIGTERM)
            one.kill_at = time.monotonic() + one.recipe["kill_wait_s"]

    def enforce(self) -> None:
        """Time limits, and the kill after the grace period."""
        now = time.monotonic()
        for one in list(self.running.values()):
            if one.kill_at is not None and now >= one.kill_at:
                self.kill(one, signal.SIGKILL)
                one.kill_at = now + 1.0
            elif one.deadline_s and not one.cause and now >= one.began + one.deadline_s:
                self.stop(one, "timeout", one.recipe["kill_wait_s"], "CANCELLED DUE TO TIME LIMIT")

    def finish(self, one: Running) -> None:
        """All tasks have ended: end what they left behind, write the end down, tell the agent."""
        self.kill(one, signal.SIGKILL)
        if one.stderr >= 0:
            os.close(one.stderr)
        self.running.pop(one.name, None)
        self.journal.end(
            one.name,
            {
                "cause": one.cause or "exited",
                "exit_code": one.exit_code or 0,
                "signal": one.signal,
                "time": int(time.time()),
                "started": one.started,
                "message": one.message,
                "cpu_ms": one.cpu_ms,
                "memory_peak_mib": one.memory_peak_mib,
            },
        )
        self.tell({"event": "ended", "name": one.name})

    def adopt(self) -> None:
        """Take over what a keeper before us started: watch what lives, journal the rest as lost."""
        for name in self.journal.names():
            if self.journal.end_of(name) is not None:
                continue
            recipe = self.journal.start_of(name)["recipe"]
            noted = self.journal.pids_of(name)
            one = Running(name, recipe)
            one.started = noted["started"] or one.started
            one.began = time.monotonic() - max(time.time() - one.started, 0)
            for text, ticks in noted["pids"].items():
                process = read_process(int(text))
                if process is not None and process.started == ticks and process.state not in "ZX":
                    one.adopted[int(text)] = ticks
                    one.roots.add(int(text))
            self.running[name] = one
            if not one.adopted and recipe["tasks"]:
                one.cause, one.message = "lost", "its keeper ended and the process with it"
                self.finish(one)

    def watch_adopted(self) -> None:
        """Adopted processes are not our children: look whether they still live."""
        for one in list(self.running.values()):
            if not one.adopted:
                continue
            for pid, ticks in list(one.adopted.items()):
                process = read_process(pid)
                if process is None or process.started != ticks or process.state in "ZX":
                    del one.adopted[pid]
            if not one.adopted:
                one.cause = one.cause or "lost"
                one.message = one.message or "its keeper was killed: the exit code is unknown"
                self.finish(one)


def main(folder: str) -> None:
    """Become the keeper of an agent's folder."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    Keeper(Path(folder)).run()


if __name__ == "__main__":
    main(sys.argv[1])
