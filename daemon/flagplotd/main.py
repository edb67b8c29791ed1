"""`flagplotd`: the controller. Exit codes: 0 stopped, 1 a defect, 2 wrong usage or configuration, 3 a damaged store,
8 a store of a newer version, 9 the port, the data directory or the disk is not available."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import IO

import click

from flagplot_wire import __version__
from flagplot_wire.errors import Exit, Refused


def _folder(given: Path | None) -> Path:
    from flagplotd.store.folder import default_folder

    folder = (given or default_folder()).expanduser().absolute()
    os.environ.setdefault("NUMBA_CACHE_DIR", str(folder / "cache" / "numba"))
    return folder


_data_dir = click.option("--data-dir", type=click.Path(path_type=Path), help="The cluster's files (default: see -h).")


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=__doc__)
@click.version_option(__version__, prog_name="flagplotd")
def cli() -> None:
    """The controller of a Flagplot cluster. Its data directory is --data-dir, or $FLAGPLOT_DATA_DIR, or
    $XDG_STATE_HOME/flagplot, or ~/.local/state/flagplot."""


@cli.command()
@_data_dir
@click.option("--port", type=click.IntRange(0, 65_535), default=None, help="TCP port for SSH; 0: a free one.")
@click.option("--simulated", is_flag=True, help="Tell people that the nodes are simulated.")
@click.option("--log", "log_file", type=click.Path(path_type=Path), help="Log to this file instead of stderr.")
@click.option("--verbose", is_flag=True, help="Log more.")
def run(data_dir: Path | None, port: int | None, simulated: bool, log_file: Path | None, verbose: bool) -> None:
    """Run the controller in the foreground. SIGTERM stops it; running jobs go on."""
    import msgspec

    from flagplotd.config import load_config
    from flagplotd.ssh.keys import prepare

    _logging(log_file, verbose)
    folder = _folder(data_dir)
    try:
        config = load_config(folder / "flagplotd.toml")
        if port is not None:
            config = msgspec.structs.replace(config, port=port)
        host_key = prepare(folder)
    except OSError as wrong:
        raise Refused("unavailable", f"the data directory {folder} cannot be used: {wrong}") from wrong
    from flagplotd.controller import Controller

    async def serve() -> None:
        await Controller(folder, config, host_key, simulated).run()

    asyncio.run(serve())


@cli.command()
@_data_dir
def init(data_dir: Path | None) -> None:
    """Make the data directory and its keys, as `run` does."""
    from flagplotd.ssh.keys import prepare

    folder = _folder(data_dir)
    host_key = prepare(folder)
    click.echo(f"{folder} is ready; host key {host_key.get_fingerprint()}")


@cli.command()
@_data_dir
def warmup(data_dir: Path | None) -> None:
    """Compile the scheduler into the data directory's cache, so that the next start is quick."""
    _folder(data_dir)
    from flagplotd.sched.warmup import compile_all

    compile_all(lambda what, done, total: click.echo(f"{what}: {done}/{total}", err=True))


@cli.command()
@_data_dir
def check(data_dir: Path | None) -> None:
    """Check configuration and store; the controller must not be running."""
    from flagplotd.config import load_config
    from flagplotd.core.configured import wanted
    from flagplotd.core.invariants import check as violations
    from flagplotd.core.state import State
    from flagplotd.core.stimuli import Boot
    from flagplotd.service import clock
    from flagplotd.store import Store

    folder = _folder(data_dir)
    config = load_config(folder / "flagplotd.toml")
    state, there = State(settings=config.settings), (folder / "flagplot.db").exists()
    if there:
        store = Store(folder)
        try:
            state = store.load(config.settings)
        finally:
            store.close()
    try:
        wanted(state, Boot(state.epoch, __version__, config.partitions, config.nodes, config.records), clock.now())
    except Refused as wrong:
        raise Refused("usage", f"{folder / 'flagplotd.toml'}: {wrong.message}", wrong.hint) from wrong
    click.echo("configuration: fine")
    if not there:
        click.echo("store: there is none yet")
        return
    sentences = violations(state)
    for sentence in sentences:
        click.echo(f"store: {sentence}")
    if sentences:
        raise SystemExit(Exit.REFUSED)
    click.echo(f"store: fine ({len(state.jobs)} jobs, {len(state.nodes)} nodes, event {state.seq})")


@cli.command("add-key")
@_data_dir
@click.option("--user", help="Whose key it is.")
@click.option("--role", "roles", multiple=True, type=click.Choice(["operator", "admin"]), help="Roles of the user.")
@click.option("--node", help="Instead of a user: the nodes an agent's key may speak for; '*' for any.")
@click.argument("key_file", type=click.File("r"))
def add_key(
    data_dir: Path | None, user: str | None, roles: tuple[str, ...], node: str | None, key_file: IO[str]
) -> None:
    """Let a public key (a file, or - for standard input) log in, at once and without a restart."""
    import asyncssh

    from flagplotd.ssh.keys import add_agent_key, add_user_key

    folder = _folder(data_dir)
    text = key_file.read()
    if (user is None) == (node is None):
        raise Refused("usage", "say whose key it is: --user NAME, or --node NAME for an agent's")
    if any(character in (user or node or "") for character in '" \t\n'):
        raise Refused("usage", "names hold no spaces or quotes")
    try:
        if user is not None:
            add_user_key(folder, text, user, roles)
        else:
            add_agent_key(folder, text, node or "*")
    except (ValueError, asyncssh.KeyImportError) as wrong:
        raise Refused("usage", f"this is no public key: {wrong}", "give the .pub file") from wrong


@cli.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
@click.pass_context
def simulate(context: click.Context) -> None:
    """Replay a workload trace through the scheduler (`flagplotd simulate --help`)."""
    from flagplotd.sim.cli import main as simulator

    _folder(None)
    raise SystemExit(simulator(context.args))


def _logging(log_file: Path | None, verbose: bool) -> None:
    logging.basicConfig(
        filename=log_file,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
    )
    logging.getLogger("asyncssh").setLevel(logging.WARNING)


def entry() -> None:
    """Run a command; refusals become one sentence and their exit code."""
    try:
        cli(prog_name="flagplotd")
    except Refused as refused:
        hint = f"\n  {refused.hint}" if refused.hint else ""
        print(f"flagplotd: {refused.message}{hint}", file=sys.stderr)
        raise SystemExit(int(refused.exit)) from None


if __name__ == "__main__":
    entry()
