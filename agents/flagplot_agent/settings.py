"""What a site says of its nodes in the agent's configuration file; flagplot-agent(8) documents each key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from flagplot_wire.errors import Refused

Seconds = Annotated[int, Meta(ge=1, le=86_400)]


class Hooks(Struct, frozen=True, forbid_unknown_fields=True):
    """Programs around jobs, each run in the order given. `timeout_s` is for each of them."""

    prolog: tuple[str, ...] = ()
    epilog: tuple[str, ...] = ()
    task_prolog: tuple[str, ...] = ()
    timeout_s: Seconds = 60


class Access(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may log in by SSH without a job here."""

    exempt: tuple[str, ...] = ("root",)


class Containers(Struct, frozen=True, forbid_unknown_fields=True):
    """Which programs run containers; the first that is installed does."""

    engines: tuple[Literal["podman", "apptainer", "enroot"], ...] = ("podman", "apptainer", "enroot")


class Site(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. `pids_max` is how many processes and threads a job may have on the node (0: no limit)."""

    pids_max: Annotated[int, Meta(ge=0)] = 8192
    hooks: Hooks = field(default_factory=Hooks)
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
    relative = [one for one in _paths(site) if not one.startswith("/")]
    if relative:
        raise Refused("usage", f"{path}: {relative[0]!r} is no absolute path")
    return site


def _paths(site: Site) -> list[str]:
    return [*site.hooks.prolog, *site.hooks.epilog, *site.hooks.task_prolog]
