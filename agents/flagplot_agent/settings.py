"""What a site says of its nodes in the agent's configuration file; flagplot-agent(8) documents each key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from flagplot_wire.errors import Refused


class Access(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may log in by SSH without a job here."""

    exempt: tuple[str, ...] = ("root",)


class Containers(Struct, frozen=True, forbid_unknown_fields=True):
    """Which programs run containers; the first that is installed does."""

    engines: tuple[Literal["podman", "apptainer", "enroot"], ...] = ("podman", "apptainer", "enroot")


class Site(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. `pids_max` is how many processes and threads a job may have on the node (0: no limit)."""

    pids_max: Annotated[int, Meta(ge=0)] = 8192
    access: Access = field(default_factory=Access)
    containers: Containers = field(default_factory=Containers)


def read_site(path: Path | None) -> Site:
    """Read the file (None: the defaults); raises `Refused` naming what is wrong in it."""
    if path is None:
        return Site()
    try:
        site = msgspec.convert(tomllib.loads(path.read_text()), Site)
    except OSError as wrong:
        raise Refused("usage", f"cannot read {path}: {wrong.strerror}") from wrong
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as wrong:
        raise Refused("usage", f"{path}: {wrong}", "flagplot-agent(8) lists the keys") from wrong
    return site
