"""Putting the tasks of a job into its container: which engine is here, and what it is given."""

from __future__ import annotations

import posixpath
import resource
import shutil
from collections.abc import Sequence
from typing import Any

from flagplot_agent.launch.recipe import Recipe
from flagplot_agent.launch.recipe_container import Wanted, command_line, going_along, parse_mounts
from flagplot_wire.agentlink import Launch
from flagplot_wire.node import Inventory

LIMITS = {"nofile": 0, "nproc": 32_768}
"""What engines are told, and the most of it (0: any): podman holds its containers to so many processes by itself."""


def installed(names: Sequence[str]) -> list[tuple[str, str]]:
    """The engines of this node in the order wanted: (name, path)."""
    return [(name, path) for name in names if (path := shutil.which(name)) is not None]


def contain(
    tasks: list[dict[str, Any]], recipe: Recipe, launch: Launch, inventory: Inventory, names: Sequence[str]
) -> None:
    """Change `tasks` to run in the job's container, where it asks for one; raises `Refused`."""
    spec = launch.spec
    if not spec.container_image:
        return
    engines = installed(names)
    real = {gpu.uuid for gpu in inventory.gpus if not gpu.simulated}
    held = launch.allocation.nodes[launch.node_index].gpus
    for task in tasks:
        script, *arguments = task["argv"]
        mounts = ((script, script, "ro"), (spec.work_dir, spec.work_dir, ""), *parse_mounts(spec.container_mounts))
        wanted = Wanted(
            spec.container_image,
            (script, *arguments),
            tuple({target: (source, target, flags) for source, target, flags in mounts}.values()),
            posixpath.join(spec.work_dir, spec.container_workdir),
            going_along(task["environment"]),
            tuple(gpu.uuid for gpu in held if gpu.uuid in real),
            tuple((name, *limits_of(name, recipe.limits, most)) for name, most in LIMITS.items()),
            recipe.uid == 0,
            bool(task["stdin"]),
        )
        task["argv"] = command_line(engines, wanted)
        task["program"] = task["argv"][0]


def limits_of(name: str, wanted: dict[str, int], most: int) -> tuple[int, int]:
    """(soft, hard) of a resource limit as the job will have it, at most `most`; engines would set their own otherwise."""
    soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
    soft = wanted.get(name.upper(), soft)
    if most:
        hard = most if hard < 0 else min(hard, most)
    return (soft if hard < 0 else hard if soft < 0 else min(soft, hard)), hard
