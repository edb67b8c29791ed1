"""The keeper: a small process that parents the jobs, enforces their limits and journals their ends.

It outlives the agent, which finds it again by its socket. Standard library only and a single thread, so that
forking is safe.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flagplot_agent.launch.agentline import AgentLine
from flagplot_agent.launch.attempt import Running, living
from flagplot_agent.launch.cgroup import Group, Groups
from flagplot_agent.launch.journal import Journal
from flagplot_agent.launch.overrun import end_overrun
from flagplot_agent.launch.processes import adopt_orphans, boot_id, exit_of, read_process, signal_named
from flagplot_agent.launch.spawn import LaunchError, Starting, begin

WATCH_S = 0.5
"""How often processes that another keeper started are looked at."""
START_S = 60.0
"""For a task to reach its program: longer means that a file system hangs."""
UNKILLABLE_S = 60.0
"""For processes to die of SIGKILL; then the attempt ends without them, and says so."""
RETRY_S = 1.0
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
        self.unwritten: dict[str, dict[str, Any]] = {}
        """Ends that the disk did not take."""
        self.left_groups: list[Group] = []
        self.retry_at = 0.0
        self.selector = selectors.DefaultSelector()
        self.line = AgentLine(self.selector)
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
        while self.running or self.unwritten or not (self.leaving or self.idle()):
            try:
                self.turn()
            except Exception:  # noqa: BLE001 - one attempt's trouble must not take every job with it
                traceback.print_exc()
                time.sleep(0.1)
        self.retry_at = 0.0
        self.try_again()
        self.groups.close()

    def idle(self) -> bool:
        """True when nobody has needed us for a while."""
        if self.line.clients or self.running:
            self.idle_since = time.monotonic()
        return time.monotonic() - self.idle_since > IDLE_S

    def turn(self) -> None:
        """Wait for something to happen and deal with it."""
        for key, _ in self.selector.select(self.pause()):
            if key.fileobj == self.wake:
                os.read(self.wake, 4096)
            elif key.data is not None:
                self.advance(*key.data)
            elif isinstance(key.fileobj, socket.socket):
                self.obey(self.line.hear(key.fileobj))
        self.reap()
        self.watch_adopted()
        self.enforce()
        self.settle()
        self.try_again()

    def pause(self) -> float:
        """Seconds until something is due."""
        now = time.monotonic()
        due = [IDLE_S]
        if self.unwritten or self.left_groups:
            due.append(self.retry_at - now)
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
                traceback.print_exc()

    def command(self, command: dict[str, Any]) -> None:
        """Carry out one command."""
        name = command.get("name", "")
        one = self.running.get(name)
        match command["do"]:
            case "start" if one is None and name not in self.unwritten and self.journal.end_of(name) is None:
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
        """Fork every task; `advance` hears what becomes of them."""
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
            for task in recipe["tasks"]:
                starting = begin(recipe, task, group.joins())
                one.pids[starting.pid] = task["rank"]
                one.roots.add(starting.pid)
                one.starting.add(starting)
                self.selector.register(starting.channel, selectors.EVENT_READ, (one, starting))
        except OSError as wrong:
            self.fail(one, f"cannot start a process: {wrong.strerror}")
        if not recipe["tasks"]:
            self.confirm(one)

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
            self.confirm(one)

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
        before = set(self.unwritten)
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
        self.write_ends([name for name in self.unwritten if name not in before])

    def finish(self, one: Running) -> None:
        """Nothing of it runs any more: write the end down, tell the agent."""
        killed = one.group.oom_kills()
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
        if not one.group.remove():
            self.left_groups.append(one.group)
        del self.running[one.name]
        self.unwritten[one.name] = one.end()

    def write_ends(self, names: list[str]) -> None:
        """Make ends durable, now or when the disk has room again, and tell the agent then.

        All are written before the first is synced, so that they share the disk's commit."""
        written = self._each(names, lambda name: self.journal.note_end(name, self.unwritten[name]))
        for name in self._each(written, self.journal.sync):
            del self.unwritten[name]
            self.line.tell({"event": "ended", "name": name})

    def _each(self, names: list[str], work: Callable[[str], None]) -> list[str]:
        """Do something for the end of each; returns those whose disk took it."""
        done = []
        for name in names:
            try:
                work(name)
            except OSError as wrong:
                print(f"job {name}: cannot write its end down, trying again: {wrong}", file=sys.stderr)
                self.retry_at = time.monotonic() + RETRY_S
            else:
                done.append(name)
        return done

    def try_again(self) -> None:
        """Ends that could not be written, groups that could not be removed."""
        now = time.monotonic()
        if not (self.unwritten or self.left_groups) or now < self.retry_at:
            return
        self.retry_at = now + RETRY_S
        self.write_ends(list(self.unwritten))
        self.left_groups = [group for group in self.left_groups if not group.remove()]

    def adopt(self) -> None:
        """Take over what a keeper before us began: watch what lives, journal the rest as lost.

        An attempt that no keeper had begun is left alone: the agent has it started.
        """
        for name in self.journal.names():
            begun = self.journal.begun_of(name)
            if begun is None or self.journal.end_of(name) is not None:
                continue
            recipe = self.journal.start_of(name)["recipe"]
            one = self.running[name] = Running(name, recipe, self.groups.find(name) or Group())
            one.group.enforced, one.group.notes = begun["enforced"], begun["notes"]
            limit = self.journal.limit_of(name)
            one.deadline_s = one.deadline_s if limit is None else limit
            one.started = begun["started"] or one.started
            one.began = time.monotonic() - max(time.time() - one.started, 0)
            if begun["boot"] == self.boot:
                one.adopted = living(one, begun["pids"])
                one.roots |= set(one.adopted)
            if one.adopted and not begun["started"]:
                self.confirm(one)
            if not one.adopted and recipe["tasks"]:
                rebooted = begun["boot"] != self.boot
                one.cause = "lost"
                one.message = "the node was restarted" if rebooted else "its keeper ended and the process with it"

    def watch_adopted(self) -> None:
        """Adopted processes are not our children: look whether they still live."""
        for one in list(self.running.values()):
            if not one.adopted:
                continue
            for pid, ticks in list(one.adopted.items()):
                process = read_process(pid)
                if process is None or process.started != ticks or process.state in "ZX":
                    del one.adopted[pid]
            if not one.adopted and not one.cause:
                one.cause = "lost"
                one.message = "its keeper was killed: the exit code is unknown"


def main(folder: str) -> None:
    """Become the keeper of an agent's folder; a second one for the same folder ends at once."""
    lock = os.open(Path(folder, "keeper.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    adopt_orphans()
    keeper = Keeper(Path(folder))
    # What is here now stays: the collector of a forked child need not touch, and so copy, its pages.
    gc.freeze()
    keeper.run()


if __name__ == "__main__":
    main(sys.argv[1])
