"""Which controller is meant: an inherited socket, a named cluster, or a data directory."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flagplot_wire.errors import Refused
from flagplot_wire.text import clean


@dataclass(frozen=True, slots=True)
class Target:
    """Where a controller is reached and by what. Fields that do not belong to the kind are empty."""

    kind: Literal["local", "ssh", "fd", "node"]
    name: str = ""
    data_dir: Path | None = None
    fd: int = -1
    host: str = ""
    port: int = 0
    user: str = ""
    host_key: str = ""
    key_file: str = ""
    socket: str = ""
    job: str = ""

    def __str__(self) -> str:
        if self.kind == "ssh":
            return f"{self.user}@{self.host}:{self.port}"
        return str(self.data_dir) if self.kind == "local" else "this session's controller"


def default_data_dir() -> Path:
    """`$FLAGPLOT_DATA_DIR`, or `flagplot` in the XDG state folder."""
    if given := os.environ.get("FLAGPLOT_DATA_DIR"):
        return Path(given).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "flagplot"


def config_dir() -> Path:
    """Where a person's own settings are."""
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "flagplot"


def clusters_file() -> Path:
    """The clusters that `flagplot connect` has pinned."""
    return config_dir() / "clusters.toml"


def read_clusters() -> dict[str, dict[str, object]]:
    """The pinned clusters by name; raises `Refused` where the file cannot be read."""
    path = clusters_file()
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError) as wrong:
        raise Refused("usage", f"{path} cannot be read: {wrong}") from wrong
    return {name: value for name, value in found.items() if isinstance(value, dict)}


@dataclass(frozen=True, slots=True)
class Entry:
    """A cluster by name: where it is, and how the cockpit on it looks and behaves."""

    name: str
    target: Target
    theme: str = ""
    colour: str = ""
    read_only: bool = False


_ENTRY: dict[str, type] = {"host": str, "port": int, "user": str, "host_key": str, "key_file": str, "data_dir": str,
                           "theme": str, "colour": str, "read_only": bool}  # fmt: skip
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
ALL = "all"
"""The name that means every cluster."""


def read_entries() -> dict[str, Entry]:
    """The clusters of `clusters.toml` by name; none in a session that reads no files. Raises `Refused` that names the
    key where something in the file is wrong."""
    if os.environ.get("FLAGPLOT_CONFINED") == "1":
        return {}
    return {name: _entry(name, found) for name, found in read_clusters().items()}


def _entry(name: str, found: dict[str, object]) -> Entry:
    where = f"{clusters_file()}: {clean(name)}"
    if name == ALL:
        raise Refused("usage", f"{where} means every cluster: give this one another name")
    for key, value in found.items():
        if key not in _ENTRY:
            raise Refused("usage", f"{where}.{clean(key)}: there is no such key", "known: " + " ".join(_ENTRY))
        if type(value) is not _ENTRY[key]:
            raise Refused("usage", f"{where}.{key} must be a {_ENTRY[key].__name__}")
    fields: dict[str, Any] = found
    colour = fields.get("colour", "")
    if colour and not _COLOUR.fullmatch(colour):
        raise Refused("usage", f"{where}.colour: {clean(colour)!r} is no colour", "such as #c0392b")
    if fields.get("data_dir"):
        target = Target("local", name, data_dir=Path(fields["data_dir"]).expanduser().absolute())
    elif fields.get("host"):
        names = ("host", "user", "host_key", "key_file")
        target = Target("ssh", name, port=fields.get("port", 22), **{key: fields.get(key, "") for key in names})
    else:
        raise Refused("usage", f"{where} has neither a host nor a data_dir")
    return Entry(name, target, fields.get("theme", ""), colour, fields.get("read_only", False))


def resolve(*, data_dir: Path | None = None, cluster: str | None = None) -> Target:
    """The controller meant: `FLAGPLOT_FD`, `--cluster`, `--data-dir`, a job's own node, the data directory."""
    if (inherited := os.environ.get("FLAGPLOT_FD")) and data_dir is None and cluster is None:
        return Target("fd", fd=int(inherited))
    if cluster:
        clusters = read_entries()
        if cluster not in clusters:
            there = ", ".join(sorted(clusters)) or "none"
            raise Refused(
                "usage", f"there is no cluster {cluster!r} (known: {there})", "flagplot connect user@host:port"
            )
        return clusters[cluster].target
    node, job = os.environ.get("FLAGPLOT_SOCKET"), os.environ.get("FLAGPLOT_JOB_ID")
    if node and job and data_dir is None:
        return Target("node", f"job {job}'s controller", socket=node, job=job)
    folder = Path(data_dir).expanduser().absolute() if data_dir is not None else default_data_dir()
    return Target("local", folder.name, data_dir=folder)
