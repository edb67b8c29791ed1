"""`Shutdown`: stop the controller."""

from __future__ import annotations

import asyncio

from flagplot_wire.errors import Refused
from flagplot_wire.replies import Acted, ActedOn
from flagplot_wire.requests import Act, Shutdown
from flagplot_wire.text import counted
from flagplotd.core.stimuli import ActOnJobs
from flagplotd.service import clock
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: Shutdown) -> Acted:
    """Admins only. With `cancel` all jobs are cancelled first, and their ends awaited."""
    server = asking.server
    if not asking.who.admin:
        raise Refused("not_permitted", f"only admins may stop the controller; you are {asking.who.user}")
    results = [ActedOn("controller", message="stopping; running jobs go on")]
    if request.jobs == "cancel":
        await server.loop.settled()
        state = server.state
        numbers = [number for number in (*state.pending, *state.active) if state.jobs[number].array_index is None]
        arrays = {state.jobs[number].array_number for number in state.active} - {0}
        jobs = tuple(str(number) for number in sorted({*numbers, *arrays}))
        if jobs:
            await server.loop.reply(ActOnJobs(asking.who, Act("cancel", jobs)))
        deadline = clock.ticks() + state.settings.kill_wait_s + 10
        while server.state.active and clock.ticks() < deadline:
            await asyncio.sleep(0.1)
        left = len(server.state.active)
        told = f"{counted(left, 'job')} did not end in time" if left else f"{counted(len(jobs), 'job')} cancelled"
        message = f"stopping; {told}"
        results = [ActedOn("controller", message=message)]
    asyncio.get_running_loop().call_later(0.1, server.stopping.set)
    return Acted(tuple(results))
