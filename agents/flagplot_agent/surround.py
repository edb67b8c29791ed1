"""An attempt between the agent and its keeper: what is done before its start and after its end."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from flagplot_agent.hooks import HookFailed
from flagplot_agent.launch.hookwords import end_environment, hook_environment
from flagplot_agent.launch.recipe import Account, environment_of
from flagplot_agent.state import Key
from flagplot_wire.agentlink import Launch
from flagplot_wire.node import Inventory

if TYPE_CHECKING:
    from flagplot_agent.loop import Agent

log = logging.getLogger("flagplot-agent")


class Surround:
    """Runs hooks and plugins at the right moments, once while the agent lives."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._preparing: set[Key] = set()
        self._ready: dict[Key, dict[str, Any]] = {}
        """Recipes of attempts that were prepared, for a keeper that did not hear of the start."""
        self._concluding: set[Key] = set()

    async def prepare(self, key: Key) -> None:
        """Prologs, plugins, then the start; where one fails the attempt ends without it."""
        if key in self._ready:
            self._agent.order_start(key, self._ready[key])
            return
        if key in self._preparing:
            return
        self._preparing.add(key)
        agent, name = self._agent, f"{key[0]}.{key[1]}"
        start = agent.written(key)
        end: dict[str, Any] | None = None
        try:
            await agent.around.prolog(name, start.get("hooks", {}))
            if not agent.stop_stands(key):
                await agent.around.plugins("before_launch", told_of(start))
                recipe = await self._recipe(start)
        except HookFailed as wrong:
            drain = str(wrong) if str(wrong).startswith("prolog ") else ""
            end = {"cause": "launch_failed", "message": str(wrong), "drain": drain}
        finally:
            self._preparing.discard(key)
        if agent.stop_stands(key):
            end = {"cause": "stopped"}
        if end is None:
            self._ready[key] = recipe
            agent.order_start(key, recipe)
            return
        now = int(time.time())
        whole = {"exit_code": 0, "signal": 0, "time": now, "started": now, "message": "", **end}
        while not await self._write(name, whole):
            await asyncio.sleep(1)
        await agent.ended(name)

    async def _write(self, name: str, end: dict[str, Any]) -> bool:
        try:
            self._agent.journal.end(name, end)
        except OSError as wrong:
            log.error("job %s: cannot write its end down, trying again: %s", name, wrong)
            return False
        return True

    async def _recipe(self, start: dict[str, Any]) -> dict[str, Any]:
        tasks = [
            {
                **task,
                "environment": await self._agent.around.plugins("environment", told_of(start), task["environment"]),
            }
            for task in start["recipe"]["tasks"]
        ]
        return {**start["recipe"], "tasks": tasks}

    def cancel(self, key: Key) -> None:
        """The attempt is to end: do not wait for its prolog."""
        if key in self._preparing:
            self._agent.around.cancel(f"{key[0]}.{key[1]}")

    def owes(self, name: str) -> bool:
        """True when an attempt that has ended still lacks its epilogs."""
        return self._agent.around.after and self._agent.journal.epilog_of(name) is None

    async def conclude(self, key: Key, end: dict[str, Any]) -> dict[str, Any] | None:
        """Epilogs, plugins; returns what they add to the end, None while another call is at it."""
        agent, name = self._agent, f"{key[0]}.{key[1]}"
        self._ready.pop(key, None)
        if not self.owes(name):
            return agent.journal.epilog_of(name) or {}
        if key in self._concluding:
            return None
        self._concluding.add(key)
        outcome: dict[str, Any] = {}
        start = agent.written(key)
        try:
            await agent.around.epilog(name, {**start.get("hooks", {}), **end_environment(end)})
        except HookFailed as wrong:
            outcome = {"drain": str(wrong)}
        try:
            await agent.around.plugins("after_end", told_of(start), dict(end))
        except HookFailed as wrong:
            log.error("job %s: %s", name, wrong)
        finally:
            self._concluding.discard(key)
        try:
            agent.journal.note_epilog(name, outcome)
        except OSError as wrong:
            log.error("job %s: an agent after this one will run its epilogs again: %s", name, wrong)
        return outcome


def told_of(start: dict[str, Any]) -> dict[str, Any]:
    """What plugins are told of an attempt."""
    recipe = start["recipe"]
    kept = ("number", "attempt", "node", "user", "uid", "gid", "work_dir")
    return {**{name: recipe[name] for name in kept}, "gpus": [gpu["index"] for gpu in start["gpus"]]}


def hooks_environment(launch: Launch, inventory: Inventory, account: Account) -> dict[str, str]:
    """The environment of this attempt's prologs and epilogs."""
    part = launch.allocation.nodes[launch.node_index]
    job = environment_of(launch, inventory, account, part, part.first_rank, 0, int(time.time()))
    return hook_environment(job, launch.spec.work_dir)
