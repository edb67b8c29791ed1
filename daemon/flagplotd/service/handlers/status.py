"""`GetStatus`: the controller at a glance."""

from __future__ import annotations

import os
from pathlib import Path

from flagplot_wire import __version__
from flagplot_wire.hostlist import natural_key
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Node
from flagplot_wire.replies import AgentStatus, ControllerStatus
from flagplot_wire.requests import GetStatus
from flagplotd.core.state import State
from flagplotd.service.context import Asking, Server


async def handle(asking: Asking, request: GetStatus) -> ControllerStatus:
    """Numbers of now; arrays count once while elements wait."""
    server = asking.server
    await server.loop.settled()
    state = server.state
    return ControllerStatus(
        cluster=state.settings.cluster,
        version=__version__,
        pid=os.getpid(),
        host=server.config.host,
        port=server.port,
        epoch=state.epoch,
        started=server.started,
        seq=state.seq,
        running=sum(state.jobs[number].status.state is JobState.RUNNING for number in state.active),
        pending=len(state.pending),
        simulated=server.simulated,
        accepting=not server.loop.problem,
        problem=server.loop.problem,
        host_key=server.host_key,
        memory_mib=_memory_mib(),
        last_cycle_us=server.cycle.last_us,
        agents=_agents(server, state) if request.agents else (),
    )


def _agents(server: Server, state: State) -> tuple[AgentStatus, ...]:
    return tuple(_agent(server, state, node) for node in sorted(state.nodes.values(), key=_by_name))


def _by_name(node: Node) -> tuple[tuple[int, int, str], ...]:
    return natural_key(node.name)


def _agent(server: Server, state: State, node: Node) -> AgentStatus:
    link = server.agents.links.get(node.name)
    use = state.use.get(node.name)
    return AgentStatus(
        node=node.name,
        responding=node.responding,
        version=node.agent_version,
        last_seen=link.last_seen if link else server.agents.last_seen.get(node.name, 0),
        jobs=len(use.jobs) if use else 0,
        pid=link.pid if link else 0,
    )


def _memory_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024**2
