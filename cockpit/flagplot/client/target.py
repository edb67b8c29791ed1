"""Which controller is meant: an inherited socket, a named cluster, or a data directory."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flagplot_wire.errors import Refused


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


def resolve(*, data_dir: Path | None = None, cluster: str | None = None) -> Target:
    """The controller meant: `FLAGPLOT_FD`, `--cluster`, `--data-dir`, a job's own node, the data directory."""
    if (inherited := os.environ.get("FLAGPLOT_FD")) and data_dir is None and cluster is None:
        return Target("fd", fd=int(inherited))
    if cluster:
        clusters = read_clusters()
        if cluster not in clusters:
            there = ", ".join(sorted(clusters)) or "none"
            raise Refused(
                "usage", f"there is no cluster {cluster!r} (known: {there})", "flagplot connect user@host:port"
            )
        found = clusters[cluster]
        return Target(
            "ssh",
            cluster,
            host=str(found.get("host", "")),
            port=int(str(found.get("port", 22))),
            user=str(found.get("user", "")),
            host_key=str(found.get("host_key", "")),
            key_file=str(found.get("key_file", "")),
        )
    node, job = os.environ.get("FLAGPLOT_SOCKET"), os.environ.get("FLAGPLOT_JOB_ID")
    if node and job and data_dir is None:
        return Target("node", f"job {job}'s controller", socket=node, job=job)
    folder = Path(data_dir).expanduser().absolute() if data_dir is not None else default_data_dir()
    return Target("local", folder.name, data_dir=folder)
