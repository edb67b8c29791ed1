"""Watchers of a step: who may type, and that nothing of theirs tears or ends it."""

from __future__ import annotations

import asyncio
import json
import socket

from flagplot_agent.steps.streams import NodeStream
from flagplot_agent.steps.tap import Tap
from flagplot_wire.step_messages import Reader, message
from flagplot_wire.streams import StreamData, StreamEnd


async def heard(stdin: bool, said: list[bytes]) -> list[tuple[bytes, bytes]]:
    """What a step's parent gets of what a watcher says, in pieces as they come."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    tap = Tap(reader, writer)
    watcher = NodeStream(1, lambda _frame: None)
    showing = asyncio.create_task(tap.show(watcher, stdin))
    tap.write(message(b"i", b"from the client")[:7])
    for piece in said:
        watcher.arrived(StreamData(1, piece))
        await asyncio.sleep(0)
    watcher.arrived(StreamEnd(1))
    await showing
    tap.write(message(b"i", b"from the client")[7:])
    await tap.drain()
    tap.close()
    await writer.wait_closed()
    theirs.setblocking(True)
    data = b""
    while piece := theirs.recv(65_536):
        data += piece
    theirs.close()
    return Reader().feed(data)


LAST = (b"i", b"from the client")


async def test_input_and_sizes_go_between_whole_messages() -> None:
    size = json.dumps({"do": "resize", "rows": 5, "columns": 7}).encode()
    said = message(b"i", b"word") + message(b"c", size) + message(b"i", b"")
    pieces = [said[at : at + 3] for at in range(0, len(said), 3)]
    assert await heard(True, pieces) == [(b"i", b"word"), (b"c", size), (b"i", b""), LAST]


async def test_who_only_watches_is_not_heard() -> None:
    assert await heard(False, [message(b"i", b"word")]) == [LAST]


async def test_a_watcher_ends_nothing() -> None:
    commands = [
        b'{"do": "end"}',
        b'{"do": "signal", "signal": "KILL"}',
        b"what",
        b"[]",
        b'{"do": "resize", "rows": "x"}',
    ]
    said = [message(b"c", one) for one in commands] + [message(b"n", b"{}"), b"i\x7f\xff\xff\xff"]
    assert await heard(True, said) == [LAST]
