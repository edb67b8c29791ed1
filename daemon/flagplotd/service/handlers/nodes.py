"""`GetNodes`: nodes with what is held on them."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts, natural_key
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Node, node_state
from flagplot_wire.replies import HeldOnNode, Nodes, NodeView
from flagplot_wire.requests import GetNodes
from flagplot_wire.telemetry import NodeSample
from flagplot_wire.text import clean
from flagplotd.core.state import NodeUse, State
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: GetNodes) -> Nodes:
    """All nodes, or those named."""
    names = [name for text in request.nodes for name in expand_hosts(text)]
    await asking.server.loop.settled()
    state = asking.server.state
    for name in names:
        if name not in state.nodes:
            raise Refused("not_found", f"there is no node {clean(name)!r}", "flagplot nodes lists them")
    chosen = sorted(names or state.nodes, key=natural_key)
    samples = asking.server.loop.hub.samples
    return Nodes(tuple(view(state, state.nodes[name], samples.get(name)) for name in chosen))


def view(state: State, node: Node, sample: NodeSample | None) -> NodeView:
    """One node with its state word and its jobs."""
    use = state.use.get(node.name, NodeUse())
    jobs = [state.jobs[number] for number in sorted(use.jobs)]
    word = node_state(
        node,
        cpus_used=use.cpus.bit_count(),
        gpus_used=sum(shards > 0 for shards in use.gpu_shards),
        jobs=len(jobs),
        completing=sum(job.status.state is JobState.COMPLETING for job in jobs),
    )
    held = tuple(part for job in jobs for part in _held(job, node.name))
    partitions = tuple(part.name for part in state.partitions.values() if part.has(node.name))
    return NodeView(node, str(word), partitions, held, sample)


def _held(job: Job, node: str) -> list[HeldOnNode]:
    found = []
    for part in job.status.allocation.nodes if job.status.allocation else ():
        if part.node == node:
            found.append(
                HeldOnNode(
                    job.number,
                    job.display_id,
                    job.user,
                    str(job.status.state),
                    part.cpus,
                    part.memory_mib,
                    tuple((gpu.index, gpu.shards) for gpu in part.gpus),
                    job.limit_ends,
                )
            )
    return found
