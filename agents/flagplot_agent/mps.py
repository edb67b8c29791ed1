"""CUDA MPS for GPUs that are shared: one control daemon for each card and user, from the first such job to the last.

MPS servers serve one user at a time, and a fault in one client ends all clients of its server. So no two users have one
MPS together: the jobs of one user run side by side on the card, those of different users take turns, as without MPS.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path
from typing import Any

log = logging.getLogger("flagplot-agent")
PROGRAM = "nvidia-cuda-mps-control"
ANSWER_S = 10.0
Server = tuple[int, int]
"""(uid, index of the GPU)."""


def installed() -> bool:
    """Whether this machine has MPS."""
    return shutil.which(PROGRAM) is not None


class Mps:
    """The control daemons of this node. A recipe's `mps` names what an attempt needs: `gpu`, `uuid`, `environment`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mps"
        self._users: dict[Server, set[str]] = {}
        self._lock = asyncio.Lock()

    async def begin(self, name: str, recipe: dict[str, Any]) -> dict[str, str]:
        """Have the daemon that an attempt needs running; returns what its processes get. Raises OSError."""
        wanted = recipe["mps"]
        server = (recipe["uid"], wanted["gpu"])
        async with self._lock:
            self._users.setdefault(server, set()).add(name)
            environment = self._environment(server, wanted["uuid"])
            if await self._tell(recipe, environment, "get_server_list"):
                await asyncio.to_thread(self._folders, server, recipe["gid"])
                await self._run(recipe, environment, "-d", text="")
                wrong = await self._tell(recipe, environment, "get_server_list")
                if wrong:
                    self._users[server].discard(name)
                    raise OSError(f"{PROGRAM} does not start: {wrong}")
                log.info("MPS of GPU %d for uid %d started", server[1], server[0])
        return self.environment(recipe)

    def environment(self, recipe: dict[str, Any]) -> dict[str, str]:
        """What the processes of an attempt and of its steps get; empty without MPS."""
        wanted = recipe.get("mps")
        if not wanted or wanted.get("failed"):
            return {}
        return {"CUDA_MPS_PIPE_DIRECTORY": str(self._place((recipe["uid"], wanted["gpu"]))), **wanted["environment"]}

    async def end(self, name: str, recipe: dict[str, Any]) -> None:
        """An attempt is over: with the last of its user on its card the daemon goes."""
        wanted = recipe.get("mps")
        if not wanted:
            return
        server = (recipe["uid"], wanted["gpu"])
        async with self._lock:
            users = self._users.get(server, set())
            users.discard(name)
            if not users and server in self._users:
                del self._users[server]
                await self._quit(recipe, server, wanted["uuid"])

    def taken_up(self, name: str, recipe: dict[str, Any]) -> None:
        """An attempt that an agent before us began runs with its daemon."""
        if recipe.get("mps"):
            self._users.setdefault((recipe["uid"], recipe["mps"]["gpu"]), set()).add(name)

    async def sweep(self) -> None:
        """End what an agent before us left for attempts that are over."""
        for place in await asyncio.to_thread(lambda: sorted(self.folder.glob("*-*"))):
            uid, _, gpu = place.name.partition("-")
            server = (int(uid), int(gpu))
            async with self._lock:
                if server not in self._users:
                    await self._quit({"uid": server[0], "gid": place.stat().st_gid}, server, "")

    async def _quit(self, recipe: dict[str, Any], server: Server, uuid: str) -> None:
        wrong = await self._tell(recipe, self._environment(server, uuid), "quit")
        log.info("MPS of GPU %d for uid %d ended%s", server[1], server[0], f": {wrong}" if wrong else "")
        await asyncio.to_thread(shutil.rmtree, self._place(server), ignore_errors=True)

    def _place(self, server: Server) -> Path:
        return self.folder / f"{server[0]}-{server[1]}"

    def _environment(self, server: Server, uuid: str) -> dict[str, str]:
        place = str(self._place(server))
        return {
            "PATH": os.environ.get("PATH", os.defpath), "CUDA_VISIBLE_DEVICES": uuid,
            "CUDA_MPS_PIPE_DIRECTORY": place, "CUDA_MPS_LOG_DIRECTORY": place,
        }  # fmt: skip

    def _folders(self, server: Server, gid: int) -> None:
        self.folder.mkdir(mode=0o711, exist_ok=True)
        place = self._place(server)
        place.mkdir(mode=0o700, exist_ok=True)
        if os.getuid() == 0:
            os.chown(place, server[0], gid)

    async def _tell(self, recipe: dict[str, Any], environment: dict[str, str], command: str) -> str:
        """Give the daemon a command; empty when it took it, else what went wrong."""
        if not Path(environment["CUDA_MPS_PIPE_DIRECTORY"]).is_dir():
            return "it was never started"
        return await self._run(recipe, environment, text=command + "\n")

    async def _run(self, recipe: dict[str, Any], environment: dict[str, str], *args: str, text: str) -> str:
        """Run the control program as the user; empty when it ended well, else what it said."""
        become: dict[str, Any] = {}
        if os.getuid() == 0:
            become = {"user": recipe["uid"], "group": recipe["gid"], "extra_groups": [recipe["gid"]]}
        process = await asyncio.create_subprocess_exec(
            PROGRAM, *args, env=environment, stdin=PIPE if text else DEVNULL, stdout=PIPE if text else DEVNULL,
            stderr=STDOUT if text else DEVNULL, cwd="/", start_new_session=True, **become,
        )  # fmt: skip
        try:
            async with asyncio.timeout(ANSWER_S):
                said, _ = await process.communicate(text.encode() if text else None)
        except TimeoutError:
            process.kill()
            await process.wait()
            return f"no answer within {ANSWER_S:.0f} s"
        return "" if process.returncode == 0 else (said or b"").decode("utf-8", "replace").strip() or "it failed"
