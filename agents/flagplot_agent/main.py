"""`flagplot-agent`: the command."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import gc
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path

from flagplot_agent.config import Config
from flagplot_agent.policies import Policies
from flagplot_agent.settings import read_settings
from flagplot_wire import __version__
from flagplot_wire.errors import Exit, Refused

LOCK_S = 5.0


def parser() -> argparse.ArgumentParser:
    """The options; flagplot-agent(8) documents each."""
    top = argparse.ArgumentParser(prog="flagplot-agent", description="The node agent of Flagplot.")
    top.add_argument("--version", action="version", version=f"flagplot-agent {__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run in the foreground")
    run.add_argument("--dir", type=Path, required=True, help="folder for attempts, logs and the keeper's socket")
    run.add_argument("--node", default=socket.gethostname().split(".")[0], help="name of this node")
    run.add_argument("--controller", default="127.0.0.1:0", help="HOST:PORT of the controller")
    run.add_argument("--controller-file", type=Path, help="controller.json to read the address from on each dial")
    run.add_argument("--key", type=Path, required=True, help="the agent's private SSH key")
    run.add_argument("--host-key", type=Path, required=True, help="the controller's public host key")
    run.add_argument("--simulate", type=Path, help="TOML file that describes hardware to simulate")
    run.add_argument("--lease", type=int, default=0, help="end jobs after so many seconds without the controller")
    run.add_argument("--config", type=Path, help="agent.toml: the site's settings (default: the one in --dir)")
    run.add_argument("--vram-guard", default="", help="warn, kill-youngest or kill-after=SECONDS")
    run.add_argument("--idle-gpus", default="", help="off, warn-after=SECONDS or end-after=SECONDS")
    check = commands.add_parser("pam-check", help="for pam_exec: let in who has a job here")
    check.add_argument("--dir", type=Path, required=True, help="folder of this node's agent")
    check.add_argument("--config", type=Path, help="agent.toml: who needs no job (default: the one in --dir)")
    show = commands.add_parser("inventory", help="print what this machine has, as JSON")
    show.add_argument("--simulate", type=Path, help="TOML file that describes hardware to simulate")
    return top


def entry() -> None:
    """The console script."""
    try:
        sys.exit(main(sys.argv[1:]))
    except Refused as refused:
        print(f"flagplot-agent: {refused.message}", file=sys.stderr)
        if refused.hint:
            print(f"  {refused.hint}", file=sys.stderr)
        sys.exit(refused.exit)


def main(argv: list[str]) -> int:
    """Run a command; returns the exit code."""
    options = parser().parse_args(argv)
    if options.command == "inventory":
        return show_inventory(options.simulate)
    if options.command == "pam-check":
        from flagplot_agent.access import pam_check

        return pam_check(options.dir, options.config, os.environ, os.getppid())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    host, _, port = options.controller.rpartition(":")
    if not port.isdecimal():
        raise Refused("usage", f"--controller {options.controller}: write HOST:PORT")
    folder: Path = options.dir.absolute()
    settings = read_settings(options.config or folder / "agent.toml", required=options.config is not None)
    config = Config(
        folder, options.node, host or "127.0.0.1", int(port), options.key, options.host_key, options.controller_file,
        options.simulate, options.lease, settings=settings, vram_guard=options.vram_guard,
        idle_gpus=options.idle_gpus,
    )  # fmt: skip
    Policies(config)
    for what, path in (("--key", config.key), ("--host-key", config.host_key)):
        if not path.is_file():
            raise Refused("usage", f"{what} {path}: there is no such file")
    lock = take(folder)
    try:
        asyncio.run(run(config))
    finally:
        os.close(lock)
    return Exit.OK


def take(folder: Path) -> int:
    """Make the agent's folder and hold it alone; returns the lock. One that is just ending gets a moment."""
    try:
        (folder / "jobs").mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as wrong:
        raise Refused("unavailable", f"cannot use {folder}: {wrong.strerror}") from wrong
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise Refused("unavailable", f"another agent works in {folder}", "stop it first") from None
            time.sleep(0.05)
        else:
            return lock


async def run(config: Config) -> None:
    """The agent, until SIGTERM: jobs go on under their keeper."""
    from flagplot_agent.loop import Agent
    from flagplot_agent.telemetry.inventory import discover
    from flagplot_agent.telemetry.nvml import binding_words
    from flagplot_agent.telemetry.sampler import Sampler

    inventory = await asyncio.to_thread(discover, config.node, config.simulate, config.settings.libraries)
    if config.simulate is None:
        logging.info("NVML binding: %s", binding_words())
    for note in inventory.notes:
        logging.info("%s", note)
    agent = Agent(config, Sampler(inventory, config.simulate))
    # What was imported stays: the collector need not look through it again and again.
    gc.freeze()
    task = asyncio.create_task(agent.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        logging.info("told to end; running jobs go on under their keeper")


def show_inventory(simulate: Path | None) -> int:
    """Print the inventory."""
    import msgspec

    from flagplot_agent.telemetry.inventory import discover

    found = msgspec.json.encode(discover(socket.gethostname(), simulate))
    print(msgspec.json.format(found).decode())
    return Exit.OK


if __name__ == "__main__":
    entry()
