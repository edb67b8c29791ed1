"""The watch: looks at the node every `interval_s` and tells the controller what is wrong."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable

from flagplot_agent.config import Config
from flagplot_agent.health.checks import Checks
from flagplot_agent.health.verdict import Verdict, skew_of, skew_wrong
from flagplot_agent.policies import Policies
from flagplot_wire import agentlink as al

log = logging.getLogger("flagplot-agent")
ANSWER_S = 10.0
"""For the controller to tell its time; one of an older version never does."""


class Watch:
    """One connection after another, `run` is the part of each."""

    def __init__(self, config: Config, policies: Policies) -> None:
        self._policies = policies
        self._settings = config.settings.health
        self._node = config.node
        self._checks = Checks(config.settings.health, config.folder)
        self._verdict = Verdict()
        self._calls = itertools.count(1)
        self._asked: dict[int, asyncio.Future[int]] = {}

    async def run(self, send: Callable[[al.FromAgent], Awaitable[None]]) -> None:
        """Look and tell until cancelled: at once, then what changed, and again and again while something is wrong."""
        first = True
        while self._settings.interval_s:
            changed = self._verdict.update(await self._found(send))
            if changed:
                log.warning("health: %s", "; ".join(self._verdict.reasons) or "nothing is wrong any more")
            if first or changed or self._verdict.reasons:
                await send(al.HealthReport(self._verdict.reasons, self._policies.resume))
            first = False
            await asyncio.sleep(self._settings.interval_s)

    def told(self, answer: al.TellTime) -> None:
        """The controller told its time."""
        waiting = self._asked.get(answer.call)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.time)

    async def _found(self, send: Callable[[al.FromAgent], Awaitable[None]]) -> dict[str, str]:
        try:
            found = await self._checks.look(self._node)
        except OSError as wrong:
            log.warning("health: cannot look: %s", wrong)
            found = {"checks": f"health checks: cannot look: {wrong.strerror}"}
        found["clock"] = skew_wrong(await self._skew(send), self._settings.max_skew_s)
        return found

    async def _skew(self, send: Callable[[al.FromAgent], Awaitable[None]]) -> int | None:
        if not self._settings.max_skew_s:
            return None
        call = next(self._calls)
        answer = self._asked[call] = asyncio.get_running_loop().create_future()
        asked = int(time.time())
        try:
            await send(al.AskTime(call))
            async with asyncio.timeout(ANSWER_S):
                theirs = await answer
        except TimeoutError:
            return None
        finally:
            del self._asked[call]
        return skew_of(asked, int(time.time()), theirs)
