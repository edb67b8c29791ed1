"""The parent of one node's part of a step: starts its tasks in the job's groups, carries their input and output.

Standard library only and a single thread, so that forking is safe. Standard input is the socket to the client (by
way of the agent and the controller), standard output takes the end as one line of JSON. When the client is gone
for good the tasks are ended.
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
from collections.abc import Callable
from typing import Any

from flagplot_agent.launch.cgroup import oom_kills_in
from flagplot_agent.launch.processes import adopt_orphans, exit_of, signal_named
from flagplot_agent.launch.spawn import LaunchError, Starting, begin
from flagplot_agent.steps.clientline import HELD, ClientLine
from flagplot_agent.steps.members import Members
from flagplot_agent.steps.task import Task
from flagplot_wire import step_messages

PIECE = 32 * 1024
LEFT_S = 2.0
"""For what the tasks left behind to die."""
QUIET_S = 0.5
"""For the last output where something goes on that may hold it open for ever."""
PR_SET_PDEATHSIG = 1
DRAIN_S = 30.0
"""For the client to take the last output, when all tasks have ended."""


class Stepper:
    """All tasks of the part."""

    def __init__(self, recipe: dict[str, Any], client: socket.socket) -> None:
        self.recipe = recipe
        self.selector = selectors.DefaultSelector()
        self.tasks: dict[int, Task] = {}
        """pid → task, until it has ended and was told."""
        self.everyone: list[Task] = []
        self.starting: dict[Starting, Task] = {}
        self.members = Members(recipe)
        self.started = int(time.time())
        self.kill_at: float | None = None
        self.give_up_at: float | None = None
        self.cause = "exited"
        self.ended_by_order = False
        self.agent = os.getppid()
        self.culled = False
        """The others were ended because one failed: their signals are not what the step ended with."""
        self.oom_kills = self.killed_for_memory()
        self.exit_code = self.signal = self.cpu_ms = self.memory_peak_mib = 0
        self.message = ""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.end(0))
        signal.signal(signal.SIGUSR1, lambda *_: self.end(self.recipe["kill_wait_s"]))
        self.selector.register(wake_read, selectors.EVENT_READ, self.woken)
        self.wake = wake_read
        self.line = ClientLine(client, self.selector, self.room, self.obey, self.listen_again, self.client_gone)

    def run(self) -> None:
        """Start everything, and work until all has ended and is told."""
        try:
            for plan in self.recipe["tasks"]:
                self.start(plan)
        except OSError as wrong:
            self.fail(f"cannot start a process: {wrong.strerror}")
        while self.tasks or self.starting:
            self.turn()
        keeps = bool(self.recipe.get("keep_left")) and self.cause != "launch_failed" and not self.ended_by_order
        if not keeps:
            self.kill_left()
        # The record first: the client may be slow, or gone.
        end = self.result()
        os.write(1, json.dumps(end).encode() + b"\n")
        os.close(1)
        self.give_up_at = time.monotonic() + (QUIET_S if keeps and self.members.find() else DRAIN_S)
        self.drain(self.open_outputs)
        self.line.tell(step_messages.news(event="ended", **end))
        self.give_up_at = time.monotonic() + DRAIN_S
        self.drain(lambda: self.line.waits)
        if keeps:
            self.linger()

    def linger(self) -> None:
        """Stay the parent of what the tasks have left running, until it ends, or the job, or the agent."""
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        for task in self.everyone:
            for descriptor in task.outputs:
                if descriptor in self.selector.get_map():
                    self.selector.unregister(descriptor)
                os.close(descriptor)
            task.outputs.clear()
        self.line.close()
        self.give_up_at = None
        while self.members.find() and os.getppid() == self.agent:
            self.turn()
        self.kill_left()

    def drain(self, wanted: Callable[[], bool]) -> None:
        """Go on while the client is there and takes what is left."""
        assert self.give_up_at is not None
        while self.line.here and wanted() and time.monotonic() < self.give_up_at:
            self.turn()

    def result(self) -> dict[str, Any]:
        """How it ended."""
        return {
            "cause": self.cause,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "started": self.started,
            "time": int(time.time()),
            "cpu_ms": self.cpu_ms,
            "memory_peak_mib": self.memory_peak_mib,
            "message": self.message,
        }

    def open_outputs(self) -> bool:
        """True while a task's output may still hold something."""
        return any(task.outputs for task in self.everyone)

    def start(self, plan: dict[str, Any]) -> None:
        """Fork one task with its pipes, or its terminal."""
        task, recipe = Task(plan["rank"]), self.recipe
        theirs = task.open_terminal(recipe) if recipe["pty"] else task.open_pipes(recipe, plan)
        try:
            starting = begin({**recipe, "cpus": plan["cpus"]}, {**plan, "descriptors": theirs}, recipe["joins"])
        finally:
            for descriptor in {one for one in theirs if one >= 0}:
                os.close(descriptor)
        task.pid = starting.pid
        self.everyone.append(task)
        self.tasks[starting.pid] = task
        self.members.roots.add(starting.pid)
        self.starting[starting] = task
        self.selector.register(starting.channel, selectors.EVENT_READ, lambda: self.advance(starting))

    def advance(self, starting: Starting) -> None:
        """A task has news of its start."""
        if not starting.advance():
            return
        self.selector.unregister(starting.channel)
        task = self.starting.pop(starting)
        try:
            os.close(starting.result())
        except LaunchError as wrong:
            if self.kill_at is None:
                # Otherwise it was ended before it began.
                self.fail(str(wrong))
            return
        for descriptor in task.outputs:
            self.listen(task, descriptor)
        self.line.tell(step_messages.news(event="started", rank=task.rank, pid=task.pid))
        self.feed(task)

    def fail(self, message: str) -> None:
        """A task could not be started: none goes on."""
        if self.cause != "launch_failed":
            self.cause, self.message = "launch_failed", message.removeprefix("user: ")
            self.exit_code = max(self.exit_code, 127 if message.startswith("user: ") else 126)
            self.line.tell(step_messages.news(event="failed", message=self.message))
        self.members.send(signal.SIGKILL)

    def end(self, kill_wait_s: float) -> None:
        """End everything: SIGTERM, later SIGKILL; a second call can only shorten the wait."""
        self.ended_by_order = True
        if self.tasks and self.cause == "exited":
            self.cause = "cancelled"
        if self.kill_at is None and kill_wait_s:
            self.members.send(signal.SIGTERM)
            self.members.send(signal.SIGCONT)
        wanted = time.monotonic() + kill_wait_s
        self.kill_at = wanted if self.kill_at is None else min(self.kill_at, wanted)

    def kill_left(self) -> None:
        """What the tasks left behind goes with them."""
        deadline = time.monotonic() + LEFT_S + self.members.grace_s
        while time.monotonic() < deadline:
            if not self.members.find():
                return
            self.members.send(signal.SIGKILL)
            self.reap()
            time.sleep(0.01)

    def woken(self) -> None:
        """A signal came."""
        os.read(self.wake, 4096)

    def turn(self) -> None:
        """Wait for something and deal with it."""
        pause = 5.0 if self.kill_at is None else max(self.kill_at - time.monotonic(), 0.0)
        for key, _ in self.selector.select(min(pause, 1.0 if self.give_up_at else 5.0)):
            key.data()
        self.reap()
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            background = self.recipe.get("keep_left") and not self.ended_by_order
            (self.members.send_roots if background else self.members.send)(signal.SIGKILL)
            self.kill_at = time.monotonic() + 1.0

    def reap(self) -> None:
        """Take the ends of tasks, and of the orphans that came to us."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            task = self.tasks.pop(pid, None)
            if task is not None:
                self.task_ended(task, status, usage)

    def task_ended(self, task: Task, status: int, usage: Any) -> None:
        """Note the end of a task, once its last output is on its way."""
        for starting in [one for one, of in self.starting.items() if of is task]:
            # It is dead, so its word about its start is all there.
            while starting in self.starting:
                self.advance(starting)
        for descriptor in list(task.outputs):
            # What a pipe holds; a process left behind may write for ever.
            for _ in range(4):
                if descriptor in task.outputs and not self.read(task, descriptor, force=True):
                    break
        if task.stdin >= 0:
            self.close_input(task)
        code, number = exit_of(status)
        self.cpu_ms += int((usage.ru_utime + usage.ru_stime) * 1000)
        self.memory_peak_mib = max(self.memory_peak_mib, usage.ru_maxrss // 1024)
        culled = self.culled and number in (signal.SIGTERM, signal.SIGKILL)
        if self.cause != "launch_failed" and code > self.exit_code and not culled:
            self.exit_code, self.signal = code, number
        if self.cause != "launch_failed":
            memory = bool(code) and not culled and self.killed_for_memory() > self.oom_kills
            self.line.tell(step_messages.news(event="exited", rank=task.rank, code=code, signal=number, memory=memory))
        if code and self.tasks and self.recipe["kill_on_bad_exit"] and self.kill_at is None:
            self.culled = True
            self.members.send(signal.SIGTERM)
            self.kill_at = time.monotonic() + self.recipe["kill_wait_s"]

    def killed_for_memory(self) -> int:
        """How many processes of the job the kernel has killed here because its memory was used up."""
        return sum(oom_kills_in(os.path.dirname(path)) for path in self.recipe["joins"])

    def listen(self, task: Task, descriptor: int) -> None:
        """Hear a task's output, unless the client is behind."""
        if not self.line.full and descriptor in task.outputs and descriptor not in self.selector.get_map():
            self.selector.register(descriptor, selectors.EVENT_READ, lambda: self.read(task, descriptor))

    def read(self, task: Task, descriptor: int, force: bool = False) -> bool:
        """Take some output; True when there may be more. Not beyond what may wait, unless the task has ended."""
        if self.line.full and not force:
            self.selector.unregister(descriptor)
            return False
        try:
            data = os.read(descriptor, PIECE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self.line.tell(step_messages.output(task.outputs[descriptor], task.rank, data))
            return True
        if descriptor in self.selector.get_map():
            self.selector.unregister(descriptor)
        del task.outputs[descriptor]
        os.close(descriptor)
        return False

    def room(self) -> bool:
        """True while the tasks take their input."""
        return all(sum(map(len, task.waiting)) < HELD for task in self.everyone)

    def listen_again(self) -> None:
        """Hear the outputs that were left alone while the client was behind."""
        for task in self.everyone:
            if task not in self.starting.values():
                for descriptor in task.outputs:
                    self.listen(task, descriptor)

    def client_gone(self) -> None:
        """Nobody hears any more: end."""
        # Output is read and dropped, so that a task which saves its work at SIGTERM is not held up.
        self.listen_again()
        if self.tasks and self.recipe.get("keep_left"):
            self.hang_up()
        elif self.tasks:
            self.end(self.recipe["kill_wait_s"])

    def hang_up(self) -> None:
        """As an SSH server does: the tasks get SIGHUP, and what they have put into the background goes on."""
        self.cause = "cancelled" if self.cause == "exited" else self.cause
        self.members.send_roots(signal.SIGHUP)
        self.members.send_roots(signal.SIGCONT)
        self.kill_at = time.monotonic() + self.recipe["kill_wait_s"]

    def obey(self, kind: bytes, content: bytes) -> None:
        """Input, or a command."""
        if kind == b"i":
            for task in self.everyone:
                if task.stdin >= 0:
                    task.give(content)
                    self.feed(task)
        elif kind == b"c":
            command = json.loads(content)
            match command["do"]:
                case "signal":
                    number = signal_named(str(command["signal"]))
                    if number is not None:
                        self.members.send(number)
                case "end" if self.recipe.get("keep_left"):
                    self.hang_up()
                case "end":
                    self.end(float(command.get("kill_wait_s", self.recipe["kill_wait_s"])))
                case "resize" if self.recipe["pty"]:
                    for task in self.everyone:
                        task.resize(int(command["rows"]), int(command["columns"]))

    def feed(self, task: Task) -> None:
        """Write what the task takes of its input."""
        if task.stdin < 0:
            return
        if not task.feed():
            self.close_input(task)
            return
        registered = task.stdin in self.selector.get_map()
        if task.waiting and not registered:
            self.selector.register(task.stdin, selectors.EVENT_WRITE, lambda: self.feed(task))
        elif not task.waiting and registered:
            self.selector.unregister(task.stdin)
            self.line.watch()
        if task.closing and not task.waiting and not self.recipe["pty"]:
            self.close_input(task)

    def close_input(self, task: Task) -> None:
        """The task reads no more, or there is no more to read."""
        if task.stdin in self.selector.get_map():
            self.selector.unregister(task.stdin)
        task.close_input()
        self.line.watch()


def main() -> None:
    """Read the recipe from the descriptor named by the argument, run it."""
    adopt_orphans()
    with open(int(sys.argv[1]), encoding="utf-8") as file:
        recipe = json.load(file)
    client = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    Stepper(recipe, client).run()


if __name__ == "__main__":
    main()
