"""Orders for one node on their way."""

from __future__ import annotations

from flagplot_wire.agentlink import Attempt
from flagplot_wire.ids import JobNumber
from flagplotd.core.orders import AckOn, Order, StopOn
from flagplotd.service.dispatch import merged


def ack(number: int) -> AckOn:
    return AckOn("n1", (Attempt(JobNumber(number), 1),))


def test_acknowledgements_go_together_and_overtake_nothing() -> None:
    stop = StopOn("n1", JobNumber(3), 1, 30)
    orders: list[Order] = [ack(1), ack(2), stop, ack(4)]
    both = AckOn("n1", (*ack(1).ends, *ack(2).ends))
    assert list(merged(orders)) == [both, stop, ack(4)]
    assert list(merged([])) == []
