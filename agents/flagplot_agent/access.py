"""Logins to a node: allowed while their user has a job here, and put into that job's control groups.

The helper is what `pam_exec` runs inside an SSH server; it asks the agent on a socket that root alone can reach.
Whatever goes wrong, the login is refused.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pwd
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flagplot_agent.peer import uid_of_peer
from flagplot_agent.settings import read_settings
from flagplot_wire.errors import Exit, Refused

log = logging.getLogger("flagplot-agent")
SOCKET = "access.sock"
ANSWER_S = 5.0
MAX_LINE = 64 * 1024


class AccessDoor:
    """The agent's side. `job_of` tells the newest running job of a uid: (number, files to join its groups by)."""

    def __init__(self, folder: Path, job_of: Callable[[int], tuple[int, list[str]] | None]) -> None:
        self._path = folder / SOCKET
        self._job_of = job_of
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen, for the agent's user alone. Where the path is too long for a socket, no login is let in."""
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._connected, self._path)
        except OSError as wrong:
            log.warning("logins by pam-check are refused: %s: %s", self._path, wrong)
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop listening: logins are refused."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if uid_of_peer(writer) in (0, os.getuid()):
                async with asyncio.timeout(ANSWER_S):
                    wanted = int((await reader.readline()).decode("ascii"))
                    found = self._job_of(wanted)
                    writer.write(json.dumps({"job": found and found[0], "joins": found and found[1]}).encode() + b"\n")
                    await writer.drain()
        except (TimeoutError, OSError, ValueError) as wrong:
            log.info("a question about a login ended: %s", wrong)
        finally:
            writer.close()


def pam_check(folder: Path, config: Path | None, environment: Mapping[str, str], process: int) -> int:
    """Decide about a login by the variables of pam_exec(8) and adopt `process`, the one that speaks PAM; returns the
    exit code. Raises `Refused`, which PAM takes as a refusal."""
    if environment.get("PAM_TYPE") == "close_session":
        return Exit.OK
    user = environment.get("PAM_USER", "")
    if not user:
        raise Refused("usage", "PAM_USER is not set", "pam-check is for a line with pam_exec.so")
    settings = read_settings(config or folder / "agent.toml", required=config is not None)
    if user in settings.access.exempt:
        return Exit.OK
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError as missing:
        raise Refused("not_permitted", f"there is no user {user!r} on this node") from missing
    answer = ask(folder, uid)
    if not answer.get("job"):
        raise Refused("not_permitted", f"access denied: {user} has no running job on this node")
    if not answer["joins"]:
        raise Refused("not_permitted", "access denied: this node has no control groups to hold a login in")
    for path in answer["joins"]:
        try:
            Path(path).write_text(str(process))
        except OSError as wrong:
            raise Refused(
                "unavailable", f"access denied: cannot join job {answer['job']} ({path}: {wrong.strerror})"
            ) from wrong
    print(f"flagplot: in job {answer['job']}", file=sys.stderr)
    return Exit.OK


def ask(folder: Path, uid: int) -> dict[str, Any]:
    """What the agent says of a uid; raises `Refused` where it says nothing."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_S)
            line.connect(str(folder / SOCKET))
            line.sendall(f"{uid}\n".encode())
            with line.makefile("rb") as answers:
                found = json.loads(answers.readline(MAX_LINE))
    except (OSError, ValueError) as wrong:
        raise Refused("unavailable", f"access denied: the node's agent does not answer ({wrong})") from wrong
    if not isinstance(found, dict):
        raise Refused("unavailable", "access denied: the node's agent gave no answer")
    return found
