"""`flagplot status`: the controller and its agents at a glance."""

from __future__ import annotations

import asyncio
import getpass
from pathlib import Path
from typing import Any

import click
import msgspec

from flagplot.cli.up import data_dir_of
from flagplot.client import local
from flagplot.client.calls import Calls
from flagplot_wire.replies import ControllerStatus
from flagplot_wire.text import clean


@click.command("status")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of the cluster.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, data_dir: Path | None, as_json: bool) -> None:
    """Show the controller, the SSH command that opens the cockpit, and the agents."""
    from flagplot.client.target import resolve

    cluster = context.find_root().params.get("cluster")
    folder = data_dir_of(context, data_dir)
    target = resolve(data_dir=data_dir or context.find_root().params.get("data_dir"), cluster=cluster)
    status = asyncio.run(_ask(target))
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(_object(status, folder))).decode())
        return
    for name, value in _lines(status, folder):
        print(f"{name:<11}{value}")


async def _ask(target: Any) -> ControllerStatus:
    from flagplot.client.connection import Connection

    connection = await Connection.open(target)
    try:
        return await Calls(connection).status()
    finally:
        await connection.close()


def ssh_command(status: ControllerStatus, folder: Path) -> str:
    """The plain ssh command that opens the cockpit."""
    key = folder / "keys" / "user_ed25519"
    identity = f"-i {key} " if key.exists() else ""
    host = "localhost" if status.host in ("127.0.0.1", "::1") else clean(status.host)
    return f"ssh {identity}-p {status.port} {getpass.getuser()}@{host}"


def _object(status: ControllerStatus, folder: Path) -> dict[str, Any]:
    controller = msgspec.to_builtins(status)
    agents = controller.pop("agents", [])
    controller.pop("type", None)
    processes = local.Processes(folder)
    for agent in agents:
        agent["pid"] = processes.pid(f"agent-{agent['node']}") or agent.get("pid", 0)
    for name in ("running", "pending", "simulated", "accepting", "problem"):
        controller.setdefault(name, getattr(status, name))
    return {
        "controller": controller,
        "agents": agents,
        "running": status.running,
        "pending": status.pending,
        "data_dir": str(folder),
        "ssh": ssh_command(status, folder),
    }


def _lines(status: ControllerStatus, folder: Path) -> list[tuple[str, str]]:
    responding = sum(agent.responding for agent in status.agents)
    found = [
        ("cluster", clean(status.cluster) + (" (simulated)" if status.simulated else "")),
        ("controller", f"pid {status.pid}, version {status.version}, {status.memory_mib} MiB"),
        ("port", str(status.port)),
        ("cockpit", ssh_command(status, folder)),
        ("host key", status.host_key),
        ("data", str(folder)),
        ("jobs", f"{status.running} running, {status.pending} pending"),
        ("agents", f"{responding} of {len(status.agents)} respond"),
    ]
    found += [("", f"{clean(agent.node)} does not respond") for agent in status.agents if not agent.responding]
    if status.problem:
        found.append(("problem", clean(status.problem)))
    return found
