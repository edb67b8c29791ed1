"""What a node's own checks change: it drains itself, and may take back that drain, never a person's."""

from __future__ import annotations

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.node import Drain
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import Checked

WHO = "health"
MAX_REASON = 400


def checked(step: Stepper, stimulus: Checked) -> None:
    """A report: drain with its reasons, follow them while they change, resume where the node's policy says so.

    A node that a person resumes while something is still wrong drains itself again with the next report.
    """
    node = step.state.nodes.get(stimulus.node)
    if node is None or (node.drain is not None and not node.drain.health):
        return
    reason = "; ".join(stimulus.reasons)[:MAX_REASON]
    if node.drain is None and reason:
        drain = Drain(reason, WHO, step.now, health=True)
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=drain), "drained", WHO))
        step.replan()
    elif node.drain is not None and reason and node.drain.reason != reason:
        drain = msgspec.structs.replace(node.drain, reason=reason)
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=drain), "drained", WHO))
    elif node.drain is not None and not reason and stimulus.resume:
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=None), "resumed", WHO))
        step.replan()
