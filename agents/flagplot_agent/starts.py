"""Starts of attempts: written down, made durable together, then handed to the keeper."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from flagplot_agent.launch.journal import key_of, name_of
from flagplot_agent.starting import write_down
from flagplot_agent.vram import held_to
from flagplot_wire import agentlink as al
from flagplot_wire.alloc import GpuPart
from flagplot_wire.errors import Refused

if TYPE_CHECKING:
    from flagplot_agent.loop import Agent

log = logging.getLogger("flagplot-agent")


class Starts:
    """All starts of one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._written: dict[str, tuple[al.Launch, dict[str, Any]]] = {}
        """Written down, and not yet durable."""

    async def take(self, launch: al.Launch) -> None:
        """Write an attempt down, for `settle` to have it started; a known one is answered with what became of it."""
        agent, key = self._agent, (launch.number, launch.attempt)
        decision = agent.state.decide(launch.epoch, *key)
        if decision == "answer_started":
            await agent.tell_started(key)
        elif decision == "answer_ended":
            await agent.send(al.Ended(agent.state.ended[key]))
        elif decision == "refuse":
            log.warning("refused start %s.%s of epoch %s", *key, launch.epoch)
        else:
            try:
                start = write_down(
                    launch, agent.config, agent.sampler.inventory, agent.journal, agent.hooks, self._hold
                )
            except Refused as refused:
                await self._fail(launch, refused.message)
            except OSError as wrong:
                await self._fail(launch, f"cannot write the attempt down: {wrong.strerror}")
            except Exception as wrong:
                # Whatever it is, the controller must hear that nothing started.
                log.exception("cannot prepare %s.%s", *key)
                await self._fail(launch, f"the agent cannot prepare the job: {type(wrong).__name__}: {wrong}")
            else:
                agent.attempts.begin(key, start)
                self._written[name_of(key)] = (launch, start)

    async def settle(self) -> None:
        """Make durable what was written down, and go on with it. Many starts share the disk's commits."""
        if not self._written:
            return
        agent, written, self._written = self._agent, self._written, {}
        wrong = agent.journal.sync_starts(list(written))
        for name, (launch, start) in written.items():
            if name in wrong:
                self._forget(name)
                await self._fail(launch, f"cannot write the attempt down: {wrong[name].strerror}")
                continue
            try:
                agent.staging.start(name, start)
            except Exception as failed:
                log.exception("cannot start %s", name)
                await self._fail(launch, f"the agent cannot start the job: {type(failed).__name__}: {failed}")

    def _forget(self, name: str) -> None:
        """An agent that comes after must not find it, and start it."""
        try:
            self._agent.journal.remove(name)
        except OSError as wrong:
            log.error("job %s: cannot take back what was written down: %s", name, wrong)

    def order(self, name: str, recipe: dict[str, Any]) -> None:
        """Have the keeper start an attempt, and do to it what was ordered meanwhile."""
        if recipe.get("mps"):
            self._agent.background.start(self._with_mps(name, recipe))
        else:
            self._order_now(name, recipe)

    async def _with_mps(self, name: str, recipe: dict[str, Any]) -> None:
        """Start an attempt once its MPS runs, or without it."""
        try:
            environment = await self._agent.mps.begin(name, recipe)
        except OSError as wrong:
            log.error("job %s: MPS cannot be used: %s", name, wrong)
            recipe["mps"]["failed"] = True
            recipe["vram"] = recipe["vram_otherwise"]
            recipe["notes"].append(f"MPS cannot be used: {wrong}")
            environment = {}
        for task in recipe["tasks"]:
            task["environment"] |= environment
        self._order_now(name, recipe)

    def _order_now(self, name: str, recipe: dict[str, Any]) -> None:
        self._agent.keeper.order(do="start", name=name, recipe=recipe)
        for order in self._agent.attempts.standing(key_of(name)):
            self._agent.keeper.order(**order)

    def _hold(self, parts: tuple[GpuPart, ...]) -> dict[str, Any]:
        """What a recipe carries of how an attempt is held to its GPU memory."""
        agent = self._agent
        return held_to(parts, agent.sampler.inventory.gpus, agent.has, agent.policies.guard)

    async def _fail(self, launch: al.Launch, message: str) -> None:
        """A start that came to nothing, where nothing could be written down."""
        end = al.AttemptEnd(launch.number, launch.attempt, "launch_failed", time=int(time.time()), message=message)
        self._agent.state.end(end)
        await self._agent.send(al.Ended(end))
