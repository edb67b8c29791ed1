"""Finding out about the node: file systems, mounts, the site's scripts. What hangs holds up nothing but itself."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path

from flagplot_agent.health.verdict import Free, disk_wrong, mount_points, mount_wrong, script_wrong
from flagplot_agent.hooks.programs import run_program
from flagplot_agent.hooks.words import PATH
from flagplot_agent.settings import Disk, HealthSettings

SCRIPT_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
OWN_DISK_MIB = 100
"""What must be free for attempts where the site names no disks."""


class Probe:
    """Asks one file system at a time, in a thread that may hang for ever without a second one beside it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread: threading.Thread | None = None
        self._found: Free | str = ""

    async def ask(self, limit_s: int) -> Free | str | None:
        """What `statvfs` tells, why it fails, or None where it does not answer within `limit_s`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name=f"disk {self._path}", daemon=True)
            self._thread.start()
        deadline = asyncio.get_running_loop().time() + limit_s
        while self._thread.is_alive():
            if asyncio.get_running_loop().time() >= deadline:
                return None
            await asyncio.sleep(0.01)
        self._thread = None
        return self._found

    def _look(self) -> None:
        try:
            found = os.statvfs(self._path)
        except OSError as wrong:
            self._found = f"cannot be asked: {wrong.strerror}"
            return
        free = found.f_bavail * found.f_frsize
        self._found = Free(found.f_blocks * found.f_frsize, free, found.f_files, found.f_favail)


class Checks:
    """All that a node looks at itself, but for its clock. `folder` is the agent's."""

    def __init__(self, settings: HealthSettings, folder: Path) -> None:
        self._settings = settings
        self._disks = (Disk(str(folder), 0, OWN_DISK_MIB),) if settings.disks is None else settings.disks
        self._probes = {disk.path: Probe(disk.path) for disk in self._disks}
        self._scripts = Path(settings.scripts) if settings.scripts else folder / "health.d"
        self._log = folder / "health.log"

    async def look(self, node: str) -> dict[str, str]:
        """A sentence (empty: fine) by check."""
        found = {}
        answers = await asyncio.gather(*(one.ask(self._settings.disk_timeout_s) for one in self._probes.values()))
        asked = dict(zip(self._probes, answers, strict=True))
        for number, disk in enumerate(self._disks):
            found[f"disk {disk.path} {number}"] = disk_wrong(disk, asked[disk.path])
        if self._settings.mounts:
            points = mount_points(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
            found |= {f"mount {path}": mount_wrong(path, points) for path in self._settings.mounts}
        for script in self._site_scripts():
            environment = {"PATH": PATH, "LANG": "C.UTF-8", "FLAGPLOT_NODE": node}
            limit_s = self._settings.script_timeout_s
            ran = await run_program(script, environment, limit_s, self._log, errors=False)
            found[f"script {script.name}"] = script_wrong(script.name, ran.wrong, ran.output)
        return found

    def _site_scripts(self) -> list[Path]:
        try:
            entries = sorted(self._scripts.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [one for one in entries if SCRIPT_NAME.fullmatch(one.name) and one.is_file() and os.access(one, os.X_OK)]
