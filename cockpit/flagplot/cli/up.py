"""`flagplot up`: a cluster on this machine in one command."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from flagplot.client import local
from flagplot.client.demo import write_fleet
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

READY_S = 60.0


def data_dir_of(context: click.Context, given: Path | None, demo: bool = False) -> Path:
    """The data directory: the command's, the program's, the environment's, or the default."""
    from flagplot.client.target import default_data_dir

    chosen = given or context.find_root().params.get("data_dir")
    if chosen is not None:
        return Path(chosen).expanduser().absolute()
    default = default_data_dir()
    if demo and not os.environ.get("FLAGPLOT_DATA_DIR"):
        return default.with_name(default.name + "-demo")
    return default


@click.command("up")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder that holds everything of this cluster.")
@click.option("--detach", is_flag=True, help="Return when the cluster is ready, without opening the cockpit.")
@click.option("--demo", is_flag=True, help="A simulated fleet with a stream of sample jobs.")
@click.option("--nodes", type=click.IntRange(1, 64), default=12, show_default=True, help="Nodes of the demo fleet.")
@click.option("--no-jobs", is_flag=True, help="A demo fleet without the stream of sample jobs.")
@click.option("--port", type=click.IntRange(1, 65_535), help="TCP port for SSH; a free one without it.")
@click.pass_context
def command(
    context: click.Context, data_dir: Path | None, detach: bool, demo: bool, nodes: int, no_jobs: bool, port: int | None
) -> None:
    """Start a cluster on this machine (or come back to it) and open the cockpit."""
    folder = data_dir_of(context, data_dir, demo)
    fleet = demo or (folder / "demo").exists()
    tell = _teller()
    _prepare(folder)
    if fleet:
        marker = folder / "demo"
        if marker.exists():
            nodes = int(marker.read_text() or nodes)
            no_jobs = no_jobs or (folder / "no-jobs").exists()
        marker.write_text(str(nodes))
        if no_jobs:
            (folder / "no-jobs").touch()
        specs = write_fleet(folder, nodes)
    local.start_controller(folder, port, fleet, tell)
    _let_own_keys_in(folder)
    if fleet:
        for name, spec in specs:
            local.start_agent(folder, name, spec)
        if not no_jobs and local.Processes(folder).pid("demo-jobs") is None:
            argv = [sys.executable, "-m", "flagplot", "--data-dir", str(folder), "demo-jobs"]
            local.Processes(folder).start("demo-jobs", argv)
    else:
        name = node_name()
        tell(f"starting the agent of {name}")
        local.start_agent(folder, name)
        asyncio.run(_wait_for_node(folder, name, tell))
    ready = local.ready_file(folder)
    port_now = ready["port"] if ready else "?"
    if detach or not sys.stdout.isatty() or not sys.stdin.isatty():
        what = f"the demo fleet of {nodes} simulated nodes" if fleet else "the cluster"
        click.echo(f"{what} is up: ssh port {port_now}, data in {folder}")
        if not detach:
            click.echo("There is no terminal here, so the cockpit stays closed; open it with: flagplot", err=True)
        return
    from flagplot.client.target import resolve
    from flagplot.tui.app import run
    from flagplot.tui.looks import Looks

    options = context.find_root().params
    read_only, theme = bool(options.get("read_only")), options.get("theme")
    sys.exit(run(resolve(data_dir=folder), read_only=read_only, theme=theme, looks=Looks.of(options)))


def _teller() -> Callable[[str], None]:
    def tell(text: str) -> None:
        click.echo(f"flagplot: {text}", err=True)

    return tell


def node_name() -> str:
    """This machine's short name, as a node."""
    return socket.gethostname().split(".")[0] or "localhost"


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as wrong:
        raise Refused("unavailable", f"cannot use {folder}: {wrong.strerror}", "choose another --data-dir") from wrong
    socket_path = folder / "controller.sock"
    if len(str(socket_path)) > 100:
        raise Refused("unavailable", f"the path {folder} is too long for a socket in it", "choose a shorter --data-dir")


def _let_own_keys_in(folder: Path) -> None:
    """Plain `ssh` with the person's own key opens the cockpit too."""
    for public in sorted(Path("~/.ssh").expanduser().glob("id_*.pub")):
        argv = [sys.executable, "-m", "flagplotd.main", "add-key", "--data-dir", str(folder),
                "--user", getpass.getuser(), "--role", "admin", str(public)]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            click.echo(f"flagplot: {public} was not let in: {clean(done.stderr.strip())}", err=True)


async def _wait_for_node(folder: Path, name: str, tell: Callable[[str], None]) -> None:
    from flagplot.client.calls import Calls
    from flagplot.client.connection import Connection
    from flagplot.client.target import resolve

    connection = await Connection.open(resolve(data_dir=folder))
    try:
        calls = Calls(connection)
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            found = await calls.nodes()
            if any(view.node.name == name and view.node.responding for view in found.nodes):
                return
            if local.Processes(folder).pid(f"agent-{name}") is None:
                end = local.Processes(folder).log_end(f"agent-{name}")
                raise Refused("unavailable", f"the agent of {name} did not start:\n{end}")
            await asyncio.sleep(0.05)
    finally:
        await connection.close()
    raise Refused("unavailable", f"the agent of {name} did not connect in {READY_S:.0f} s", f"see {folder}/logs")
