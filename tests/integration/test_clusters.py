"""Two real clusters side by side: the list of both, one that falls silent, the way from one to the other, the CLI."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import BIN, Cluster, start_cluster, wait_until
from support.terminal import Terminal

from flagplot_wire.errors import Exit

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    folder = Path(tempfile.mkdtemp(prefix="flagplot-p-"))
    first, second = (start_cluster(folder / name, "--demo", "--nodes", "1", "--no-jobs") for name in ("prod", "lab"))
    home = Path(first.environment["HOME"]) / ".config" / "flagplot"
    home.mkdir(parents=True)
    key = " ".join((first.data_dir / "keys" / "host_ed25519.pub").read_text().split()[:2])
    (home / "clusters.toml").write_text(
        f'[prod]\ndata_dir = "{first.data_dir}"\ncolour = "#c0392b"\n\n'
        f'[lab]\ndata_dir = "{second.data_dir}"\ntheme = "light"\n\n'
        f'[gone]\nhost = "127.0.0.1"\nport = 1\nuser = "ada"\nhost_key = "{key}"\n'
    )
    for one in (first, second):
        wait_until(lambda one=one: all(node["responding"] for node in one.json("nodes")), 90, "a responding node")
    yield first, second
    for one in (first, second):
        one.run("down", "--cancel-jobs")
    shutil.rmtree(folder, ignore_errors=True)


def test_a_silent_cluster_stops_no_other(pair: tuple[Cluster, Cluster]) -> None:
    prod, lab = pair
    prod.submit("-H", "-J", "on-prod", "-o", "/dev/null", "--wrap", "true")
    number = lab.submit("-H", "-J", "on-lab", "-o", "/dev/null", "--wrap", "true")
    controller = lab.json("status")["controller"]["pid"]
    with Terminal([str(BIN / "flagplot")], env=prod.environment, cwd=prod.work) as terminal:
        terminal.wait_for("on-prod", "live")
        terminal.keys("K")
        terminal.wait_for("Clusters", "lab", "gone", "all: the queues")
        terminal.keys("j", "j", "j", "Enter")
        terminal.wait_for("CLUSTER", "on-prod", "on-lab", "● prod", "● lab", "✗ gone")
        os.kill(controller, signal.SIGSTOP)
        try:
            terminal.wait_for("✗ lab", "does not answer")
            prod.submit("-H", "-J", "later", "-o", "/dev/null", "--wrap", "true")
            terminal.wait_for("later", "on-lab", "✗ lab")
        finally:
            os.kill(controller, signal.SIGCONT)
        terminal.wait_for("● lab")
        terminal.keys("/")
        terminal.type("cluster:lab on-lab")
        terminal.keys("Enter")
        terminal.wait_gone("later")
        terminal.keys("Enter")
        terminal.wait_for(f"job {number}", "on-lab", "Detail")
        terminal.wait_gone("CLUSTER")
        terminal.keys(":")
        terminal.type("cluster prod")
        terminal.keys("Enter")
        terminal.wait_for("on-prod", "later", "live")
        terminal.keys("q")
        terminal.wait_exit()


def test_queue_and_status_of_all(pair: tuple[Cluster, Cluster]) -> None:
    prod, _ = pair
    for one in pair:
        one.submit("-H", "-J", "listed", "-o", "/dev/null", "--wrap", "true")
    done = prod.run("--cluster", "all", "queue")
    header, *rows = done.stdout.splitlines()
    assert done.returncode == int(Exit.NO_CONTROLLER) and header.split()[:2] == ["CLUSTER", "JOBID"]
    assert {row.split()[0] for row in rows if "listed" in row} == {"prod", "lab"}
    assert done.stderr.startswith("flagplot: gone: ")
    done = prod.run("queue", "-M", "all", "--noheader", "-o", "%j")
    assert done.stdout.splitlines()[0] == "CLUSTER: prod" and "CLUSTER: lab" in done.stdout
    assert prod.cli("queue", "-M", "lab", "--noheader", "-o", "%j").splitlines()[-1] == "listed"
    done = prod.run("status", "--cluster", "all")
    words = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}
    assert words == {"CLUSTER": "STATE", "prod": "simulated", "lab": "simulated", "gone": "silent"}
