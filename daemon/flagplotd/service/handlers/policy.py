"""`GetPolicy`: accounts, users, QoS and reservations."""

from __future__ import annotations

from collections.abc import Mapping

from flagplot_wire.policy import Association, Record
from flagplot_wire.replies import Policies
from flagplot_wire.requests import GetPolicy
from flagplotd.service.context import Asking
from flagplotd.service.sizes import pieces

PAGE = 20_000


async def handle(asking: Asking, request: GetPolicy) -> Policies:
    """Records of a kind (or all), by kind and name; a user is found by its name alone too."""
    await asking.server.loop.settled()
    state, wanted = asking.server.state, set(request.names)
    tables: dict[str, Mapping[str, Record]] = {
        "account": state.accounts,
        "user": state.associations,
        "qos": state.qos,
        "reservation": state.reservations,
    }
    kinds = [request.kind] if request.kind else list(tables)
    found: list[Record] = [tables[kind][key] for kind in kinds for key in sorted(tables[kind])]
    chosen = [record for record in found if not wanted or wanted & _names(record)][max(request.skip, 0) :]
    some = next(pieces(chosen, PAGE), ())
    return Policies(some, more=len(some) < len(chosen))


def _names(record: Record) -> set[str]:
    return {record.key, record.user} if isinstance(record, Association) else {record.key}
