"""Sending one file to many nodes: from here to some of them, which hand it on (see `flagplot_wire.broadcast`)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from msgspec import Struct

from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.streams import ByteStream
from flagplot_wire.broadcast import COMMAND, DATA, END, NEWS, everyone_below, tree
from flagplot_wire.errors import Refused
from flagplot_wire.requests import OpenFile
from flagplot_wire.step_messages import Reader, message


class Wish(Struct, frozen=True):
    """Where the file goes in the job, and how. `times` are of access and change in ns (empty: those of the copy)."""

    job: str
    path: str
    mode: int
    force: bool
    fanout: int
    times: tuple[int, ...] = ()


class _Node:
    """One node's stream."""

    def __init__(self, name: str, stream: ByteStream) -> None:
        self.name = name
        self.stream = stream
        self.address: tuple[str, int] = ("", 0)
        """Where it takes the file from the node above it."""
        self._reader = Reader()
        self._news: list[dict[str, Any]] = []

    async def hear(self) -> dict[str, Any]:
        """The next news; raises `Refused`."""
        while not self._news:
            data = await self.stream.read()
            if not data:
                raise Refused("gone", "the node ended the transfer without a word")
            self._news += [json.loads(content) for kind, content in self._reader.feed(data) if kind == NEWS]
        return self._news.pop(0)

    async def command(self, **what: Any) -> None:
        """Tell it something; raises `Refused`."""
        await self.stream.write(message(COMMAND, json.dumps(what).encode()))


class Broadcast:
    """One file on its way. `wrong` says for each node that will not have it why."""

    def __init__(self, connection: Connection, wish: Wish, nodes: Collection[str]) -> None:
        self._connection = connection
        self._wish = wish
        self._nodes = {name: _Node(name, connection.streams.make()) for name in nodes}
        self._below: dict[str, list[str]] = {}
        self.wrong: dict[str, str] = {}

    async def send(self, content: Iterable[bytes], sent: Callable[[int], None]) -> str:
        """Send it all; returns the SHA-256. `sent` is told how many bytes went out."""
        try:
            await self._all(self._nodes, self._open)
            direct = await self._link()
            summed = hashlib.sha256()
            for data in content:
                summed.update(data)
                await self._all(direct, partial(_send, message(DATA, data)))
                sent(len(data))
            await self._all(direct, partial(_send, message(END, b"")))
            await self._all(self._nodes, lambda node: self._finish(node, summed.hexdigest()))
            return summed.hexdigest()
        finally:
            for one in self._nodes.values():
                one.stream.close()

    async def _all(self, names: Iterable[str], work: Callable[[_Node], Awaitable[None]]) -> None:
        """Do something with nodes at the same time; one that refuses is left out from then on."""

        async def one(name: str) -> None:
            if name in self.wrong:
                return
            try:
                await work(self._nodes[name])
            except Refused as refused:
                self.wrong[name] = refused.message

        await asyncio.gather(*(one(name) for name in list(names)))

    async def _open(self, node: _Node) -> None:
        wish = self._wish
        request = OpenFile(wish.job, node.stream.number, "bcast", wish.path, node.name, wish.mode, wish.force)
        await Calls(self._connection).opened(request)
        ready = await node.hear()
        node.address = str(ready["address"]), int(ready["port"])

    async def _link(self) -> list[str]:
        """Join the nodes into a tree; returns those that get the data from here."""
        there = [name for name in self._nodes if name not in self.wrong]
        direct, below = tree(there, self._wish.fanout)
        self._below = below
        pair = certificate() if len(there) > len(direct) else ""
        unreached: set[str] = set()

        async def link(node: _Node) -> None:
            addresses = [(name, *self._nodes[name].address) for name in below[node.name]]
            await node.command(do="link", above=node.name not in direct, below=addresses, certificate=pair)
            try:
                unreached.update((await node.hear())["failed"])
            except Refused:
                unreached.update(below[node.name])
                raise

        await self._all(there, link)
        late = [name for name in there if name in unreached]
        await self._all(late, lambda node: node.command(do="direct"))
        return [*direct, *late]

    async def _finish(self, node: _Node, summed: str) -> None:
        await node.command(do="commit", sha256=summed, times=self._wish.times)
        while (news := await node.hear())["event"] != "done":
            if news["event"] == "lost":
                for name in (news["node"], *everyone_below(news["node"], self._below)):
                    self.wrong.setdefault(name, f"{node.name} could not hand it on to {news['node']}: {news['why']}")


async def _send(data: bytes, node: _Node) -> None:
    await node.stream.write(data)


def certificate() -> str:
    """A certificate of a day with its key, as PEM: nodes that hand on this one file know each other by it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "flagplot bcast")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (secret + made.public_bytes(serialization.Encoding.PEM)).decode()
