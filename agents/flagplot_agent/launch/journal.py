"""The attempts of a node on disk: written before exec, ended durably, kept until acknowledged.

Standard library only. One folder `NUMBER.ATTEMPT` each: `start.json` (before exec), `begun.json` (by the keeper:
before the first fork, again with the pids), `limit.json` (a changed time limit), `end.json`, and `acked` once the
controller has the end. Only `start.json` and `end.json` must outlive the machine's crash, so only they are synced.
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
        """All attempts on disk that were written down, oldest number first."""
        found = [entry for entry in os.listdir(self.folder) if (self.folder / entry / "start.json").exists()]
        return sorted(found, key=key_of)

    def begin(self, name: str, start: dict[str, Any], script: str, uid: int) -> Path:
        """Write an attempt down before it is executed; raises OSError. Returns the script's path."""
        folder = self.path(name)
        if folder.exists() and not (folder / "start.json").exists():
            # An earlier try that found the disk full: nothing was started.
            shutil.rmtree(folder)
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

    def note_begun(self, name: str, begun: dict[str, Any]) -> None:
        """Remember what a keeper that comes after needs: `boot`, `pids` with their start times, `started`, …"""
        _write(self.path(name) / "begun.json", begun, durable=False)

    def begun_of(self, name: str) -> dict[str, Any] | None:
        """What `note_begun` wrote; None while no keeper has begun the attempt."""
        return _read(self.path(name) / "begun.json")

    def note_limit(self, name: str, deadline_s: int) -> None:
        """Remember a changed time limit."""
        _write(self.path(name) / "limit.json", {"deadline_s": deadline_s}, durable=False)

    def limit_of(self, name: str) -> int | None:
        """The changed time limit in seconds after the start; None while it was not changed."""
        found = _read(self.path(name) / "limit.json")
        return None if found is None else int(found["deadline_s"])

    def end(self, name: str, end: dict[str, Any]) -> None:
        """Make an end durable."""
        write_durably(self.path(name) / "end.json", end)

    def end_of(self, name: str) -> dict[str, Any] | None:
        """An attempt's end; None while it has none."""
        return _read(self.path(name) / "end.json")

    def acknowledge(self, name: str) -> None:
        """The controller has the end; the folder stays for a while, so that a repeated start is recognised."""
        folder = self.path(name)
        if folder.exists():
            (folder / "acked").touch()

    def acknowledged(self, name: str) -> bool:
        """True once the controller has the end."""
        return (self.path(name) / "acked").exists()

    def remove(self, name: str) -> None:
        """Forget an attempt that the controller has long acknowledged."""
        shutil.rmtree(self.path(name), ignore_errors=True)


def key_of(name: str) -> tuple[int, int]:
    """`41.2` → (41, 2)."""
    number, attempt = name.split(".")
    return int(number), int(attempt)


def name_of(key: tuple[int, int]) -> str:
    """(41, 2) → `41.2`."""
    return f"{key[0]}.{key[1]}"


def write_durably(path: Path, value: dict[str, Any]) -> None:
    """Write JSON so that after a crash of the machine the file is whole or as before; raises OSError."""
    _write(path, value, durable=True)


def _write(path: Path, value: dict[str, Any], durable: bool) -> None:
    fresh = path.with_suffix(".new")
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump(value, file)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(fresh, path)
    if durable:
        _sync_folder(path.parent)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return found


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
