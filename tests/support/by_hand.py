"""A controller and agents started one by one, each behind a command of its own (a namespace, say)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.cluster import Cluster, wait_until

NODE = "sockets = 1\ncores = 4\nthreads = 1\nmemory_mib = 8192\n"


@contextmanager
def started(
    agents: Mapping[str, Sequence[str]], controller: Sequence[str] = (), host: str = "127.0.0.1", node: str = NODE
) -> Iterator[Cluster]:
    """A cluster whose agents (by node, with the command that each is started by) have joined; ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="flagplot-m-"))
    cluster = Cluster(folder)
    data = cluster.data_dir
    data.mkdir(mode=0o700)
    (data / "logs").mkdir()
    (data / "flagplotd.toml").write_text(f'[controller]\nhost = "{host}"\n')
    (folder / "node.toml").write_text(node)
    running: list[subprocess.Popen[bytes]] = []

    def start(prefix: Sequence[str], name: str, words: list[str]) -> None:
        with (data / "logs" / f"{name}.log").open("ab") as out:
            running.append(
                subprocess.Popen(
                    [*prefix, sys.executable, "-m", *words], env=cluster.environment, stdout=out, stderr=out,
                    stdin=subprocess.DEVNULL, cwd="/",
                )
            )  # fmt: skip

    try:
        start(controller, "controller", ["flagplotd.main", "run", "--data-dir", str(data)])
        wait_until((data / "controller.json").exists, 60, "the controller")
        for name, prefix in agents.items():
            words = [
                "flagplot_agent.main", "run", "--dir", str(folder / name), "--node", name, "--controller-file",
                str(data / "controller.json"), "--key", str(data / "keys" / "agent_ed25519"), "--host-key",
                str(data / "keys" / "host_ed25519.pub"), "--simulate", str(folder / "node.toml"),
            ]  # fmt: skip
            start(prefix, name, words)
        wait_until(lambda: sum(one["responding"] for one in cluster.json("nodes")) == len(agents), 60, "the nodes")
        yield cluster
    finally:
        _end_jobs(cluster)
        for one in reversed(running):
            one.terminate()
            one.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _end_jobs(cluster: Cluster) -> None:
    """Cancel all jobs: a keeper outlives its agent for as long as one runs."""

    def left() -> list[str]:
        asked = cluster.run("queue", "--json")
        jobs = json.loads(asked.stdout) if asked.returncode == 0 else []
        return [str(one["job_id"]) for one in jobs]

    if found := left():
        cluster.run("cancel", *found)
        wait_until(lambda: not left(), 60, "the end of all jobs")


def ip(*words: str) -> None:
    """One command of ip(8)."""
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


CONTROLLER_ADDRESS = "10.213.77.254"


@contextmanager
def network(count: int, private: Path | None = None) -> Iterator[dict[str, list[str]]]:
    """Network namespaces on one bridge: the controller's (`ctl`) and those of `count` nodes (`n1`, …); nothing of the
    machine's own network. Yields by host name the command that starts a program there, with that host name and a folder
    `private` of its own."""
    if os.getuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces need root, ip and unshare")
    tag = f"fp{os.getpid() % 100_000}"
    hosts = {"ctl": CONTROLLER_ADDRESS, **{f"n{place}": f"10.213.77.{place}" for place in range(1, count + 1)}}
    spaces = {host: f"{tag}{host}" for host in hosts}
    control = spaces["ctl"]
    try:
        ip("netns", "add", control)
    except subprocess.CalledProcessError as wrong:
        pytest.skip(f"no network namespaces here: {wrong.stderr.decode().strip()}")
    folders = [Path("/etc/netns", name) for name in spaces.values()]
    try:
        ip("-n", control, "link", "add", "hub", "type", "bridge")
        ip("-n", control, "addr", "add", f"{CONTROLLER_ADDRESS}/24", "dev", "hub")
        ip("-n", control, "link", "set", "hub", "up")
        ip("-n", control, "link", "set", "lo", "up")
        for place, (host, name) in enumerate(spaces.items()):
            if host == "ctl":
                continue
            ip("netns", "add", name)
            ip("-n", control, "link", "add", f"port{place}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", control, "link", "set", f"port{place}", "master", "hub", "up")
            ip("-n", name, "addr", "add", f"{hosts[host]}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        table = "127.0.0.1 localhost\n" + "".join(f"{address} {host}\n" for host, address in hosts.items())
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "hosts").write_text(table)
        apart = f"mount -t tmpfs tmpfs {private}; " if private is not None else ""
        renamed = ["unshare", "--uts", "--mount", "sh", "-c", f'{apart}hostname "$1"; shift; exec "$@"', "sh"]
        yield {host: ["ip", "netns", "exec", name, *renamed, host] for host, name in spaces.items()}
    finally:
        for name, folder in zip(spaces.values(), folders, strict=True):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=20)
            shutil.rmtree(folder, ignore_errors=True)
