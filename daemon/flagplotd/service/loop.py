"""The controller's one loop: stimuli in, one transaction for all that wait, then replies, pushes and orders."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplot_wire.events import Body, Event, NodeChanged, NodeRemoved, PartitionChanged, PartitionRemoved
from flagplot_wire.job import Payload, Request
from flagplot_wire.replies import Acted, Failure, StepStarted, Submitted
from flagplotd.core.orders import Order, Outcome, Replan
from flagplotd.core.state import Settings, State
from flagplotd.core.step import step
from flagplotd.core.stimuli import Stimulus, SubmitJob
from flagplotd.service import clock
from flagplotd.service.subscribers import Hub
from flagplotd.store import Batch, Store, is_full

log = logging.getLogger("flagplotd.loop")

R = TypeVar("R", bound=Struct)
MAX_BATCH = 1_000
"""Stimuli in one transaction."""
RETRY_S = 2.0
"""Between attempts to write while the disk is full."""


class Waiting(Struct):
    """A stimulus with what its sender waits for; `done` gets the outcome after the commit."""

    stimulus: Stimulus
    done: asyncio.Future[Outcome] | None = None
    payload: Payload | None = None


class Loop:
    """Owns the state. `problem` is a sentence while the store cannot be written (nothing is accepted then)."""

    def __init__(self, store: Store, settings: Settings, now: Callable[[], int] = clock.now) -> None:
        self.store = store
        self.settings = settings
        self.now = now
        self.state: State = store.load(settings)
        self.hub = Hub()
        self.problem = ""
        self.carry_out: Callable[[Order], None] = lambda _order: None
        self.replan: Callable[[], None] = lambda: None
        self.durable: Callable[[list[Event]], None] = lambda _events: None
        self.watch: Callable[[Body], None] = lambda _body: None
        """Told of every event that was applied to the state, before it is durable."""
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self._settled = asyncio.Event()
        self._settled.set()
        self.never: dict[tuple[str, Request], str] = {}
        """What the scheduler said of requests that no node can hold; dropped when a node or partition changes."""
        self._repairing: asyncio.Task[None] | None = None

    def post(self, stimulus: Stimulus) -> None:
        """Hand in a stimulus nobody waits for."""
        self._queue.put_nowait(Waiting(stimulus))

    async def ask(self, stimulus: Stimulus, payload: Payload | None = None) -> Outcome:
        """Hand in a stimulus and wait until what it did is durable."""
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Waiting(stimulus, done, payload))
        return await done

    async def answer(self, stimulus: Stimulus, kind: type[R]) -> R:
        """As `ask`, for people: the reply of this kind, where a failure is raised as `Refused`."""
        reply = _succeeded(await self.ask(stimulus))
        assert isinstance(reply, kind)
        return reply

    async def reply(self, stimulus: Stimulus, payload: Payload | None = None) -> Submitted | Acted:
        """As `answer`, for what is answered by either; no reply is `Acted`."""
        reply = _succeeded(await self.ask(stimulus, payload))
        assert not isinstance(reply, StepStarted)
        return Acted() if reply is None else reply

    async def settled(self) -> None:
        """Wait until all of the state is durable; it stays so until the caller awaits something else."""
        while not self._settled.is_set():
            await self._settled.wait()

    async def run(self) -> None:
        """Work for ever; cancel to stop (what is not durable then was not acknowledged)."""
        try:
            while True:
                batch = [await self._queue.get()]
                while len(batch) < MAX_BATCH and not self._queue.empty():
                    batch.append(self._queue.get_nowait())
                self._settled.clear()
                try:
                    await self._work(batch)
                finally:
                    self._settled.set()
                await asyncio.sleep(0)
        finally:
            if self._repairing is not None:
                self._repairing.cancel()
            while not self._queue.empty():
                _fail(self._queue.get_nowait(), Failure("unavailable", "the controller is stopping"))

    async def _work(self, waiting: list[Waiting]) -> None:
        while True:
            before = self.state.seq
            outcomes, batch, culprit = self._step_all(waiting)
            if culprit is None:
                break
            self.state = await self._reload(before)
            waiting = [one for one in waiting if one is not culprit]
        if not batch.empty:
            try:
                await self.store.commit(batch)
            except (sqlite3.Error, OSError) as wrong:
                await self._not_written(waiting, wrong, before)
                return
            except asyncio.CancelledError:
                for one in waiting:
                    _fail(one, Failure("unavailable", "the controller is stopping"))
                raise
            self.hub.publish(batch.events)
            self.durable(batch.events)
        self._tell(waiting, outcomes)

    def _step_all(self, waiting: list[Waiting]) -> tuple[list[Outcome], Batch, Waiting | None]:
        """Step every stimulus; on a defect the third value names the stimulus that met it."""
        outcomes: list[Outcome] = []
        batch = Batch()
        now = self.now()
        for one in waiting:
            if self.problem and isinstance(one.stimulus, SubmitJob):
                outcomes.append(
                    Outcome(reply=Failure("disk_full", self.problem, "free some space; running jobs go on"))
                )
                continue
            try:
                outcome = step(self.state, one.stimulus, now)
            except Exception:
                log.exception("a defect: step failed on %s", type(one.stimulus).__name__)
                _fail(one, Failure("internal", "the controller met a defect and did nothing", "see its log"))
                return outcomes, batch, one
            for body in outcome.events:
                self.state.seq += 1
                self.watch(body)
                batch.add(Event(self.state.seq, now, body), self.state.jobs)
                if isinstance(body, (NodeChanged, NodeRemoved, PartitionChanged, PartitionRemoved)):
                    self.never.clear()
            self._keep_submission(batch, one, outcome)
            outcomes.append(outcome)
        return outcomes, batch, None

    def _keep_submission(self, batch: Batch, one: Waiting, outcome: Outcome) -> None:
        reply = outcome.reply
        if isinstance(one.stimulus, SubmitJob) and isinstance(reply, Submitted) and reply.number and not reply.again:
            batch.keys[one.stimulus.who.user, one.stimulus.key] = reply.number
            if one.payload is not None:
                batch.payloads[reply.number] = one.payload

    def _tell(self, waiting: list[Waiting], outcomes: list[Outcome]) -> None:
        for one, outcome in zip(waiting, outcomes, strict=True):
            for order in outcome.orders:
                if isinstance(order, Replan):
                    self.replan()
                else:
                    self.carry_out(order)
            if one.done is not None and not one.done.done():
                one.done.set_result(outcome)

    async def _reload(self, seq: int) -> State:
        """The state as the store has it; what is not journalled starts anew."""
        forecasts = self.state.forecasts
        state = await self.store.write(lambda: self.store.load(self.settings))
        state.forecasts = {number: kept for number, kept in forecasts.items() if number in state.pending}
        if state.seq != seq:
            log.warning("the store is at event %d, %d was expected", state.seq, seq)
        return state

    async def _not_written(self, waiting: list[Waiting], wrong: Exception, seq: int) -> None:
        full = is_full(wrong)
        log.error("could not write the store: %s", wrong)
        failure = Failure(
            "disk_full" if full else "unavailable",
            "the controller's disk is full: nothing new is accepted, running jobs go on"
            if full
            else f"the controller cannot write its store: {wrong}",
            f"free some space where {self.store.path.parent} is",
        )
        self.state = await self._reload(seq)
        self.never.clear()
        if not self.problem:
            self.store.reserve.free()
        self.problem = failure.message
        for one in waiting:
            _fail(one, failure)
        if self._repairing is None or self._repairing.done():
            self._repairing = asyncio.create_task(self._repair())

    async def _repair(self) -> None:
        """Try until the store can be written again and the reserve is back."""
        while self.problem:
            await asyncio.sleep(RETRY_S)
            try:
                await self.store.write(self.store.writer.probe)
                await asyncio.to_thread(self.store.reserve.take)
            except (sqlite3.Error, OSError) as wrong:
                log.info("the store still cannot be written: %s", wrong)
                continue
            self.problem = ""
            log.info("the store can be written again")
            self.replan()


def _fail(one: Waiting, failure: Failure) -> None:
    if one.done is not None and not one.done.done():
        one.done.set_result(Outcome(reply=failure))


def _succeeded(outcome: Outcome) -> Submitted | Acted | StepStarted | None:
    if isinstance(outcome.reply, Failure):
        raise Refused(outcome.reply.code, outcome.reply.message, outcome.reply.hint)
    return outcome.reply
