"""Scheduling cycles: a snapshot on the loop, the plan in one worker thread, its result back as a stimulus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, Job, Why
from flagplot_wire.replies import Progress
from flagplotd.core.fairshare import Remembered
from flagplotd.core.stimuli import Planned
from flagplotd.sched.plan import Policy
from flagplotd.service import clock
from flagplotd.service.loop import Loop
from flagplotd.service.subscribers import difference

log = logging.getLogger("flagplotd.cycle")

DEBOUNCE_S = 0.02
EVERY_S = 5.0
"""While something is pending a cycle runs this often even if nothing happened."""
STILL = frozenset(
    {
        Why.HELD_USER,
        Why.HELD_ADMIN,
        Why.DEPENDENCY,
        Why.DEPENDENCY_NEVER,
        Why.ARRAY_LIMIT,
        Why.PARTITION_DOWN,
    }
)
"""Reasons that only an event takes away. Jobs that wait for these alone need no cycle until something happens."""


class Cycle:
    """Runs cycles when asked, and every `EVERY_S` unless time alone changes nothing. `loaded` is set when the modules are imported, `compiled` when the
    kernels are ready; `last_us` is the last plan's time; `fairshare` remembers the fair tree."""

    def __init__(self, loop: Loop, policy: Policy) -> None:
        self._loop = loop
        self.policy = policy
        self.fairshare = Remembered()
        self._wanted = asyncio.Event()
        self._worker = ThreadPoolExecutor(1, "scheduler")
        self._memory: Any = None
        self._told: dict[JobNumber, Forecast] = {}
        self._still_at = -1
        self.loaded = asyncio.Event()
        self.compiled = asyncio.Event()
        self.last_us = 0

    def want(self) -> None:
        """Run a cycle soon."""
        self._wanted.set()

    async def in_worker(self, work: Callable[[], Any]) -> Any:
        """Run something in the scheduler's thread (after what it is at)."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def close(self) -> None:
        """Drop the worker; a plan under way ends by itself."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def run(self) -> None:
        """Compile or load the kernels, then cycle for ever."""
        await self._compile()
        while True:
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._wanted.wait()
            except TimeoutError:
                state = self._loop.state
                if not (state.pending or state.suspended) or state.seq == self._still_at:
                    continue
            await asyncio.sleep(max(DEBOUNCE_S, min(2 * self.last_us / 1e6, 2.0)))
            self._wanted.clear()
            try:
                await self._once()
            except Exception:
                log.exception("a scheduling cycle failed; the next one is in %s s", EVERY_S)
                await asyncio.sleep(EVERY_S)

    async def _compile(self) -> None:
        loop = asyncio.get_running_loop()
        started = clock.ticks()

        def progress(what: str, done: int, total: int) -> None:
            loop.call_soon_threadsafe(self._progress, Progress(what, done, total))

        def work() -> None:
            from flagplotd.sched import explain, snapshot, warmup  # noqa: F401

            loop.call_soon_threadsafe(self.loaded.set)
            warmup.compile_all(progress)

        await self.in_worker(work)
        self._progress(Progress("compiling the scheduler", 1, 1))
        log.info("the scheduler is ready after %.1f s", clock.ticks() - started)
        self.compiled.set()
        self.want()

    def _progress(self, progress: Progress) -> None:
        self._loop.hub.progress = None if progress.done >= progress.total > 0 else progress
        self._loop.hub.push(progress)

    def snapshot(self, extra: Job | None = None) -> Any:
        """The state of now for a plan, with what priorities and preemptions follow from; `extra` is a job that was not submitted."""
        from flagplotd.sched.preempt import preemption
        from flagplotd.sched.priority import inputs
        from flagplotd.sched.promises import Memory
        from flagplotd.sched.snapshot import take

        state, self._memory = self._loop.state, self._memory or Memory()
        snapshot = take(state, self._loop.now(), self.policy.default_time_s, extra=extra)
        snapshot.inputs = inputs(state, self.policy, self.fairshare)
        snapshot.preemption = preemption(state, snapshot.now)
        snapshot.memory = self._memory
        return snapshot

    async def _once(self) -> None:
        state = self._loop.state
        if not (state.pending or state.suspended or self._told):
            return
        snapshot, seq = self.snapshot(), state.seq
        started = clock.ticks()
        planned: Planned = await self.in_worker(lambda: _plan(snapshot, self.policy))
        self.last_us = int((clock.ticks() - started) * 1e6)
        await self._loop.ask(planned)
        self._still_at = seq if still(snapshot.waiting, snapshot.idle_forecasts) and not state.suspended else -1
        self._tell()

    def _tell(self) -> None:
        forecasts = dict(self._loop.state.forecasts)
        if self._loop.hub.subscriptions:
            for changes in difference(self._told, forecasts):
                self._loop.hub.push(changes)
        self._told = forecasts


def still(waiting: Sequence[object], idle: Iterable[Forecast]) -> bool:
    """True when no job may start, nor will by the time alone."""
    return not waiting and all(reason.why in STILL for one in idle for reason in one.reasons)


def _plan(snapshot: Any, policy: Policy) -> Planned:
    from flagplotd.sched.preempt import planned

    return planned(snapshot, policy)
