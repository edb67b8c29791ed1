"""The keeper: a small process that parents the jobs, enforces their limits and journals their ends.

It outlives the agent, which finds it again by its socket. Standard library only and a single thread, so that
forking is safe.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import selectors
import signal
import socket
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from flagplot_agent.launch.adoption import look_at, taken_over
from flagplot_agent.launch.agentline import AgentLine
from flagplot_agent.launch.attempt import Running
from flagplot_agent.launch.cgroup import Groups
from flagplot_agent.launch.ends import Ends
from flagplot_agent.launch.journal import Journal
from flagplot_agent.launch.overrun import end_overrun
from flagplot_agent.launch.processes import (
    adopt_orphans,
    boot_id,
    exit_of,
    keep_forks_cheap,
    read_process,
    signal_named,
)
from flagplot_agent.launch.spawn import LaunchError, Starting, begin

WATCH_S = 0.5
"""How often processes that another keeper started are looked at."""
START_S = 60.0
"""For a task to reach its program: longer means that a file system hangs."""
UNKILLABLE_S = 60.0
"""For processes to die of SIGKILL; then the attempt ends without them, and says so."""
EXIT_WORDS = {
    126: "a command could not be executed (exit code 126): its output tells which",
    127: "a command was not found (exit code 127): its output tells which",
}
"""What shells say by an exit code."""
IDLE_S = 30.0
"""Without agent and without jobs for so long a keeper ends; an agent starts another."""


class Keeper:
    """All attempts of one node."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder / "jobs")
        label = "".join(letter for letter in folder.name if letter.isalnum() or letter in "-_")
        self.groups = Groups(f"{label}-{zlib.crc32(os.fsencode(folder)):08x}")
        self.boot = boot_id()
        self.running: dict[str, Running] = {}
        self.unforked: list[Running] = []
        self.selector = selectors.DefaultSelector()
        self.line = AgentLine(self.selector)
        self.ends = Ends(self.journal, self.line)
        self.leaving = False
        self.idle_since = time.monotonic()
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.wake = wake_read
        self.selector.register(wake_read, selectors.EVENT_READ)
        # What an earlier keeper left is taken up before anyone can ask about it.
        self.adopt()
        self.line.listen(folder / "keeper.sock")

    def run(self) -> None:
        """Work until told to leave and nothing runs any more."""
        while self.running or self.ends.unwritten or not (self.leaving or self.idle()):
            try:
                self.turn()
            except Exception:  # noqa: BLE001 - one attempt's trouble must not take every job with it
                sys.excepthook(*sys.exc_info())
                time.sleep(0.1)
        self.ends.try_again(math.inf)
        self.groups.close()

    def idle(self) -> bool:
        """True when nobody has needed us for a while."""
        if self.line.clients or self.running:
            self.idle_since = time.monotonic()
        return time.monotonic() - self.idle_since > IDLE_S

    def turn(self) -> None:
        """Wait for something to happen and deal with it."""
        news = []
        for key, _ in self.selector.select(self.pause()):
            if key.fileobj == self.wake:
                os.read(self.wake, 4096)
            elif key.data is not None:
                news.append(key.data)
            elif isinstance(key.fileobj, socket.socket):
                self.obey(self.line.hear(key.fileobj))
        self.fork()
        self.reap()
        for one, starting in news:
            self.advance(one, starting)
        for one in self.running.values():
            look_at(one)
        self.enforce()
        self.settle()
        self.ends.try_again(time.monotonic())

    def pause(self) -> float:
        """Seconds until something is due."""
        now = time.monotonic()
        due = [IDLE_S]
        if (again := self.ends.due()) is not None:
            due.append(again - now)
        for one in self.running.values():
            if one.kill_at is not None:
                due.append(one.kill_at - now)
            elif one.deadline_s and not one.cause:
                due.append(one.began + one.deadline_s - now)
            if one.settle_at is not None:
                due.append(one.settle_at - now)
            if one.starting:
                due.append(one.start_by - now)
            if one.adopted:
                due.append(WATCH_S)
        return max(min(due), 0.0)

    def obey(self, lines: list[bytes]) -> None:
        """Carry out what the agent sent."""
        for line in lines:
            try:
                self.command(json.loads(line))
            except Exception:  # noqa: BLE001 - one bad command must not take every job with it
                sys.excepthook(*sys.exc_info())

    def command(self, command: dict[str, Any]) -> None:
        """Carry out one command."""
        if command["do"] != "start":
            # Nothing overtakes a start.
            self.fork()
        name = command.get("name", "")
        one = self.running.get(name)
        match command["do"]:
            case "start" if one is None and name not in self.ends.unwritten and self.journal.end_of(name) is None:
                self.start(name, command["recipe"])
            case "stop" if one is not None:
                self.stop(one, "stopped", command["kill_wait_s"], command["reason"])
                one.message = one.message or command.get("message", "")
            case "signal" if one is not None:
                self.send(one, command["signal"])
            case "extend" if one is not None:
                one.deadline_s = command["deadline_s"]
                self.journal.note_limit(name, one.deadline_s)
            case "say" if one is not None:
                one.say(command["text"])
            case "overrun" if one is not None:
                end_overrun(one, command["pid"], command["message"])
            case "leave":
                self.leaving = True
            case "hello":
                self.leaving = False
                self.line.tell({"event": "hello", "pid": os.getpid()})

    def start(self, name: str, recipe: dict[str, Any]) -> None:
        """Make ready for `fork`, which comes when all that the agent sent has been dealt with: after each fork
        whatever this process touches is copied, so that those of many starts follow one another closely."""
        mems = recipe.get("mems", [])
        group = self.groups.create(
            name,
            recipe["memory_mib"],
            recipe["cpus"],
            recipe["denied"],
            mems,
            recipe.get("pids_max", 0),
            recipe.get("dmem"),
        )
        held = recipe.get("vram_otherwise" if "dmem" in recipe and "dmem" not in group.enforced else "vram")
        if held:
            group.enforced.append(held)
        if "cpuset" not in group.enforced and recipe["cpus"]:
            group.enforced.append("affinity")
            if mems:
                group.enforced.append("mempolicy")
        one = self.running[name] = Running(name, recipe, group)
        one.start_by += START_S
        try:
            # Before the first fork: a keeper after us must know that something may have been started.
            self.journal.note_begun(name, one.begun(self.boot, {}))
        except OSError as wrong:
            self.fail(one, f"cannot start a process: {wrong.strerror}")
            return
        if recipe["tasks"]:
            self.unforked.append(one)
        else:
            self.confirm(one)

    def fork(self) -> None:
        """Fork every task that is to start; `advance` hears what becomes of them."""
        ready, self.unforked = self.unforked, []
        forked: list[tuple[Running, int, Starting]] = []
        failed: list[tuple[Running, str]] = []
        for one in ready:
            joins = one.group.joins()
            try:
                for task in one.recipe["tasks"]:
                    forked.append((one, task["rank"], begin(one.recipe, task, joins)))
            except Exception as wrong:  # noqa: BLE001 - one attempt's trouble must not take the others with it
                failed.append((one, getattr(wrong, "strerror", None) or repr(wrong)))
        for one, rank, starting in forked:
            one.pids[starting.pid] = rank
            one.roots.add(starting.pid)
            one.starting.add(starting)
            self.selector.register(starting.channel, selectors.EVENT_READ, (one, starting))
        for one, why in failed:
            self.fail(one, f"cannot start a process: {why}")

    def advance(self, one: Running, starting: Starting) -> None:
        """A task has news of its start."""
        if not starting.advance():
            return
        self.selector.unregister(starting.channel)
        one.starting.discard(starting)
        try:
            stderr = starting.result()
        except LaunchError as wrong:
            if not one.cause:
                # Otherwise it was ended before it began.
                self.fail(one, str(wrong))
            return
        if one.stderr >= 0:
            os.close(stderr)
        else:
            one.stderr = stderr
        if not one.starting and one.cause != "launch_failed":
            if one.pids:
                self.confirm(one)
            else:
                # It has ended already, which tells enough.
                one.untold = True

    def confirm(self, one: Running) -> None:
        """Every task runs its program."""
        pids = {str(pid): process.started for pid in one.pids if (process := read_process(pid))}
        begun = one.begun(self.boot, pids)
        try:
            self.journal.note_begun(one.name, begun)
        except OSError as wrong:
            print(f"job {one.name}: a keeper after this one will not find it: {wrong}", file=sys.stderr)
        self.line.tell({"event": "started", "name": one.name, **begun, "started": one.started})

    def fail(self, one: Running, message: str) -> None:
        """A task could not be started: none goes on. The first failure is the one that is told."""
        if one.cause != "launch_failed":
            one.cause, one.message = "launch_failed", message
        one.kill(signal.SIGKILL)

    def send(self, one: Running, name: str) -> None:
        """Send a signal by name to the whole attempt."""
        number = signal_named(name)
        if number is not None:
            one.kill(number)

    def stop(self, one: Running, cause: str, kill_wait_s: int, reason: str) -> None:
        """End an attempt: SIGTERM, after `kill_wait_s` SIGKILL; a second call can only shorten the wait."""
        now = time.monotonic()
        if not one.cause:
            one.cause = cause
            at = time.strftime("%Y-%m-%dT%H:%M:%S")
            one.say(f"CANCELLED AT {at} DUE TO TIME LIMIT" if cause == "timeout" else f"{reason} AT {at}")
            if kill_wait_s > 0:
                one.kill(signal.SIGTERM)
                one.kill(signal.SIGCONT)
                one.asked = True
        wanted = now + kill_wait_s
        one.kill_at = wanted if one.kill_at is None else min(one.kill_at, wanted)

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
            for other in self.running.values():
                if other.settle_at is not None:
                    # An orphan may have been the last of what an attempt left behind.
                    other.settle_at = 0.0

    def task_ended(self, one: Running, pid: int, status: int, usage: Any) -> None:
        """Note the end of one task; a failing task ends its fellows, which would wait for it for ever."""
        del one.pids[pid]
        code, number = exit_of(status)
        one.cpu_ms += int((usage.ru_utime + usage.ru_stime) * 1000)
        one.memory_peak_mib = max(one.memory_peak_mib, usage.ru_maxrss // 1024)
        if one.exit_code is None or (one.exit_code == 0 and code != 0 and one.cause != "stopped"):
            one.exit_code, one.signal = code, number
        if code != 0 and one.pids and one.kill_at is None:
            one.kill(signal.SIGTERM)
            one.kill_at = time.monotonic() + one.recipe["kill_wait_s"]

    def enforce(self) -> None:
        """Time limits, the kill after the grace period, starts that hang."""
        now = time.monotonic()
        for one in list(self.running.values()):
            if one.kill_at is not None and now >= one.kill_at:
                if one.asked and one.pids:
                    one.add("it did not end by SIGTERM and was killed")
                    one.asked = False
                one.kill(signal.SIGKILL)
                one.kill_at = now + 1.0
            elif one.deadline_s and not one.cause and now >= one.began + one.deadline_s:
                one.add(f"its time limit of {one.deadline_s} s was over")
                self.stop(one, "timeout", one.recipe["kill_wait_s"], "")
            if one.starting and now >= one.start_by:
                one.start_by = now + START_S
                self.fail(one, f"it did not start within {START_S:.0f} s: a file system may hang")

    def settle(self) -> None:
        """Attempts whose tasks have ended end when all that they left behind is gone."""
        now = time.monotonic()
        for one in [one for one in self.running.values() if one.over]:
            if one.settle_at is not None and now < one.settle_at:
                continue
            left = one.members()
            if not left:
                self.finish(one)
                continue
            if one.settle_at is None:
                one.settle_by = now + UNKILLABLE_S
            if now >= one.settle_by:
                pids = ", ".join(map(str, sorted(left)[:10]))
                one.add(f"could not kill its processes {pids}")
                self.finish(one)
                continue
            one.kill(signal.SIGKILL)
            one.settle_at = now + one.settle_wait
            one.settle_wait = min(one.settle_wait * 2, 0.5)
        self.ends.write()

    def finish(self, one: Running) -> None:
        """Nothing of it runs any more: write the end down, tell the agent."""
        killed = one.oom_kills = one.group.oom_kills()
        if killed and not one.cause:
            limit = one.recipe["memory_mib"]
            one.cause = "oom"
            one.message = f"out of memory: its limit of {limit} MiB was reached, the kernel killed {killed} process(es)"
            one.say(f"OUT OF MEMORY: ITS LIMIT OF {limit} MiB WAS REACHED")
        elif killed and one.cause == "stopped":
            one.add(f"its limit of {one.recipe['memory_mib']} MiB was reached, the kernel killed {killed} process(es)")
        if one.overrun and not one.cause:
            one.cause, one.message = "oom", one.overrun
        if one.group.pids_refused():
            one.add(f"its limit of {one.recipe['pids_max']} processes and threads was reached")
        if not one.cause and one.exit_code in EXIT_WORDS:
            one.add(EXIT_WORDS[one.exit_code])
        if one.stderr >= 0:
            os.close(one.stderr)
        del self.running[one.name]
        begun = {**one.begun(self.boot, {}), "started": one.started} if one.untold else None
        self.ends.add(one.name, one.end(), begun, one.group)

    def adopt(self) -> None:
        """Take over what a keeper before us began."""
        for one, told in taken_over(self.journal, self.groups, self.boot):
            self.running[one.name] = one
            if one.adopted and not told:
                self.confirm(one)


def main(folder: str) -> None:
    """Become the keeper of an agent's folder; a second one for the same folder ends at once."""
    lock = os.open(Path(folder, "keeper.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    adopt_orphans()
    keeper = Keeper(Path(folder))
    keep_forks_cheap()
    keeper.run()


if __name__ == "__main__":
    main(sys.argv[1])
