"""What a client and the nodes say to each other to send one file down a tree of nodes. Standard library only.

Messages are those of `step_messages`. Each node has a stream to the client; it first says `ready` with the address that
it listens on. The client answers with a command `link`: whether another node will bring the data, which nodes it is to
hand them on to, and a certificate, made for this one file, by which nodes know each other. The node links up with
those below it and says `linked`, naming those that it could not reach; the client then tells them to take the data from
their own streams (`direct`). Data come as `d`, their end as `f`, from the client or from the node above. Last comes a
command `commit` with the checksum, from the client to each node, which moves the file to its place and says `done`.

Commands (`c`) and news (`n`) are JSON: `do` or `event` is their name.
"""

from __future__ import annotations

from collections.abc import Sequence

DATA, END, COMMAND, NEWS = b"d", b"f", b"c", b"n"
PIECE = 256 * 1024
"""Bytes of a message of data."""
FANOUT = 2


def tree(nodes: Sequence[str], fanout: int) -> tuple[list[str], dict[str, list[str]]]:
    """(nodes that get the data from the client, node → those that it hands them on to): each as even as can be."""
    roots, below = list(nodes[:fanout]), {name: list[str]() for name in nodes}
    for place, name in enumerate(nodes[fanout:]):
        below[nodes[place // fanout]].append(name)
    return roots, below


def everyone_below(name: str, below: dict[str, list[str]]) -> list[str]:
    """Those who get the data through a node."""
    return [found for child in below[name] for found in (child, *everyone_below(child, below))]
