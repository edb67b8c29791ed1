"""`flagplot status`: the controller and its agents at a glance."""

from __future__ import annotations

import asyncio
import getpass
from pathlib import Path
from typing import Any

import click
import msgspec

from flagplot.cli.common import all_meant, ask_all, cluster_option, exit_of
from flagplot.cli.up import data_dir_of
from flagplot.client import local
from flagplot.client.calls import Calls
from flagplot.output.table import table
from flagplot_wire.errors import Refused
from flagplot_wire.replies import ControllerStatus
from flagplot_wire.text import clean


@click.command("status")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of the cluster.")
@cluster_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, data_dir: Path | None, cluster: str | None, as_json: bool) -> None:
    """Show the controller, the SSH command that opens the cockpit, and the agents."""
    from flagplot.client.target import resolve

    if all_meant(context, cluster):
        _print_all(as_json)
        return
    cluster = cluster or context.find_root().params.get("cluster")
    folder = data_dir_of(context, data_dir)
    target = resolve(data_dir=data_dir or context.find_root().params.get("data_dir"), cluster=cluster)
    status = asyncio.run(_ask(target))
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(_object(status, folder))).decode())
        return
    for name, value in _lines(status, folder):
        print(f"{name:<11}{value}")


def _print_all(as_json: bool) -> None:
    """Every known cluster, those that do not answer with the reason."""
    found = ask_all(lambda calls: calls.status())
    if as_json:
        print(msgspec.json.format(msgspec.json.encode([_whole(name, one) for name, one in found.items()])).decode())
    else:
        rows = [_row(name, one) for name, one in found.items()]
        print(table(("CLUSTER", "STATE", "VERSION", "RUNNING", "PENDING", "AGENTS", "PROBLEM"), rows, right=(3, 4, 5)))
    exit_of(found)


def _whole(name: str, one: ControllerStatus | Refused) -> dict[str, Any]:
    if isinstance(one, Refused):
        return {"cluster": name, "answers": False, "problem": one.message}
    return {"cluster": name, "answers": True, **msgspec.to_builtins(one), "problem": one.problem}


def _row(name: str, one: ControllerStatus | Refused) -> list[str]:
    if isinstance(one, Refused):
        return [name, "silent", "-", "-", "-", "-", one.message]
    agents = f"{sum(agent.responding for agent in one.agents)}/{len(one.agents)}"
    state = "simulated" if one.simulated else "up"
    return [name, state, one.version, str(one.running), str(one.pending), agents, one.problem or "-"]


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
