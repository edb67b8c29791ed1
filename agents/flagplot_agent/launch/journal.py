"""The attempts of a node on disk: written before exec, ended durably, kept until acknowledged.

Standard library only. One folder `NUMBER.ATTEMPT` each: `start.json` (before exec), `pids.json`, `end.json`,
and `acked` once the controller has the end.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any


class Journal:
    """The folder of attempts. An attempt is named by `NUMBER.ATTEMPT`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """An attempt's folder."""
        return self.folder / name

    def names(self) -> list[str]:
        """All attempts on disk that were begun, oldest number first."""
        found = [entry for entry in os.listdir(self.folder) if (self.folder / entry / "start.json").exists()]
        return sorted(found, key=lambda name: tuple(map(int, name.split("."))))

    def begin(self, name: str, start: dict[str, Any], script: str, uid: int) -> Path:
        """Write an attempt down before it is executed; raises OSError. Returns the script's path."""
        folder = self.path(name)
        folder.mkdir(mode=0o711)
        script_path = folder / "script"
        data = script.encode("utf-8", "surrogateescape")
        descriptor = os.open(script_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o500)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(data)
            if os.getuid() == 0:
                os.fchown(descriptor, uid, -1)
        finally:
            os.close(descriptor)
        write_durably(folder / "start.json", start)
        _sync_folder(self.folder)
        return script_path

    def start_of(self, name: str) -> dict[str, Any]:
        """What was written at the start."""
        found: dict[str, Any] = json.loads((self.path(name) / "start.json").read_text())
        return found

    def note_pids(self, name: str, pids: dict[str, int], started: int) -> None:
        """Remember pids and their start times, for a keeper that comes after."""
        write_durably(self.path(name) / "pids.json", {"pids": pids, "started": started})

    def pids_of(self, name: str) -> dict[str, Any]:
        """What `note_pids` wrote, or nothing."""
        try:
            found: dict[str, Any] = json.loads((self.path(name) / "pids.json").read_text())
        except FileNotFoundError:
            return {"pids": {}, "started": 0}
        return found

    def end(self, name: str, end: dict[str, Any]) -> None:
        """Make an end durable."""
        write_durably(self.path(name) / "end.json", end)

    def end_of(self, name: str) -> dict[str, Any] | None:
        """An attempt's end; None while it has none."""
        try:
            found: dict[str, Any] = json.loads((self.path(name) / "end.json").read_text())
        except FileNotFoundError:
            return None
        return found

    def acknowledge(self, name: str) -> None:
        """The controller has the end; the folder stays for a while, so that a repeated start is recognised."""
        folder = self.path(name)
        if folder.exists():
            (folder / "acked").touch()

    def acknowledged(self, name: str) -> bool:
        """True once the controller has the end."""
        return (self.path(name) / "acked").exists()

    def tidy(self, keep: int) -> None:
        """Remove the oldest acknowledged attempts beyond `keep`."""
        done = [name for name in self.names() if self.acknowledged(name)]
        for name in done[: max(len(done) - keep, 0)]:
            shutil.rmtree(self.path(name))


def write_durably(path: Path, value: dict[str, Any]) -> None:
    """Write JSON so that after a crash the file is whole or absent."""
    fresh = path.with_suffix(".new")
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
