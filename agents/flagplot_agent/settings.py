"""`agent.toml`: what a site has its nodes do around jobs, and what it has them watch. flagplot-agent(8) tells each key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from msgspec import Struct, ValidationError, convert

from flagplot_wire.errors import Refused
from flagplot_wire.node_policy import check_node_policy

MAX_TASK_PROLOG_S = 45
"""A task that does not start within a minute is given up by the keeper."""


class HookSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[hooks]`: programs with absolute paths (empty: none) and their time limits in seconds."""

    prolog: tuple[str, ...] = ()
    epilog: tuple[str, ...] = ()
    task_prolog: str = ""
    timeout_s: int = 300
    task_prolog_timeout_s: int = 30
    plugins: tuple[str, ...] | None = None
    """Names of the installed plugins to use, in this order; all by name where nothing is said."""
    plugin_timeout_s: int = 60


class Disk(Struct, frozen=True, forbid_unknown_fields=True):
    """`[[health.disks]]`: how much of a file system must be free; both bounds hold, the per cent also for inodes."""

    path: str
    min_free_percent: int = 0
    min_free_mib: int = 0


class HealthSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[health]`: what is looked at every `interval_s`; `disks` of None is the agent's own folder, 0 switches off."""

    interval_s: int = 60
    resume: Literal["manual", "auto"] | None = None
    disks: tuple[Disk, ...] | None = None
    mounts: tuple[str, ...] = ()
    max_skew_s: int = 60
    scripts: str = ""
    script_timeout_s: int = 30
    disk_timeout_s: int = 10


class RebootSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[reboot]`: the program that reboots the machine (empty: none, such orders are refused); after `timeout_s` without
    the machine going down it failed."""

    program: str = ""
    timeout_s: int = 300


class Access(Struct, frozen=True, forbid_unknown_fields=True):
    """`[access]`: who may log in by SSH without a job here."""

    exempt: tuple[str, ...] = ("root",)


class Containers(Struct, frozen=True, forbid_unknown_fields=True):
    """`[containers]`: which programs run containers; the first that is installed does."""

    engines: tuple[Literal["podman", "apptainer", "enroot"], ...] = ("podman", "apptainer", "enroot")


class Gpus(Struct, frozen=True, forbid_unknown_fields=True):
    """`[gpus]`: policies as the options have them (empty: the controller's), and whether MPS serves shared GPUs."""

    vram_guard: str = ""
    idle: str = ""
    mps: bool = True


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. `libraries` are beginnings of names of shared libraries for the fingerprint, beside the usual ones;
    `pids_max` is how many processes and threads a job may have on the node (0: no limit)."""

    hooks: HookSettings = HookSettings()
    health: HealthSettings = HealthSettings()
    libraries: tuple[str, ...] = ()
    pids_max: int = 8192
    access: Access = Access()
    reboot: RebootSettings = RebootSettings()
    containers: Containers = Containers()
    gpus: Gpus = Gpus()


def read_settings(path: Path, required: bool) -> Settings:
    """Read the file; raises `Refused` naming what is wrong in it. One that is not there is empty unless `required`."""
    try:
        found = convert(tomllib.loads(path.read_text()), Settings)
    except FileNotFoundError as missing:
        if required:
            raise Refused("usage", f"--config {path}: there is no such file") from missing
        return Settings()
    except OSError as wrong:
        raise Refused("usage", f"cannot read {path}: {wrong.strerror}") from wrong
    except (tomllib.TOMLDecodeError, ValidationError, UnicodeDecodeError) as wrong:
        raise Refused("usage", f"{path}: {wrong}", "flagplot-agent(8) tells the keys") from wrong
    check(found, path)
    return found


def check(found: Settings, path: Path) -> None:
    """Raise `Refused` where a value has the right type and makes no sense."""
    hooks, health = found.hooks, found.health
    for key, text in (("vram_guard", found.gpus.vram_guard), ("idle_gpus", found.gpus.idle)):
        if text:
            check_node_policy(key, text)
    places = [
        *(("prolog", one) for one in hooks.prolog),
        *(("epilog", one) for one in hooks.epilog),
        *(("disks", one.path) for one in health.disks or ()),
        *(("mounts", one) for one in health.mounts),
        *([("task_prolog", hooks.task_prolog)] if hooks.task_prolog else []),
        *([("scripts", health.scripts)] if health.scripts else []),
        *([("program", found.reboot.program)] if found.reboot.program else []),
    ]
    for key, place in places:
        if not place.startswith("/"):
            raise Refused("usage", f"{path}: {key}: {place!r} is no absolute path")
    numbers = {"timeout_s": min(hooks.timeout_s, found.reboot.timeout_s), "plugin_timeout_s": hooks.plugin_timeout_s,
               "script_timeout_s": health.script_timeout_s, "disk_timeout_s": health.disk_timeout_s,
               "task_prolog_timeout_s": hooks.task_prolog_timeout_s}  # fmt: skip
    for key, value in numbers.items():
        if value < 1:
            raise Refused("usage", f"{path}: {key} = {value}: write at least 1")
    if hooks.task_prolog_timeout_s > MAX_TASK_PROLOG_S:
        raise Refused("usage", f"{path}: task_prolog_timeout_s: write at most {MAX_TASK_PROLOG_S}")
    if min(health.interval_s, health.max_skew_s, found.pids_max) < 0:
        raise Refused("usage", f"{path}: interval_s, max_skew_s and pids_max: write 0 (off) or more")
    for disk in health.disks or ():
        if not 0 <= disk.min_free_percent <= 100 or disk.min_free_mib < 0:
            raise Refused(
                "usage", f"{path}: disk {disk.path}: write min_free_percent from 0 to 100, min_free_mib from 0"
            )
