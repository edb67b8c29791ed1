"""`Update`: change jobs."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import Update
from flagplotd.core.stimuli import UpdateJobs
from flagplotd.service.cleaning import cleaned
from flagplotd.service.context import Asking

MAX_TEXT = 8_192


async def handle(asking: Asking, request: Update) -> Acted | Submitted:
    """Change what is not None."""
    for field in request.__struct_fields__:
        value = getattr(request, field)
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise Refused("bad_request", f"the new {field} is longer than {MAX_TEXT} characters")
    return await asking.server.loop.reply(UpdateJobs(asking.who, cleaned(request)))
