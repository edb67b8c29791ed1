"""Controller, agents and command line together: prologs that fail, nodes that drain themselves, nodes that differ."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster, start_cluster, wait_until

ODD = """
cores = 4
memory_mib = 1024
kernel = "5.10.0-old"
libraries = {libnccl = "2.18.5"}
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="fp-care-"))
    made = start_cluster(folder, "--demo", "--nodes", "2", "--no-jobs")
    yield made
    made.cli("down", "--cancel-jobs")
    shutil.rmtree(folder)


@pytest.fixture
def odd(cluster: Cluster) -> Iterator[Path]:
    """A third node `odd`, with hooks and health; its folder."""
    folder = cluster.data_dir / "agents" / "odd"
    (folder / "health.d").mkdir(parents=True)
    (folder / "node.toml").write_text(ODD)
    prolog = folder / "prolog"
    prolog.write_text('#!/bin/sh\n[ -e "${0%/*}/fine" ] || { echo "no scratch"; exit 1; }\n')
    prolog.chmod(0o755)
    task = folder / "task"
    task.write_text('#!/bin/sh\necho "export SITE_SCRATCH=/scratch/$SLURM_JOB_ID.$SLURM_PROCID"\n')
    task.chmod(0o755)
    reboot = folder / "reboot"
    reboot.write_text('#!/bin/sh\necho "$FLAGPLOT_REBOOT_REASON" > "${0%/*}/rebooted"\n')
    reboot.chmod(0o755)
    (folder / "agent.toml").write_text(
        f'[hooks]\ntask_prolog = "{task}"\nprolog = ["{prolog}"]\n[health]\ninterval_s = 1\nresume = "auto"\n'
        f'[reboot]\nprogram = "{reboot}"\ntimeout_s = 1\n'
    )
    keys = cluster.data_dir / "keys"
    with open(cluster.data_dir / "logs" / "agent-odd.log", "ab") as log:
        agent = subprocess.Popen(
            [
                sys.executable, "-m", "flagplot_agent.main", "run", "--dir", str(folder), "--node", "odd",
                "--controller-file", str(cluster.data_dir / "controller.json"), "--simulate", str(folder / "node.toml"),
                "--key", str(keys / "agent_ed25519"), "--host-key", str(keys / "host_ed25519.pub"),
            ],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=cluster.environment,
        )  # fmt: skip
    wait_until(lambda: any(one["name"] == "odd" for one in cluster.json("nodes")), what="the node odd")
    yield folder
    agent.terminate()
    agent.wait(20)


def node(cluster: Cluster) -> tuple[str, str, str]:
    """(state, reason, who) of the node."""
    (found,) = cluster.json("nodes", "odd")
    return found["state"], found["reason"], found["reason_user"]


def test_a_node_that_needs_care(cluster: Cluster, odd: Path) -> None:
    script = cluster.work / "job.sh"
    script.write_text("#!/bin/sh\necho ran\n")
    number = cluster.submit("-w", "odd", "-o", str(cluster.work / "job.out"), str(script))
    reason = f"prolog {odd / 'prolog'} ended with exit code 1: no scratch"
    wait_until(lambda: node(cluster) == ("DRAINED", reason, "flagplotd"), what="the drain")
    assert cluster.state(number) == "PENDING" and not (cluster.work / "job.out").exists()

    (odd / "health.d" / "10-link").write_text("#!/bin/sh\necho port 1 is down\nexit 1\n")
    (odd / "health.d" / "10-link").chmod(0o755)
    (odd / "fine").touch()
    cluster.cli("resume", "odd")
    wait_until(lambda: node(cluster) == ("DRAINED", "10-link: port 1 is down", "health"), what="the node's own drain")
    (odd / "health.d" / "10-link").unlink()
    cluster.wait_state(number, "COMPLETED")
    assert node(cluster)[1:] == ("", "") and (cluster.work / "job.out").read_text() == "ran\n"

    (odd / "prolog").write_text("#!/bin/sh\nsleep 1\n")
    ran = cluster.cli("run", "-w", "odd", "-n", "2", "-l", "printenv", "SITE_SCRATCH", "SLURM_JOB_ID")
    labelled = dict(line.split(": ") for line in sorted(ran.splitlines()) if "/scratch/" in line)
    assert [line.rpartition(".")[2] for line in labelled.values()] == ["0", "1"], ran

    drift = cluster.json("nodes", "--drift")
    kernel = next(one for one in drift if one["what"] == "kernel")
    assert kernel["differing"] == [{"value": "5.10.0-old", "nodes": ["odd"]}]
    assert (kernel["group"], kernel["reference_nodes"], kernel["nodes_compared"]) == ("all", 2, 3)
    lines = cluster.cli("nodes", "--drift").splitlines()
    assert lines[0].split() == ["WHAT", "AMONG", "NODES", "HAVE", "REFERENCE"]
    assert lines[1].split()[:5] == ["kernel", "all", "nodes", "odd", "5.10.0-old"] and lines[1].endswith("(2 of 3)")
    assert cluster.cli("nodes", "--drift", "odd") == "nothing differs among 1 node"

    cluster.cli("reboot", "odd", "-r", "new kernel")
    left = f"new kernel; did not reboot: the node is still up 1 s after {odd / 'reboot'} ended"
    wait_until(lambda: node(cluster)[:2] == ("DRAINED", left), what="the program, and the word that nothing followed")
    assert (odd / "rebooted").read_text() == "new kernel\n"
