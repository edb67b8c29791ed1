"""Plain mpirun over two nodes: agents in network and host-name namespaces of their own, no ssh, no hostfile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster, wait_until

TAG = f"fp{os.getpid() % 100_000}"
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
  int rank, size, sum; char host[65];
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  gethostname(host, sizeof host);
  printf("rank %d of %d on %s, sum %d\n", rank, size, host, sum);
  MPI_Finalize();
  return 0;
}
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


def names() -> list[str]:
    return [f"{TAG}c", f"{TAG}n1", f"{TAG}n2"]


@pytest.fixture(scope="module")
def spaces() -> Iterator[None]:
    """Three namespaces on one bridge: the controller's and two nodes'. Nothing of the machine's own network."""
    if os.getuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces need root, ip and unshare")
    try:
        ip("netns", "add", names()[0])
    except subprocess.CalledProcessError as wrong:
        pytest.skip(f"no network namespaces here: {wrong.stderr.decode().strip()}")
    inside = ("-n", names()[0])
    folders = [Path("/etc/netns", name) for name in names()]
    try:
        ip(*inside, "link", "add", "hub", "type", "bridge")
        ip(*inside, "addr", "add", "10.213.77.254/24", "dev", "hub")
        ip(*inside, "link", "set", "hub", "up")
        ip(*inside, "link", "set", "lo", "up")
        for place, name in enumerate(names()[1:], 1):
            ip("netns", "add", name)
            ip(*inside, "link", "add", f"port{place}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip(*inside, "link", "set", f"port{place}", "master", "hub", "up")
            ip("-n", name, "addr", "add", f"10.213.77.{place}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "hosts").write_text("127.0.0.1 localhost\n10.213.77.1 n1\n10.213.77.2 n2\n10.213.77.254 ctl\n")
        yield
    finally:
        for name, folder in zip(names(), folders, strict=True):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=20)
            shutil.rmtree(folder, ignore_errors=True)


def within(name: str, host: str, words: list[str], cluster: Cluster, log: Path) -> subprocess.Popen[bytes]:
    """Start a program in a namespace, with a host name of its own."""
    inner = ["unshare", "--uts", "sh", "-c", 'hostname "$1"; shift; exec "$@"', "sh", host, *words]
    with log.open("ab") as out:
        return subprocess.Popen(
            ["ip", "netns", "exec", name, *inner], env=cluster.environment, stdout=out, stderr=out,
            stdin=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip


@pytest.fixture(scope="module")
def nodes(spaces: None) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="flagplot-m-"))
    cluster = Cluster(folder)
    data = cluster.data_dir
    data.mkdir(mode=0o700)
    (data / "logs").mkdir()
    (data / "flagplotd.toml").write_text('[controller]\nhost = "10.213.77.254"\n')
    (folder / "node.toml").write_text("sockets = 1\ncores = 4\nthreads = 1\nmemory_mib = 8192\n")
    control, *machines = names()
    started: list[subprocess.Popen[bytes]] = []
    python = [sys.executable, "-m"]
    try:
        started.append(
            within(control, "ctl", [*python, "flagplotd.main", "run", "--data-dir", str(data)], cluster,
                   data / "logs" / "controller.log")
        )  # fmt: skip
        wait_until((data / "controller.json").exists, 60, "the controller")
        for place, name in enumerate(machines, 1):
            words = [
                *python, "flagplot_agent.main", "run", "--dir", str(folder / f"n{place}"), "--node", f"n{place}",
                "--controller-file", str(data / "controller.json"), "--key", str(data / "keys" / "agent_ed25519"),
                "--host-key", str(data / "keys" / "host_ed25519.pub"), "--simulate", str(folder / "node.toml"),
            ]  # fmt: skip
            started.append(within(name, f"n{place}", words, cluster, data / "logs" / f"n{place}.log"))
        wait_until(lambda: sum(one["responding"] for one in cluster.json("nodes")) == 2, 60, "two nodes")
        yield cluster
    finally:
        for one in reversed(started):
            one.terminate()
            one.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("kind", ["mpich", "openmpi"])
def test_plain_mpirun_spans_the_nodes(nodes: Cluster, kind: str) -> None:
    compiler, launcher = shutil.which(f"mpicc.{kind}"), shutil.which(f"mpirun.{kind}")
    if compiler is None or launcher is None:
        pytest.skip(
            f"{kind} with its compiler is not installed (Debian: mpich libmpich-dev, openmpi-bin libopenmpi-dev)"
        )
    source, program = nodes.work / "ring.c", nodes.work / f"ring.{kind}"
    source.write_text(PROGRAM)
    subprocess.run([compiler, str(source), "-o", str(program)], check=True, timeout=60)
    script = nodes.work / f"{kind}.sh"
    root = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
    # No key, no data directory: the job's node is its only way to the controller.
    alone = "unset FLAGPLOT_DATA_DIR; export HOME=/nonexistent\n"
    script.write_text(
        f"#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=2 -t 5 -o {kind}.out\n{root}{alone}{launcher} {program}\n"
    )
    number = nodes.submit(str(script))
    nodes.wait_state(number, "COMPLETED", "FAILED", "TIMEOUT", seconds=60)
    output = (nodes.work / f"{kind}.out").read_text()
    assert nodes.state(number) == "COMPLETED", output
    lines = sorted(line for line in output.splitlines() if line.startswith("rank"))
    assert lines == [f"rank {rank} of 4 on n{rank // 2 + 1}, sum 6" for rank in range(4)], output
    steps: list[dict[str, Any]] = nodes.job(number)["steps"]
    assert any(one["name"] == "rsh" and one["nodes"] == ["n2"] for one in steps), json.dumps(steps)
