"""The attempts of a node on disk: written before exec, ended durably, kept until acknowledged.

Standard library only. For each attempt a file `NUMBER.ATTEMPT.script` and a file `NUMBER.ATTEMPT.log`, which only grows:
one line of JSON for what was written at the start, what the keeper noted (before the first fork, again with the pids), a
changed time limit, which hooks and transfers are through, the end, and its acknowledgement. The last line of a kind counts. Only start
and end must outlive the machine's crash, so only they are synced, and each costs the file system one commit.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any, Literal, get_args

SHARED = 16
SHARED_BYTES = 64 * 1024
"""Scripts that later jobs may share: so many, up to this size."""
Done = Literal["prologued", "epilogued", "staged", "sent"]
Kind = Literal["start", "begun", "limit", "end", "acked", "prologued", "epilogued", "staged", "sent"]
_BEGINS: dict[str, bytes] = {kind: f'{{"{kind}": '.encode() for kind in get_args(Kind)}


class Journal:
    """The folder of attempts. An attempt is named by `NUMBER.ATTEMPT`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._root = str(folder)
        self._same: dict[tuple[bytes, int], Path] = {}
        """Where the last different scripts are, by content and uid."""

    def script(self, name: str) -> Path:
        """Where an attempt's script is."""
        return self.folder / f"{name}.script"

    def hooks(self, name: str) -> Path:
        """A folder for what an attempt's hooks leave, made here."""
        folder = self.folder / f"{name}.hooks"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def names(self) -> list[str]:
        """All attempts on disk that were written down, oldest number first."""
        logs = [entry.removesuffix(".log") for entry in os.listdir(self.folder) if entry.endswith(".log")]
        return sorted((name for name in logs if self._last(name, "start") is not None), key=key_of)

    def begin(self, name: str, start: dict[str, Any], script: str, uid: int) -> Path:
        """Write an attempt down; raises OSError. `sync_starts` makes it durable, which must be before it is executed.
        Returns the script's path."""
        if self._last(name, "start") is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        # What an earlier try left that found the disk full: nothing was started.
        self.remove(name)
        script_path = self._put_script(name, script.encode("utf-8", "surrogateescape"), uid)
        self._append(name, "start", start, os.O_CREAT | os.O_EXCL)
        return script_path

    def _put_script(self, name: str, script: bytes, uid: int) -> Path:
        """Write a script down. That of many jobs of a user is the same: they share one file under many names, which
        spares the file system what costs it most."""
        path = self.script(name)
        same = self._same.get((script, uid))
        if same is not None and _is_still(same, script, uid):
            try:
                os.link(same, path)
                return path
            except OSError as wrong:
                # No links here, or too many of them.
                if wrong.errno not in (errno.ENOENT, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP):
                    raise
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o500)
        try:
            _write_all(descriptor, script)
            if os.getuid() == 0 and uid != 0:
                os.fchown(descriptor, uid, -1)
        finally:
            os.close(descriptor)
        if len(script) <= SHARED_BYTES:
            self._same.pop((script, uid), None)
            self._same[script, uid] = path
            if len(self._same) > SHARED:
                del self._same[next(iter(self._same))]
        return path

    def sync_starts(self, names: list[str]) -> dict[str, OSError]:
        """Make starts durable; returns what went wrong with some of them."""
        wrong: dict[str, OSError] = {}
        for name in names:
            try:
                self.sync(name)
            except OSError as failed:
                wrong[name] = failed
        try:
            _sync_folder(self.folder)
        except OSError as failed:
            wrong |= dict.fromkeys(names, failed)
        return wrong

    def start_of(self, name: str) -> dict[str, Any]:
        """What was written at the start."""
        found: dict[str, Any] = self._last(name, "start")
        return found

    def change_start(self, name: str, start: dict[str, Any]) -> None:
        """Put another start in the place of the first, durably."""
        self._append(name, "start", start)
        self.sync(name)

    def note_begun(self, name: str, begun: dict[str, Any]) -> None:
        """Remember what a keeper that comes after needs: `boot`, `pids` with their start times, `started`, …"""
        self._append(name, "begun", begun)

    def begun_of(self, name: str) -> dict[str, Any] | None:
        """What `note_begun` wrote; None while no keeper has begun the attempt."""
        found: dict[str, Any] | None = self._last(name, "begun")
        return found

    def note_limit(self, name: str, deadline_s: int) -> None:
        """Remember a changed time limit."""
        self._append(name, "limit", deadline_s)

    def limit_of(self, name: str) -> int | None:
        """The changed time limit in seconds after the start; None while it was not changed."""
        found: int | None = self._last(name, "limit")
        return found

    def note_end(self, name: str, end: dict[str, Any]) -> None:
        """Write an end down; `sync` makes it durable."""
        self._append(name, "end", end)

    def end(self, name: str, end: dict[str, Any]) -> None:
        """Make an end durable."""
        self.note_end(name, end)
        self.sync(name)

    def end_of(self, name: str) -> dict[str, Any] | None:
        """An attempt's end; None while it has none."""
        found: dict[str, Any] | None = self._last(name, "end")
        return found

    def acknowledge(self, name: str) -> None:
        """The controller has the end; the files stay for a while, so that a repeated start is recognised."""
        try:
            self._append(name, "acked", 1)
        except FileNotFoundError:
            # Never written down (the disk was full), or forgotten already.
            return

    def acknowledged(self, name: str) -> bool:
        """True once the controller has the end."""
        return self._last(name, "acked") is not None

    def remove(self, name: str) -> None:
        """Forget an attempt that the controller has long acknowledged."""
        for kind in ("script", "log"):
            try:
                os.unlink(f"{self._root}/{name}.{kind}")
            except FileNotFoundError:
                continue
        hooks = f"{self._root}/{name}.hooks"
        if os.path.isdir(hooks):
            for entry in os.listdir(hooks):
                os.unlink(f"{hooks}/{entry}")
            os.rmdir(hooks)

    def note_done(self, name: str, what: Done) -> None:
        """Remember that the hooks or the transfers before or after an attempt are through."""
        self._append(name, what, 1)

    def done(self, name: str, what: Done) -> bool:
        """Whether they are."""
        return self._last(name, what) is not None

    def sync(self, name: str) -> None:
        """Make what was written of an attempt durable. After the first of many the others find the disk done with it."""
        descriptor = os.open(f"{self._root}/{name}.log", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _append(self, name: str, kind: Kind, value: Any, flags: int = 0) -> None:
        """A line begins with a line break, so that one that a full disk cut short spoils no other."""
        data = b"\n" + _BEGINS[kind] + json.dumps(value).encode() + b"}\n"
        descriptor = os.open(f"{self._root}/{name}.log", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)

    def _last(self, name: str, kind: Kind) -> Any:
        try:
            with open(f"{self._root}/{name}.log", "rb", buffering=0) as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return None
        for line in reversed(lines):
            if line.startswith(_BEGINS[kind]):
                try:
                    return json.loads(line)[kind]
                except ValueError:
                    # Cut short: it counts as not written.
                    continue
        return None


def _is_still(path: Path, script: bytes, uid: int) -> bool:
    """Whether a file is as a script was written: its owner may have changed it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        own = os.getuid()
        if (found.st_uid, found.st_mode & 0o7777, found.st_size) != (uid if own == 0 else own, 0o500, len(script)):
            return False
        return os.read(descriptor, len(script) + 1) == script
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def key_of(name: str) -> tuple[int, int]:
    """`41.2` → (41, 2)."""
    number, attempt = name.split(".")
    return int(number), int(attempt)


def name_of(key: tuple[int, int]) -> str:
    """(41, 2) → `41.2`."""
    return f"{key[0]}.{key[1]}"


def write_durably(path: Path, value: dict[str, Any]) -> None:
    """Write JSON so that after a crash of the machine the file is whole or as before; raises OSError."""
    fresh = path.with_suffix(".new")
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
