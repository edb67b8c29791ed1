"""A file down a tree of nodes: agents in network and mount namespaces of their own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.by_hand import CONTROLLER_ADDRESS, ip, network, started
from support.cluster import Cluster

COUNT = 5
SIZE = 6_000_000


class Nodes:
    """Five nodes, each with a folder `private` of its own, and a job on all of them."""

    def __init__(self, cluster: Cluster, prefixes: dict[str, list[str]], private: Path) -> None:
        self.cluster, self.prefixes, self.private = cluster, prefixes, private
        self.job = cluster.submit(f"-N{COUNT}", "-o", "/dev/null", "--wrap", "sleep 900")
        cluster.wait_state(self.job, "RUNNING")

    def space(self, host: str) -> str:
        """The name of a host's network namespace."""
        return self.prefixes[host][3]

    def on(self, words: str) -> dict[str, str]:
        """What a command says on each node."""
        done = self.cluster.run("run", "--jobid", str(self.job), "-l", f"-n{COUNT}", "sh", "-c", words)
        assert done.returncode == 0, done.stderr
        return {f"n{int(line[:1]) + 1}": line[3:] for line in done.stdout.splitlines()}

    def sent(self) -> int:
        """Bytes that the controller sent to nodes."""
        words = ["ip", "netns", "exec", self.space("ctl"), "cat", "/sys/class/net/hub/statistics/tx_bytes"]
        return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    private = Path(tempfile.mkdtemp(prefix="flagplot-b-"))
    with network(COUNT, private) as prefixes:
        agents = {host: prefix for host, prefix in prefixes.items() if host != "ctl"}
        with started(agents, prefixes["ctl"], CONTROLLER_ADDRESS) as cluster:
            yield Nodes(cluster, prefixes, private)
    shutil.rmtree(private)


def bcast(nodes: Nodes, *words: str) -> subprocess.CompletedProcess[str]:
    return nodes.cluster.run("bcast", "--jobid", str(nodes.job), *words)


def left(nodes: Nodes) -> set[str]:
    """What transfers left behind."""
    return set(nodes.on(f"ls -A {nodes.private} | grep -c flagplot- || true").values())


def test_it_is_handed_on_and_checked(nodes: Nodes) -> None:
    data = os.urandom(SIZE)
    file = nodes.cluster.work / "data"
    file.write_bytes(data)
    file.chmod(0o640)
    os.utime(file, (1_000_000_000, 1_100_000_000))
    summed = hashlib.sha256(data).hexdigest()
    before = nodes.sent()
    done = bcast(nodes, "-F1", "-p", "data", f"{nodes.private}/")
    assert done.returncode == 0 and f"{nodes.private}/data is on {COUNT} nodes, sha256 {summed}" in done.stdout, (
        done.stderr
    )
    assert SIZE < nodes.sent() - before < SIZE * 1.5, "more than one copy left the controller"
    assert set(nodes.on(f"sha256sum < {nodes.private}/data").values()) == {f"{summed}  -"}
    assert set(nodes.on(f"stat -c '%a %Y %U' {nodes.private}/data").values()) == {"640 1100000000 root"}
    before = nodes.sent()
    assert bcast(nodes, "--force", "data", f"{nodes.private}/data").returncode == 0
    assert SIZE * 2 < nodes.sent() - before < SIZE * 2.5, "two, and each of them two more"
    assert left(nodes) == {"0"}


def test_each_node_that_has_it_not_says_why(nodes: Nodes) -> None:
    nodes.on(
        f"if [ $FLAGPLOT_NODE = n1 ]; then touch {nodes.private}/small; elif [ $FLAGPLOT_NODE = n4 ]; then mkdir -p {nodes.private}/small; fi"
    )
    (nodes.cluster.work / "small").write_text("word\n")
    done = bcast(nodes, "small", f"{nodes.private}/small")
    assert done.returncode == 3 and "2 of 5 nodes do not have the file" in done.stderr
    assert f"flagplot: n1: {nodes.private}/small: exists already" in done.stderr
    assert f"flagplot: n4: {nodes.private}/small: is a folder" in done.stderr
    told = nodes.on(f"cat {nodes.private}/small 2>/dev/null || echo none")
    assert {name for name, text in told.items() if text == "word"} == {"n2", "n3", "n5"}
    gone = bcast(nodes, "small", f"{nodes.private}/no/folder")
    assert gone.returncode == 3 and gone.stderr.count("No such file or directory") == COUNT


def test_a_node_that_others_cannot_reach_gets_it_from_the_controller(nodes: Nodes) -> None:
    (nodes.cluster.work / "far").write_bytes(os.urandom(SIZE))
    for host in ("n1", "n2"):
        for last in (3, 4):
            ip("-n", nodes.space(host), "route", "add", "prohibit", f"10.213.77.{last}/32")
    try:
        before = nodes.sent()
        done = bcast(nodes, "far", f"{nodes.private}/far")
        assert done.returncode == 0, done.stderr
        assert SIZE * 4 < nodes.sent() - before < SIZE * 4.5
    finally:
        for host in ("n1", "n2"):
            for last in (3, 4):
                ip("-n", nodes.space(host), "route", "delete", "prohibit", f"10.213.77.{last}/32")
    assert len(set(nodes.on(f"sha256sum < {nodes.private}/far").values())) == 1


def test_a_full_disk_is_that_nodes_alone_and_leaves_nothing(nodes: Nodes) -> None:
    nodes.on(f"rm -rf {nodes.private}/*; [ $FLAGPLOT_NODE != n2 ] || mount -o remount,size=8M {nodes.private}")
    (nodes.cluster.work / "large").write_bytes(os.urandom(9_000_000))
    try:
        done = bcast(nodes, "-F2", "large", f"{nodes.private}/large")
    finally:
        nodes.on(f"[ $FLAGPLOT_NODE != n2 ] || mount -o remount,size=50% {nodes.private}")
    assert done.returncode == 3 and "flagplot: n2: No space left on device" in done.stderr, done.stderr
    # n5 gets it from n2.
    assert "flagplot: n5: " in done.stderr and "2 of 5" in done.stderr
    assert left(nodes) == {"0"}


def test_a_client_that_leaves_has_sent_nothing(nodes: Nodes) -> None:
    fifo = nodes.cluster.work / "endless"
    os.mkfifo(fifo)
    running = subprocess.Popen(
        ["flagplot", "bcast", "--jobid", str(nodes.job), "endless", f"{nodes.private}/endless"],
        env=nodes.cluster.environment, cwd=nodes.cluster.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with fifo.open("wb") as writing:
        writing.write(bytes(1_000_000))
        writing.flush()
        running.kill()
        running.communicate(timeout=20)
    for _ in range(50):
        if left(nodes) == {"0"}:
            break
    assert left(nodes) == {"0"}
    assert set(nodes.on(f"[ -e {nodes.private}/endless ] && echo there || echo not").values()) == {"not"}
