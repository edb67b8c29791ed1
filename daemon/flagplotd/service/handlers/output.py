"""`ReadOutput`: a piece of a job's output, from the node that has it."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.replies import Output
from flagplot_wire.requests import ReadOutput
from flagplot_wire.text import clean
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_one, owner_or_operator

MAX_PIECE = 2 * 1024 * 1024
MAX_SEARCH = 1_000


async def handle(asking: Asking, request: ReadOutput) -> Output:
    """Bytes as they are in the file."""
    job = await find_one(asking, request.job)
    owner_or_operator(asking, job)
    if job.is_array and "_" in request.job:
        raise Refused("no_output", f"element {clean(request.job)} has not started: there is no output yet")
    if job.is_array:
        raise Refused("usage", f"job {job.number} is an array: name one element, such as {job.number}_1")
    if job.status.attempt == 0 or job.status.allocation is None:
        raise Refused("no_output", f"job {job.display_id} has not started: there is no output yet")
    node = job.status.allocation.names[0]
    limit = min(max(request.limit, 1), MAX_PIECE)
    offset = request.offset
    agents = asking.server.agents
    if len(request.search) > MAX_SEARCH or "\0" in request.search:
        raise Refused("usage", f"what is searched may have {MAX_SEARCH} letters and no NUL")
    if offset < 0 and not request.search:
        size = (await agents.read_file(node, job, request.stream, 0, 1)).size
        offset = max(size + offset, 0)
    piece = await agents.read_file(node, job, request.stream, offset, limit, request.search)
    ended = job.status.state.ended
    return Output(piece.path, node, piece.offset, piece.size, piece.data, ended, piece.found, piece.searched)
