"""What a node gives to its jobs: a way to the controller without a key, the commands, and MPI set up to use them.

A process of a job connects to the node's socket and names its job. The agent checks by the kernel's word that it
is of the job's user, and the controller then serves it as that user.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from flagplot_agent.config import Config
from flagplot_agent.peer import uid_of_peer
from flagplot_agent.steps.streams import NodeStream, Streams
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.streams import ServeClient

log = logging.getLogger("flagplot-agent")
MAX_PATH = 107
FIRST_LINE_S = 10.0


def site_environment(config: Config) -> dict[str, str]:
    """Variables of every job and step here. MPI starts its daemons through `flagplot-rsh` instead of ssh."""
    launcher = str(config.folder / "bin" / "flagplot-rsh")
    return {
        "FLAGPLOT_SOCKET": str(config.folder / "node.sock"),
        "FLAGPLOT_BIN": str(config.folder / "bin"),
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": launcher,
        "OMPI_MCA_orte_leave_session_attached": "1",
        "PRTE_MCA_prte_leave_session_attached": "1",
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_plm_ssh_agent": launcher,
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": launcher,
        "HYDRA_RMK": "slurm",
    }


def add_site(environment: dict[str, str], config: Config) -> None:
    """Put them into a task's environment, and the commands at the end of its `PATH`."""
    environment |= site_environment(config)
    environment["PATH"] = f"{environment['PATH']}:{environment['FLAGPLOT_BIN']}"


class NodeDoor:
    """The node's socket. `uid_of` tells the uid that a job runs as here; None where it does not run."""

    def __init__(self, folder: Path, streams: Streams, uid_of: Callable[[int], int | None]) -> None:
        self._folder = folder
        self._streams = streams
        self._uid_of = uid_of
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Write the commands, listen. Where the path is too long for a socket, jobs do without."""
        folder = self._folder / "bin"
        folder.mkdir(exist_ok=True)
        for name, words in (("flagplot", []), ("flagplot-rsh", ["rsh"])):
            line = shlex.join([sys.executable, "-P", "-m", "flagplot", *words])
            places = os.pathsep.join(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)
            paths = f"PYTHONPATH={shlex.quote(places)} " if places else ""
            fresh = folder / f".{name}"
            fresh.write_text(f'#!/bin/sh\n{paths}exec {line} "$@"\n')
            fresh.chmod(0o755)
            fresh.rename(folder / name)
        path = self._folder / "node.sock"
        if len(str(path).encode()) > MAX_PATH:
            log.warning("%s is too long for a socket: jobs here need keys of their own for flagplot's commands", path)
            return
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._connected, path)
        path.chmod(0o666)

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            (self._folder / "node.sock").unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream: NodeStream | None = None
        try:
            async with asyncio.timeout(FIRST_LINE_S):
                line = await reader.readline()
            word, _, number = line.decode("ascii", "replace").strip().partition(" ")
            if word != "job" or not number.isdecimal():
                return
            uid = uid_of_peer(writer)
            if self._uid_of(int(number)) != uid:
                log.warning("uid %d asked to be served as job %s, which is not theirs here", uid, number)
                return
            stream = self._streams.begin(lambda one: ServeClient(one, JobNumber(int(number))))
            await stream.join(reader, writer)
        except (Refused, TimeoutError, OSError) as wrong:
            log.info("a job's connection ended: %s", wrong)
        finally:
            if stream is not None:
                self._streams.forget(stream)
            writer.close()
