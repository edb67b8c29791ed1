"""Fixtures for every kind of test."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from support.cluster import Cluster, start_cluster, wait_until
from support.kernels import one_cache

one_cache()
# How long an example takes says how busy the machine is, not whether it is right.
settings.register_profile("flagplot", deadline=None, print_blob=True)
settings.load_profile("flagplot")


def pytest_configure() -> None:
    """Programs that tests start hear interrupts and hang-ups, whatever started the tests ignores (a shell's `&`, nohup)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A one-node cluster of this machine, for one test module."""
    folder = Path(tempfile.mkdtemp(prefix="flagplot-c-"))
    made = start_cluster(folder)
    yield made
    made.run("down", "--cancel-jobs")
    shutil.rmtree(folder, ignore_errors=True)


def demo(nodes: int) -> Iterator[Cluster]:
    """A demo fleet without the stream of sample jobs."""
    folder = Path(tempfile.mkdtemp(prefix="flagplot-f-"))
    made = start_cluster(folder, "--demo", "--nodes", str(nodes), "--no-jobs")
    wait_until(lambda: sum(node["responding"] for node in made.json("nodes")) == nodes, 90, f"{nodes} responding nodes")
    yield made
    made.run("down", "--cancel-jobs")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """Three simulated nodes, for one test module."""
    yield from demo(3)


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    """Two simulated nodes, for one test module."""
    yield from demo(2)
