"""Fixtures for every kind of test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster, start_cluster, wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A one-node cluster of this machine, for one test module."""
    folder = Path(tempfile.mkdtemp(prefix="flagplot-c-"))
    made = start_cluster(folder)
    yield made
    made.run("down", "--cancel-jobs")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """A demo fleet of three simulated nodes without the stream of sample jobs, for one test module."""
    folder = Path(tempfile.mkdtemp(prefix="flagplot-f-"))
    made = start_cluster(folder, "--demo", "--nodes", "3", "--no-jobs")
    wait_until(lambda: sum(node["responding"] for node in made.json("nodes")) == 3, 90, "three responding nodes")
    yield made
    made.run("down", "--cancel-jobs")
    shutil.rmtree(folder, ignore_errors=True)
