"""`GetFairshare`: the fair tree, as sshare shows it."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.policy import ROOT
from flagplot_wire.replies import Fairshares
from flagplot_wire.requests import GetFairshare
from flagplot_wire.text import clean
from flagplotd.core.fairshare import rows
from flagplotd.service.context import Asking
from flagplotd.service.sizes import pieces

PAGE = 20_000


async def handle(asking: Asking, request: GetFairshare) -> Fairshares:
    """Usage as of its last update. Unknown accounts and users are refused."""
    await asking.server.loop.settled()
    state = asking.server.state
    for name in request.accounts:
        if name != ROOT and name not in state.accounts:
            raise Refused("not_found", f"there is no account {clean(name)!r}", "ask without a name for the whole tree")
    found = rows(state.accounts, state.associations, state.usage)
    if request.accounts:
        found = [one for one in found if one.account in request.accounts]
    if request.users:
        theirs = {one.account for one in found if one.user in request.users}
        missing = set(request.users) - {one.user for one in found}
        if missing:
            raise Refused("not_found", f"user {clean(min(missing))!r} is in none of these accounts")
        found = [one for one in found if one.account in theirs and (not one.user or one.user in request.users)]
    found = found[max(request.skip, 0) :]
    some = next(pieces(found, PAGE), ())
    return Fairshares(some, more=len(some) < len(found))
