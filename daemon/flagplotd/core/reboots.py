"""Reboots: a drained node runs its site's program once it holds no jobs, and comes back into service with a new boot."""

from __future__ import annotations

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.node import Drain, Node
from flagplot_wire.replies import Acted
from flagplot_wire.text import clean, counted
from flagplotd.core import stimuli as st
from flagplotd.core.orders import RebootOn
from flagplotd.core.people import each, known_node, need_operator, node_names
from flagplotd.core.stepper import Stepper

AGAIN_S = 60
"""After so long without a word of it the order is sent again: it may have been lost."""
MAX_REASON = 400


def ask(step: Stepper, stimulus: st.Reboot) -> Acted:
    """Mark nodes for a reboot (`scontrol reboot asap`). One that was drained already stays so after it."""
    need_operator(stimulus.who, "reboot")
    reason = clean(stimulus.request.reason).strip()
    if not reason:
        raise Refused("bad_request", "a reboot needs a reason", "add --reason 'what it is for'")

    def one(name: str) -> str:
        node = known_node(step, name)
        if node.inventory is None:
            raise Refused("not_found", f"{name} never reported: there is nothing to reboot")
        if node.drain is not None and node.drain.reboot:
            return "is to reboot already"
        drain = Drain(reason, stimulus.who.user, step.now, reboot="asked")
        if node.drain is not None and not node.drain.health:
            drain = msgspec.structs.replace(node.drain, reboot="asked", stays=True)
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=drain), "reboot asked", stimulus.who.user))
        jobs = len(step.state.use[name].jobs) if name in step.state.use else 0
        return f"reboots when its {counted(jobs, 'job')} ended" if jobs else "reboots now"

    acted = each(node_names(stimulus.request.nodes), one)
    step.replan()
    return acted


def when_idle(step: Stepper, stimulus: st.Reported) -> None:
    """A heartbeat of a node that holds no jobs: order the reboot that was asked for."""
    node = step.state.nodes.get(stimulus.node)
    drain = node.drain if node is not None else None
    use = step.state.use.get(stimulus.node)
    if node is None or drain is None or not drain.reboot or stimulus.running or (use is not None and use.jobs):
        return
    if drain.reboot == "asked":
        drain = msgspec.structs.replace(drain, reboot="ordered", ordered=step.now)
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=drain), "rebooting", "flagplotd"))
    elif step.now - drain.ordered < AGAIN_S:
        return
    step.order(RebootOn(node.name, drain.reason))


def back(node: Node) -> Node:
    """A node that came with another boot: the reboot that was asked for is done."""
    if node.drain is None or not node.drain.reboot:
        return node
    drain = msgspec.structs.replace(node.drain, reboot="", ordered=0, stays=False) if node.drain.stays else None
    return msgspec.structs.replace(node, drain=drain)


def failed(step: Stepper, stimulus: st.RebootFailed) -> None:
    """The node could not: it stays drained, and its reason says so."""
    node = step.state.nodes.get(stimulus.node)
    if node is None or node.drain is None or node.drain.reboot != "ordered":
        return
    reason = f"{node.drain.reason}; did not reboot: {stimulus.message}"[:MAX_REASON]
    drain = msgspec.structs.replace(node.drain, reason=reason, reboot="", ordered=0, stays=False)
    step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=drain), "reboot failed", "flagplotd"))
