"""The steps of this node: started in their job's groups, reported until acknowledged, ended with their job."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from flagplot_agent.launch.account import account_of
from flagplot_agent.launch.containers import contain_step
from flagplot_agent.steps.recipe import step_recipe
from flagplot_agent.steps.site import add_site
from flagplot_agent.steps.streams import NodeStream
from flagplot_agent.steps.tap import Tap
from flagplot_wire import agentlink as al
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.steps import StepEnd
from flagplot_wire.streams import ConnectStep

if TYPE_CHECKING:
    from flagplot_agent.loop import Agent

log = logging.getLogger("flagplot-agent")
BEGUN_S = 20.0
"""For the job to have started here, when its step comes first."""
LAST_S = 5.0
"""For steps to end when their job has."""
StepKey = tuple[int, int, int]
"""(job, attempt, step)."""


class Running:
    """One part that runs."""

    def __init__(self, process: asyncio.subprocess.Process, recipe: dict[str, Any]) -> None:
        self.process = process
        self.recipe = recipe
        self.ended = asyncio.Event()
        self.tap: Tap | None = None


class Steps:
    """All parts of steps on this node."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._running: dict[StepKey, Running] = {}
        self._lingering: dict[StepKey, Running] = {}
        """Steps that have ended, whose parents are still there."""
        self._unacknowledged: dict[StepKey, StepEnd] = {}

    async def serve(self, stream: NodeStream, call: ConnectStep) -> None:
        """Start a part, carry its stream, report its end."""
        key = (call.number, call.attempt, call.step)
        if call.launch is None:
            running = self._running.get(key)
            if running is None or running.tap is None:
                raise Refused("not_running", f"step {call.number}.{call.step} does not run here")
            await running.tap.show(stream, call.stdin)
            return
        theirs = None
        try:
            if call.spec is None or key in self._running:
                raise Refused("bad_request", "this step runs already")
            joins = await self._joins(call)
            recipe = self._recipe(call, joins)
            await self._agent.hooks.before_step(f"{call.number}.{call.attempt}", recipe)
            ours, theirs = socket.socketpair()
            running = await self._start(recipe, theirs)
        except (Refused, OSError) as wrong:
            text = wrong.message if isinstance(wrong, Refused) else f"cannot start the step: {wrong.strerror}"
            await self._report(key, {"cause": "launch_failed", "exit_code": 126, "message": text})
            raise Refused("launch_failed", text.removeprefix("user: ")) from wrong
        finally:
            if theirs is not None:
                theirs.close()
        self._running[key] = running
        watching = asyncio.create_task(self._watch(key, running))
        try:
            reader, writer = await asyncio.open_connection(sock=ours)
            running.tap = Tap(reader, writer)
            await stream.join(running.tap, running.tap)
        finally:
            await watching

    async def _joins(self, call: ConnectStep) -> list[str]:
        """The job's control groups; waits until it has started here. A prolog has a time limit of its own."""
        key, deadline = (call.number, call.attempt), time.monotonic() + BEGUN_S
        while (begun := self._agent.attempts.begun(key)) is None:
            name = f"{call.number}.{call.attempt}"
            if self._agent.hooks.preparing(name) or self._agent.staging.busy(name):
                deadline = time.monotonic() + BEGUN_S
            if time.monotonic() > deadline:
                raise Refused("unavailable", f"job {call.number} has not started on this node")
            await asyncio.sleep(0.02)
        return list(begun.get("joins", ()))

    def _recipe(self, call: ConnectStep, joins: list[str]) -> dict[str, Any]:
        assert call.launch is not None
        used = Counter(
            (kind, index)
            for (number, attempt, _), one in self._running.items()
            if (number, attempt) == (call.number, call.attempt)
            for task in one.recipe["tasks"]
            for kind, indices in (("cpu", task["cpus"] if task["bound"] else []), ("gpu", task["gpus"]))
            for index in indices
        )
        inventory, config = self._agent.sampler.inventory, self._agent.config
        recipe = step_recipe(
            call, inventory, account_of(call.launch), sorted(os.sched_getaffinity(0)), used, joins,
            lambda environment: self._add(environment, call), int(time.time()),
        )  # fmt: skip
        scripts = self._agent.attempts.scripts((call.number, call.attempt))
        contain_step(recipe, call, inventory, config.settings.containers.engines, scripts)
        return recipe

    def _add(self, environment: dict[str, str], call: ConnectStep) -> None:
        add_site(environment, self._agent.config)
        environment |= self._agent.mps.environment(self._agent.attempts.start_of((call.number, call.attempt))["recipe"])

    async def _start(self, recipe: dict[str, Any], client: socket.socket) -> Running:
        plan = os.memfd_create("step", os.MFD_CLOEXEC)
        try:
            with open(plan, "w", encoding="utf-8", closefd=False) as file:
                json.dump(recipe, file)
            os.lseek(plan, 0, os.SEEK_SET)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "flagplot_agent.steps.stepper", str(plan),
                stdin=client.fileno(), stdout=asyncio.subprocess.PIPE, pass_fds=(plan,), start_new_session=True, cwd="/",
            )  # fmt: skip
        finally:
            os.close(plan)
        return Running(process, recipe)

    async def _watch(self, key: StepKey, running: Running) -> None:
        assert running.process.stdout is not None
        line = await running.process.stdout.read()
        end = json.loads(line) if line else {"cause": "lost", "exit_code": 126, "message": "its parent was killed"}
        self._lingering[key] = running
        del self._running[key]
        self._agent.background.start(self._linger(key, running))
        await self._report(key, end)
        running.ended.set()

    async def _linger(self, key: StepKey, running: Running) -> None:
        """Until its parent is gone too, which stays with what a step may leave behind."""
        await running.process.wait()
        self._lingering.pop(key, None)

    async def _report(self, key: StepKey, end: dict[str, Any]) -> None:
        number, attempt, step = key
        end.setdefault("time", int(time.time()))
        found = StepEnd(JobNumber(number), attempt, step, self._agent.config.node, **end)
        self._unacknowledged[key] = found
        await self._agent.send(al.StepEnded(found))

    async def job_ended(self, number: int, attempt: int) -> None:
        """End what is left of a job's steps; returns when their ends are reported."""
        left = [one for key, one in self._running.items() if key[:2] == (number, attempt)]
        behind = [one for key, one in self._lingering.items() if key[:2] == (number, attempt)]
        for one in (*left, *behind):
            self._signal(one, signal.SIGTERM)
        if left:
            await asyncio.wait([asyncio.create_task(one.ended.wait()) for one in left], timeout=LAST_S)

    def stop(self, order: al.StopStep) -> None:
        """End a step, or send its processes a signal."""
        one = self._running.get((order.number, order.attempt, order.step))
        if one is not None:
            self._signal(one, signal.SIGTERM if not order.kill_wait_s else signal.SIGUSR1)

    def _signal(self, one: Running, number: signal.Signals) -> None:
        try:
            one.process.send_signal(number)
        except ProcessLookupError:
            log.info("a step ended meanwhile")

    def acknowledged(self, ends: tuple[StepKey, ...]) -> None:
        """The controller has these ends."""
        for key in ends:
            self._unacknowledged.pop(key, None)

    def overdue(self) -> list[StepEnd]:
        """Ends that the controller may not have."""
        return list(self._unacknowledged.values())
