"""Orders of the core made into frames for agents; the payload of a launch comes from the store."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from flagplot_wire import agentlink
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import count_indices
from flagplot_wire.job import Job, Payload
from flagplotd.core.apply import holds
from flagplotd.core.orders import AckOn, AckStepOn, ExtendOn, LaunchOn, Order, RebootOn, SignalOn, StopOn, StopStepOn
from flagplotd.core.stimuli import AttemptEnded
from flagplotd.service.agents import Agents
from flagplotd.service.loop import Loop
from flagplotd.store import queries

log = logging.getLogger("flagplotd.dispatch")

CACHE_BYTES = 64 * 1024 * 1024


class Payloads:
    """Payloads by job, the last used ones in memory."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._kept: OrderedDict[JobNumber, tuple[Payload, int]] = OrderedDict()
        self._bytes = 0

    async def get(self, number: JobNumber) -> Payload | None:
        """What was submitted with a job (an element's is its array's)."""
        found = self._kept.get(number)
        if found is not None:
            self._kept.move_to_end(number)
            return found[0]
        payload = await self._loop.store.read(lambda path: queries.payload(path, number))
        if payload is not None:
            self.keep(number, payload)
        return payload

    def keep(self, number: JobNumber, payload: Payload) -> None:
        """Remember what is in the store already, as long as there is room."""
        if number in self._kept:
            return
        size = len(payload.script) + sum(len(key) + len(value) for key, value in payload.environment.items())
        self._kept[number] = (payload, size)
        self._bytes += size
        while self._bytes > CACHE_BYTES and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1][1]


def merged(orders: Iterable[Order]) -> Iterator[Order]:
    """The same orders of one node, where acknowledgements that follow one another are one."""
    for kind, some in groupby(orders, type):
        if kind is AckOn:
            acks = [order for order in some if isinstance(order, AckOn)]
            yield AckOn(acks[0].node, tuple(chain.from_iterable(ack.ends for ack in acks)))
        else:
            yield from some


class Dispatch:
    """Carries out orders. What one node is told keeps its order, even while a payload is being read."""

    def __init__(self, loop: Loop, agents: Agents, submit_host: str) -> None:
        self._loop = loop
        self._agents = agents
        self._submit_host = submit_host
        self.payloads = Payloads(loop)
        self._queues: dict[str, asyncio.Queue[Order]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __call__(self, order: Order) -> None:
        """Queue an order for its node; dropped when its agent is away."""
        node = getattr(order, "node", "")
        if node not in self._agents.links:
            return
        queue = self._queues.setdefault(node, asyncio.Queue())
        queue.put_nowait(order)
        if node not in self._tasks:
            self._tasks[node] = asyncio.create_task(self._work(node, queue))

    async def _work(self, node: str, queue: asyncio.Queue[Order]) -> None:
        while True:
            waiting = [await queue.get()]
            while not queue.empty():
                waiting.append(queue.get_nowait())
            for order in merged(waiting):
                try:
                    await self._send(node, order)
                except Exception:
                    log.exception("could not carry out %s on %s", type(order).__name__, node)

    async def _send(self, node: str, order: Order) -> None:
        epoch = self._loop.state.epoch
        match order:
            case LaunchOn():
                launch = await self._launch(order)
                if launch is not None:
                    self._agents.send(node, launch)
            case StopOn():
                self._agents.send(
                    node, agentlink.Stop(epoch, order.number, order.attempt, order.kill_wait_s, order.reason)
                )
            case SignalOn():
                self._agents.send(node, agentlink.Signal(epoch, order.number, order.attempt, order.signal))
            case ExtendOn():
                self._agents.send(node, agentlink.Extend(epoch, order.number, order.attempt, order.deadline_s))
            case AckStepOn():
                self._agents.send(node, agentlink.AckSteps(order.ends))
            case StopStepOn():
                stop = agentlink.StopStep(epoch, order.number, order.attempt, order.step, order.kill_wait_s)
                self._agents.send(node, stop)
            case RebootOn():
                self._agents.send(node, agentlink.Reboot(epoch, order.reason))
            case AckOn():
                self._agents.send(node, agentlink.AckEnds(order.ends))

    def step_launch(self, job: Job, payload: Payload, environment: dict[str, str]) -> agentlink.Launch:
        """What an agent must know of a running job to start a step in it: the caller's environment, the umask and the
        limits of the job's own `payload`."""
        slim = Payload("", environment=environment, umask=payload.umask, limits=payload.limits)
        return self._launch_of(job, slim, 0)

    async def _launch(self, order: LaunchOn) -> agentlink.Launch | None:
        job = self._loop.state.jobs.get(order.number)
        if job is None or job.status.attempt != order.attempt or not holds(job):
            return None
        payload = await self.payloads.get(job.array_number or job.number)
        if payload is None:
            log.error("job %s has no script in the store", job.display_id)
            end = agentlink.AttemptEnd(
                job.number, order.attempt, "launch_failed", message="user: the job's script is not in the store"
            )
            self._loop.post(AttemptEnded(order.node, end))
            return None
        return self._launch_of(job, payload, order.node_index)

    def _launch_of(self, job: Job, payload: Payload, node_index: int) -> agentlink.Launch:
        status, settings = job.status, self._loop.state.settings
        assert status.allocation is not None
        lowest, highest, count = self._array(job)
        return agentlink.Launch(
            epoch=self._loop.state.epoch,
            number=job.number,
            attempt=status.attempt,
            user=job.user,
            uid=job.uid,
            gid=job.gid,
            spec=job.spec,
            payload=payload,
            allocation=status.allocation,
            node_index=node_index,
            deadline_s=job.time_limit_s,
            kill_wait_s=settings.kill_wait_s,
            restarts=status.restarts,
            submit_host=self._submit_host,
            cluster=settings.cluster,
            array_number=job.array_number,
            array_index=job.array_index,
            array_min=lowest,
            array_max=highest,
            array_count=count,
        )

    def _array(self, job: Job) -> tuple[int, int, int]:
        array = self._loop.state.jobs.get(job.array_number) if job.array_index is not None else None
        if array is None or array.spec.array is None:
            return 0, 0, 0
        indices = array.spec.array.indices
        bounds = [int(word) for word in indices.replace("-", ",").split(",")]
        return min(bounds), max(bounds), count_indices(indices)

    def close(self) -> None:
        """Stop the queues."""
        for task in self._tasks.values():
            task.cancel()
