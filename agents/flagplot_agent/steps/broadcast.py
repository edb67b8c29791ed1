"""One node's part in sending a file down a tree of nodes (see `flagplot_wire.broadcast`). Standard library only.

Runs in the file helper, as the job's user: it listens on the node's address until one node with this file's certificate
has come, or until the client says that none will.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import signal
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

from flagplot_wire.broadcast import COMMAND, DATA, END, NEWS, PIECE
from flagplot_wire.step_messages import Reader, message

CONNECT_S = 3.0
"""For a node below to take the connection."""
LINK_S = 40.0
"""For a node to be linked, which comes after those below it."""
SILENCE_S = 120.0
"""For another node to bring or take more data."""
Message = tuple[bytes, bytes]


class Lost(OSError):
    """Another node, or the client, is gone."""


class Part:
    """`came` and `out` are the client's stream."""

    def __init__(self, path: str, mode: int, force: bool, address: str, came: BinaryIO, out: BinaryIO) -> None:
        self.path, self.mode, self.force, self.address = path, mode, force, address
        self._came = came
        self._out = out
        self._client = _messages(partial(came.read, PIECE), "the client")
        self._below: dict[str, ssl.SSLSocket] = {}

    def run(self) -> None:
        """Take the file, hand it on, put it in its place; raises OSError."""
        if os.path.isdir(self.path):
            raise IsADirectoryError(21, "is a folder: name the file too, or end in /", self.path)
        if os.path.lexists(self.path) and not self.force:
            raise FileExistsError(17, "exists already (use --force)", self.path)
        # The helper is told to end at any moment, even amid its clearing up because the client is gone.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        descriptor, fresh = tempfile.mkstemp(prefix=".flagplot-", dir=os.path.dirname(self.path))
        try:
            try:
                with os.fdopen(descriptor, "wb") as file:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                    summed = self._take(file)
                    file.flush()
                    self._commit(file.fileno(), fresh, summed)
            finally:
                _clear(fresh)
        finally:
            _clear(fresh)
        self._say(event="done")

    def _say(self, **news: Any) -> None:
        _write_all(self._out.write, message(NEWS, json.dumps(news).encode()))

    def _command(self, *wanted: str) -> dict[str, Any]:
        kind, content = next(self._client)
        command: dict[str, Any] = json.loads(content) if kind == COMMAND else {}
        if command.get("do") not in wanted:
            raise OSError(71, f"the client says something else than {' or '.join(wanted)}")
        return command

    def _take(self, file: BinaryIO) -> str:
        """All data, to the file and those below; their SHA-256."""
        with socket.create_server((self.address, 0), family=_family(self.address)) as listener:
            self._say(event="ready", address=self.address, port=listener.getsockname()[1])
            link = self._command("link")
            failed = {}
            for name, address, port in link["below"]:
                try:
                    self._below[name] = _dial(address, port, link["certificate"])
                except OSError as wrong:
                    failed[name] = str(wrong.strerror or wrong)
            self._say(event="linked", failed=failed)
            above = self._linked(listener, link["certificate"]) if link["above"] else self._client
        summed = hashlib.sha256()
        for kind, content in above:
            if kind == END:
                break
            if kind != DATA:
                raise OSError(71, "something else than data came")
            summed.update(content)
            file.write(content)
            self._hand_on(message(DATA, content))
        else:
            raise Lost(104, "the data ended too early")
        self._hand_on(message(END, b""))
        for one in self._below.values():
            one.close()
        return summed.hexdigest()

    def _linked(self, listener: socket.socket, certificate: str) -> Iterator[Message]:
        """What the node above sends; what the client does, where it says that none will come."""
        deadline = time.monotonic() + LINK_S
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._came, selectors.EVENT_READ)
            while ready := selector.select(max(deadline - time.monotonic(), 0)):
                if any(key.fileobj is self._came for key, _ in ready):
                    self._command("direct")
                    return self._client
                connection, _ = listener.accept()
                try:
                    above = _secured(connection, certificate, CONNECT_S, server=True)
                except OSError:
                    # A stranger: the right one may still come.
                    connection.close()
                    continue
                return _messages(partial(above.recv, PIECE), "the node above")
        raise Lost(110, f"no node came within {LINK_S:.0f} s")

    def _hand_on(self, data: bytes) -> None:
        for name, one in list(self._below.items()):
            try:
                one.sendall(data)
            except OSError as wrong:
                del self._below[name]
                one.close()
                self._say(event="lost", node=name, why=str(wrong.strerror or wrong))

    def _commit(self, descriptor: int, fresh: str, summed: str) -> None:
        wanted = self._command("commit")
        if summed != wanted["sha256"]:
            raise OSError(5, f"what came has another checksum ({summed})", self.path)
        os.fchmod(descriptor, self.mode)
        if wanted.get("times"):
            os.utime(descriptor, ns=(wanted["times"][0], wanted["times"][1]))
        os.fsync(descriptor)
        if self.force:
            os.replace(fresh, self.path)
            return
        try:
            os.link(fresh, self.path)
        except FileExistsError:
            raise FileExistsError(17, "exists already (use --force)", self.path) from None
        except OSError:
            # A file system without hard links.
            os.rename(fresh, self.path)


def _clear(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def _messages(read: Callable[[], bytes | None], who: str) -> Iterator[Message]:
    reader = Reader()
    while True:
        try:
            data = read()
        except OSError as wrong:
            raise Lost(104, f"{who} was lost: {wrong.strerror or wrong}") from wrong
        if not data:
            raise Lost(104, f"{who} was lost")
        yield from reader.feed(data)


def _write_all(write: Callable[[memoryview], int | None], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[write(view) or 0 :]


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _dial(address: str, port: int, certificate: str) -> ssl.SSLSocket:
    connection = socket.socket(_family(address), socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S)
        connection.connect((address, port))
        return _secured(connection, certificate, LINK_S)
    except OSError:
        connection.close()
        raise


def _secured(connection: socket.socket, certificate: str, wait_s: float, server: bool = False) -> ssl.SSLSocket:
    """TLS 1.3 between two who have the same certificate and its key, and accept nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        # Nothing goes up: a socket that is closed with something unread would take back what it sent.
        context.num_tickets = 0
    context.load_verify_locations(cadata=certificate[certificate.index("-----BEGIN CERTIFICATE") :])
    # The library reads its own certificate from files alone.
    memory = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(memory, certificate.encode())
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
    connection.settimeout(wait_s)
    secured = context.wrap_socket(connection, server_side=server)
    secured.settimeout(SILENCE_S)
    return secured
