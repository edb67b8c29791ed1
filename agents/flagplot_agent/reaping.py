"""Idle holders of GPUs: has `idle` judge each sample, and tells the keeper and the controller."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flagplot_agent.idle import Holder, Idling, Key, judge_idle
from flagplot_agent.launch.journal import name_of
from flagplot_agent.launch.processes import read_process
from flagplot_wire import agentlink as al
from flagplot_wire.ids import JobNumber
from flagplot_wire.telemetry import NodeSample

if TYPE_CHECKING:
    from flagplot_agent.loop import Agent


def is_suspended(pids: Iterable[str]) -> bool:
    """Whether all tasks of an attempt are stopped: such a job cannot use its GPUs."""
    alive = [process for pid in pids if (process := read_process(int(pid))) is not None]
    return bool(alive) and all(process.state == "T" for process in alive)


class Reaper:
    """Remembers who is idle between two samples."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.idling: dict[Key, Idling] = {}

    async def take(self, sample: NodeSample) -> None:
        """Deal with one sample."""
        use = {gpu.index: gpu.utilisation for gpu in sample.gpus}
        attempts = self.agent.attempts
        holders = [
            Holder(*key, tuple(use.get(gpu["index"]) for gpu in gpus), attempts.nodes_of(key) == 1)
            for key, (begun, gpus) in attempts.held().items()
            if begun is not None and not is_suspended(begun["pids"])
        ]
        actions, self.idling = judge_idle(holders, self.idling, self.agent.policies.idle, int(time.monotonic()))
        for do, key, lasts in actions:
            message = f"{self.agent.config.node}: its GPUs did nothing for {lasts} s"
            if do == "end":
                reason = f"ENDED BECAUSE ITS GPUS DID NOTHING FOR {lasts} s"
                self.agent.stand(key, do="stop", kill_wait_s=attempts.kill_wait(key), reason=reason, message=message)
            else:
                self.agent.keeper.order(do="say", name=name_of(key), text=f"WARNING: {message}")
                await self.agent.send(al.JobNoted(JobNumber(key[0]), key[1], message))
