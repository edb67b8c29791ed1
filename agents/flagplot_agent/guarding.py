"""The VRAM guard at work: reads the GPUs, has `guard` judge, and tells the keeper and the controller."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from flagplot_agent.guard import Action, Process, Share, Standings, judge
from flagplot_agent.launch.journal import name_of
from flagplot_agent.launch.processes import read_process
from flagplot_agent.telemetry.jobs import job_processes
from flagplot_wire import agentlink as al
from flagplot_wire.ids import JobNumber

if TYPE_CHECKING:
    from flagplot_agent.attempts import Held
    from flagplot_agent.loop import Agent
    from flagplot_agent.telemetry.sampler import JobProcesses, Sampler

log = logging.getLogger("flagplot-agent")
EVERY_S = 0.5
"""An overrun is ended within 2 s: two looks, and the killing."""


async def guard_shares(agent: Agent) -> None:
    """Watch the jobs that hold a share of a GPU, until cancelled."""
    standings: Standings = {}
    while True:
        await asyncio.sleep(EVERY_S)
        running = {
            key: held
            for key, held in agent.attempts.held().items()
            if any(gpu["shards"] < gpu["of"] for gpu in held[1])
        }
        if not running or agent.sampler.simulated:
            standings = {}
            continue
        try:
            shares = await asyncio.to_thread(look, agent.sampler, running)
            actions, standings = judge(shares, standings, agent.policies.guard, time.monotonic_ns() // 1_000_000)
            for action in actions:
                await carry_out(agent, action)
        except Exception:
            # One bad look must not end the guard.
            log.exception("could not look after the shares of GPUs")


def look(sampler: Sampler, running: Held) -> list[Share]:
    """The shares of what runs now (see `Attempts.held`)."""
    return shares_of(sampler, job_processes(running))


def shares_of(sampler: Sampler, jobs: list[JobProcesses]) -> list[Share]:
    """Every share of a GPU of known memory with the processes on it now; none while the driver cannot be asked."""
    wanted = {part.index for job in jobs for part in job.gpus if not part.whole}
    owners = {pid: job.number for job in jobs for pid in job.pids}
    seen = sampler.gpu_processes(wanted, owners)
    memory = {gpu.index: gpu.vram_mib for gpu in sampler.inventory.gpus}
    found = []
    for job in jobs:
        for part in job.gpus:
            vram = memory.get(part.index)
            if part.whole or vram is None or part.index not in seen:
                continue
            mine = [one for one in seen[part.index] if one.pid in job.pids]
            alive = [(one, read_process(one.pid)) for one in mine]
            processes = tuple(Process(one.pid, read.started, one.memory_mib) for one, read in alive if read)
            found.append(Share(job.number, job.attempt, part.index, vram * part.shards // part.of, processes))
    return found


async def carry_out(agent: Agent, action: Action) -> None:
    """Tell the owner; a process or a whole attempt is ended by the keeper, which knows what is the job's."""
    log.warning("job %s.%s: %s %s", action.number, action.attempt, action.do, action.message)
    name = name_of((action.number, action.attempt))
    if action.do == "warn":
        agent.keeper.order(do="say", name=name, text=f"WARNING: {action.message}")
    else:
        agent.keeper.order(do="overrun", name=name, pid=action.pid, message=action.message)
    message = f"{agent.config.node}, {action.message}"
    await agent.send(al.JobNoted(JobNumber(action.number), action.attempt, message))
