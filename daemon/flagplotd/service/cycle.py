"""Scheduling cycles: a snapshot on the loop, the plan in one worker thread, its result back as a stimulus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from flagplot_wire.events import Body
from flagplot_wire.job import Forecast, Job
from flagplot_wire.replies import Failure, ForecastsPushed, Progress
from flagplotd.core.fairshare import Remembered
from flagplotd.core.stimuli import Planned
from flagplotd.sched.plan import Policy
from flagplotd.service import clock
from flagplotd.service.loop import Loop
from flagplotd.service.sizes import pieces

if TYPE_CHECKING:
    from flagplotd.sched.between import Between, Left
    from flagplotd.sched.forecasts import Known
    from flagplotd.sched.promises import Memory
    from flagplotd.sched.snapshot import Snapshot
    from flagplotd.sched.standing import Standing

log = logging.getLogger("flagplotd.cycle")

R = TypeVar("R")
DEBOUNCE_S = 0.02
TOLD_AT_ONCE = 5_000
"""Forecasts in one push."""
EVERY_S = 5.0
"""While something is pending a cycle runs this often even if nothing happened."""


class Cycle:
    """Runs cycles when asked, and every `EVERY_S` unless time alone changes nothing. `loaded` is set when the modules are imported, `compiled` when the
    kernels are ready; `last_us` is the last plan's time; `fairshare` remembers the fair tree.

    The standing snapshot is brought up to date here and read in the worker: one turn after the other. Between two cycles a
    node where a job ended is tried at once, on the loop, where that is known to be the same (`sched.between`)."""

    def __init__(self, loop: Loop, policy: Policy) -> None:
        self._loop = loop
        self.policy = policy
        self.fairshare = Remembered()
        self._wanted = asyncio.Event()
        self._worker = ThreadPoolExecutor(1, "scheduler")
        self._memory: Memory | None = None
        self._standing: Standing | None = None
        self._known: Known | None = None
        self._between: Between | None = None
        self._trying = False
        self._turn = asyncio.Lock()
        self._still_at = -1
        loop.watch = self._note
        self.loaded = asyncio.Event()
        self.compiled = asyncio.Event()
        self.last_us = 0

    def want(self) -> None:
        """Run a cycle soon."""
        self._wanted.set()

    def _note(self, body: Body) -> None:
        if self._standing is not None:
            self._standing.note(body)
        if self._between is not None:
            self._between.note(body)
            self._try_soon()

    def _try_soon(self) -> None:
        if self._between is not None and self._between.ready and not self._trying:
            self._trying = True
            asyncio.get_running_loop().call_soon(self._try)

    def _try(self) -> None:
        """Start what fits where something became free; a cycle under way is waited for."""
        self._trying = False
        if self._between is None or self._turn.locked():
            return
        starts = self._between.starts(self._loop.state, self._loop.now())
        if starts:
            self._loop.post(Planned(starts, whole=False))
        self._try_soon()

    async def ask(self, question: Callable[[Snapshot], Forecast], extra: Job | None = None) -> Forecast:
        """The answer that a snapshot of now gives, worked out in the scheduler's thread; `extra` is a job that was not
        submitted."""
        async with self._turn:
            made = self._snapshot(extra)
            answer = await self._in_worker(lambda: question(made()))
        self._try_soon()
        return answer

    async def _in_worker(self, work: Callable[[], R]) -> R:
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
            from flagplotd.sched import explain, standing, warmup  # noqa: F401

            loop.call_soon_threadsafe(self.loaded.set)
            warmup.compile_all(progress)

        await self._in_worker(work)
        self._progress(Progress("compiling the scheduler", 1, 1))
        log.info("the scheduler is ready after %.1f s", clock.ticks() - started)
        self.compiled.set()
        self.want()

    def _progress(self, progress: Progress) -> None:
        self._loop.hub.progress = None if progress.done >= progress.total > 0 else progress
        self._loop.hub.push(progress)

    def _snapshot(self, extra: Job | None = None) -> Callable[[], Snapshot]:
        """The state of now for a plan, with what priorities and preemptions follow from; to be called in the worker, in
        the same turn."""
        from flagplotd.sched.forecasts import Known
        from flagplotd.sched.preempt import preemption
        from flagplotd.sched.priority import inputs
        from flagplotd.sched.promises import Memory
        from flagplotd.sched.standing import Standing

        state, now = self._loop.state, self._loop.now()
        memory = self._memory = self._memory or Memory()
        if self._standing is None:
            self._standing, self._known = Standing(self.policy.default_time_s), Known()
        standing, known = self._standing, self._known
        standing.sync(state, now, extra)
        assert known is not None
        known.table = standing.table
        given, preempting = inputs(state, self.policy, self.fairshare), preemption(state, now)

        def made() -> Snapshot:
            snapshot = standing.snapshot()
            snapshot.inputs, snapshot.preemption, snapshot.memory = given, preempting, memory
            return snapshot

        return made

    def _watch_since(self) -> Between:
        from flagplotd.sched.between import Between

        assert self._standing is not None
        self._between = Between(self._standing, self._loop.state)
        return self._between

    async def _once(self) -> None:
        state = self._loop.state
        if not (state.pending or state.suspended):
            return
        async with self._turn:
            # What the last cycle left is given up before as much is made again.
            self._between = None
            made, seq, started = self._snapshot(), state.seq, clock.ticks()
            between = self._watch_since()
            planned, left, still = await self._in_worker(lambda: _plan(made, self.policy, self._known))
            self.last_us = int((clock.ticks() - started) * 1e6)
            between.follow(left)
            outcome = await self._loop.ask(planned)
            if isinstance(outcome.reply, Failure) and self._standing is not None:
                # What the plan says was not taken note of.
                self._standing.table.forget()
        self._try_soon()
        self._still_at = seq if still and not state.suspended else -1
        if self._loop.hub.subscriptions:
            there = self._loop.state.forecasts
            for some in pieces([one for one in planned.forecasts if there.get(one.number) is one], TOLD_AT_ONCE):
                self._loop.hub.push(ForecastsPushed(tuple(some)))


def _plan(made: Callable[[], Snapshot], policy: Policy, known: Known | None) -> tuple[Planned, Left | None, bool]:
    """The plan, what it left, and whether time alone changes nothing."""
    from flagplotd.sched.between import left_by
    from flagplotd.sched.plan import run
    from flagplotd.sched.preempt import concluded, guarded

    snapshot = made()
    still, policy = snapshot.still, guarded(snapshot, policy)
    done = run(snapshot, policy)
    return concluded(done, policy, known), left_by(done, policy), still
