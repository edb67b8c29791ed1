"""A node's part of a broadcast, as a real process: only the node with this file's certificate is heard."""

from __future__ import annotations

import hashlib
import json
import random
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flagplot.client.broadcast import certificate
from flagplot_wire.broadcast import everyone_below, tree
from flagplot_wire.step_messages import Reader, message

DATA = b"some data\n" * 50_000


class Node:
    """A helper process; we are its client."""

    def __init__(self, path: Path, force: bool = False) -> None:
        self.client, theirs = socket.socketpair()
        self.client.settimeout(20)
        words = ["-", "0", "0", "bcast", str(path), str(0o640), str(int(force)), "127.0.0.1"]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "flagplot_agent.steps.filehelper", *words], stdin=theirs, stdout=theirs,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        theirs.close()
        self.reader = Reader()
        self.news: list[dict[str, Any]] = []

    def hear(self) -> dict[str, Any]:
        while not self.news:
            data = self.client.recv(65_536)
            assert data, self.process.communicate(timeout=20)[1]
            self.news += [json.loads(content) for _, content in self.reader.feed(data)]
        return self.news.pop(0)

    def command(self, **what: Any) -> None:
        self.client.sendall(message(b"c", json.dumps(what).encode()))

    def why(self) -> str:
        """What it says of its failure."""
        self.client.close()
        told = self.process.communicate(timeout=20)[1]
        assert self.process.returncode == 1
        return told.strip()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    made: list[Node] = []
    yield made
    for one in made:
        one.client.close()
        one.process.kill()
        one.process.communicate(timeout=20)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".flagplot")] == []


def linked(nodes: list[Node], path: Path, pair: str) -> tuple[Node, int]:
    node = Node(path)
    nodes.append(node)
    port = node.hear()["port"]
    node.command(do="link", above=True, below=[], certificate=pair)
    assert node.hear() == {"event": "linked", "failed": {}}
    return node, port


def connected(port: int, pair: str, tmp_path: Path) -> ssl.SSLSocket:
    own = tmp_path / "pair.pem"
    own.write_text(pair)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(own)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20))


def test_only_the_right_node_is_heard(nodes: list[Node], tmp_path: Path) -> None:
    pair, path = certificate(), tmp_path / "file"
    node, port = linked(nodes, path, pair)
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(message(b"d", b"evil") + message(b"f", b""))
    with connected(port, certificate(), tmp_path) as wrong, pytest.raises(OSError):
        while True:
            wrong.sendall(message(b"d", b"evil"))
    with connected(port, pair, tmp_path) as above:
        above.sendall(message(b"d", DATA) + message(b"f", b""))
        node.command(do="commit", sha256=hashlib.sha256(DATA).hexdigest(), times=[])
        assert node.hear() == {"event": "done"}
    assert path.read_bytes() == DATA and path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_what_is_not_whole_does_not_appear(nodes: list[Node], tmp_path: Path) -> None:
    pair, path = certificate(), tmp_path / "file"
    node, port = linked(nodes, path, pair)
    with connected(port, pair, tmp_path) as above:
        above.sendall(message(b"d", DATA))
    assert node.why() == "the node above was lost"
    node, port = linked(nodes, path, pair)
    with connected(port, pair, tmp_path) as above:
        above.sendall(message(b"d", DATA + b"!") + message(b"f", b""))
        node.command(do="commit", sha256=hashlib.sha256(DATA).hexdigest(), times=[])
        node.process.wait(20)
    assert "another checksum" in node.why()
    node, port = linked(nodes, path, pair)
    node.command(do="direct")
    node.client.sendall(message(b"d", DATA) + message(b"f", b""))
    assert node.why() == "the client was lost"
    assert not path.exists()


def test_who_came_first_stays(nodes: list[Node], tmp_path: Path) -> None:
    """Two write the same path without --force: the second is told, also when both saw nothing there at first."""
    path = tmp_path / "file"
    both = [linked(nodes, path, certificate())[0] for _ in range(2)]
    for place, node in enumerate(both):
        content = b"%d" % place
        node.command(do="direct")
        node.client.sendall(message(b"d", content) + message(b"f", b""))
        node.command(do="commit", sha256=hashlib.sha256(content).hexdigest(), times=[])
        if place == 0:
            assert node.hear() == {"event": "done"}
    assert "exists already" in both[1].why() and path.read_bytes() == b"0"


def test_trees_reach_everyone_once() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    for _ in range(300):
        names = [f"n{place}" for place in range(dice.randrange(1, 200))]
        fanout = dice.randrange(1, 9)
        roots, below = tree(names, fanout)
        reached = [found for root in roots for found in (root, *everyone_below(root, below))]
        assert sorted(reached) == sorted(names)
        assert len(roots) <= fanout and all(len(children) <= fanout for children in below.values())
    assert tree(["a", "b", "c", "d"], 1) == (["a"], {"a": ["b"], "b": ["c"], "c": ["d"], "d": []})
    assert tree(["a"], 2) == (["a"], {"a": []})


def test_told_to_end_amid_its_clearing_up_it_leaves_nothing(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from flagplot_agent.steps import filehelper
unlink = os.unlink
def interrupted(path):
    os.unlink = unlink
    os.kill(os.getpid(), signal.SIGTERM)
    unlink(path)
os.unlink = interrupted
filehelper.main(*sys.argv[1:])
"""
    words = ["-", "0", "0", "bcast", str(tmp_path / "file"), str(0o640), "0", "127.0.0.1"]
    client, theirs = socket.socketpair()
    with client, theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, *words], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True
        )
        theirs.close()
        assert b"ready" in client.recv(65_536) and len(list(tmp_path.iterdir())) == 1
    assert "the transfer was ended" in process.communicate(timeout=20)[1]
    assert list(tmp_path.iterdir()) == []
