"""Plain mpirun over two nodes: agents in network and host-name namespaces of their own, no ssh, no hostfile."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.by_hand import CONTROLLER_ADDRESS, network, started
from support.cluster import Cluster

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


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with network(2) as prefixes:
        control = prefixes.pop("ctl")
        with started(prefixes, control, CONTROLLER_ADDRESS) as cluster:
            yield cluster


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
