"""`ChangePolicy`: accounts, users, QoS, partitions and reservations."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import ChangePolicy
from flagplotd.core.stimuli import ChangeRecords
from flagplotd.service.cleaning import cleaned
from flagplotd.service.context import Asking

MAX_NAMES = 1_000
MAX_TEXT = 65_536


async def handle(asking: Asking, request: ChangePolicy) -> Acted | Submitted:
    """Add, modify or remove by name."""
    if len(request.names) > MAX_NAMES:
        raise Refused("bad_request", f"{len(request.names)} names: at most {MAX_NAMES} are taken at once")
    if sum(len(text) for pair in request.values.items() for text in pair) > MAX_TEXT:
        raise Refused("bad_request", f"the settings are longer than {MAX_TEXT} characters")
    return await asking.server.loop.reply(ChangeRecords(asking.who, cleaned(request)))
