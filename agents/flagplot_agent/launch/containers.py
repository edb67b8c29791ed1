"""Putting the tasks of a job or step into its container: which engine is here, and what it is given."""

from __future__ import annotations

import hashlib
import posixpath
import resource
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from flagplot_agent.launch.recipe import Recipe
from flagplot_agent.launch.recipe_container import Wanted, command_line, going_along, parse_mounts
from flagplot_wire.agentlink import Launch
from flagplot_wire.node import Inventory
from flagplot_wire.streams import ConnectStep

LIMITS = {"nofile": 0, "nproc": 32_768}
"""What engines are told, and the most of it (0: any): podman holds its containers to so many processes by itself."""
LOGIN = "command -v bash >/dev/null 2>&1 && exec bash -l\nexec /bin/sh -l"
"""The shell of an image: the account's own may not be there."""


class Box(Struct, frozen=True):
    """The container that tasks go into. `folders` are the node's and keep their paths; `gpus` are those held."""

    image: str
    mounts: str
    workdir: str
    folders: tuple[str, ...]
    limits: dict[str, int]
    umask: int
    root: bool
    gpus: frozenset[str]
    engines: Sequence[str]


def installed(names: Sequence[str]) -> list[tuple[str, str]]:
    """The engines of this node in the order wanted: (name, path)."""
    return [(name, path) for name in names if (path := shutil.which(name)) is not None]


def container_name(number: int, attempt: int, rank: int, script: str) -> str:
    """The name of a script's container; the script's path makes it unique among the agents of a machine."""
    return f"flagplot-{number}-{attempt}-{rank}-{hashlib.sha256(script.encode()).hexdigest()[:8]}"


def contain(
    tasks: list[dict[str, Any]], recipe: Recipe, launch: Launch, inventory: Inventory, names: Sequence[str]
) -> None:
    """Change `tasks` to run in the job's container, where it asks for one; raises `Refused`."""
    spec = launch.spec
    if not spec.container_image:
        return
    held = frozenset(gpu.uuid for gpu in launch.allocation.nodes[launch.node_index].gpus)
    box = Box(
        spec.container_image, spec.container_mounts, posixpath.join(spec.work_dir, spec.container_workdir),
        (spec.work_dir,), recipe.limits, recipe.umask, recipe.uid == 0, held & _real(inventory), names,
    )  # fmt: skip
    for task in tasks:
        script = task["argv"][0]
        name = container_name(launch.number, launch.attempt, task["rank"], script)
        _into(box, task, bool(task["stdin"]), scripts=(script,), name=name)


def contain_step(
    recipe: dict[str, Any], call: ConnectStep, inventory: Inventory, names: Sequence[str], running: Mapping[int, str]
) -> None:
    """Change a step's tasks to run in its container or the job's, where there is one; raises `Refused`.

    `running` are the scripts of the job that have containers on this node, by rank: a step of theirs goes into the
    first of them.
    """
    spec, launch = call.spec, call.launch
    assert spec is not None and launch is not None
    own = spec if spec.container_image else None
    if not (own or launch.spec.container_image) or spec.no_container:
        return
    job = launch.spec
    chosen, work_dir = own or job, recipe["work_dir"]
    join = ""
    if own is None and running:
        rank = min(running)
        join = container_name(launch.number, launch.attempt, rank, running[rank])
    for task in recipe["tasks"]:
        if not spec.argv:
            task["argv"] = ["/bin/sh", "-c", LOGIN]
        environment = task["environment"]
        held = frozenset(filter(None, environment.get("CUDA_VISIBLE_DEVICES", "").split(",")))
        box = Box(
            chosen.container_image, chosen.container_mounts, posixpath.join(work_dir, chosen.container_workdir),
            (job.work_dir, work_dir), recipe["limits"], recipe["umask"], recipe["uid"] == 0,
            held & _real(inventory), names,
        )  # fmt: skip
        stdin = bool(task["stdin"]) or recipe["pty"] or recipe["input"] in ("all", str(task["rank"]))
        _into(box, task, stdin, join=join, terminal=recipe["pty"])
    marks = ("FLAGPLOT_SOCKET", "FLAGPLOT_JOB_ID", "FLAGPLOT_ATTEMPT", "SLURM_STEP_ID")
    recipe["contained"] = [f"{name}={recipe['tasks'][0]['environment'][name]}" for name in marks]


def _real(inventory: Inventory) -> frozenset[str]:
    return frozenset(gpu.uuid for gpu in inventory.gpus if not gpu.simulated)


def _into(
    box: Box, task: dict[str, Any], stdin: bool, scripts: Iterable[str] = (), name: str = "", join: str = "",
    terminal: bool = False,
) -> None:  # fmt: skip
    own = [(script, script, "ro") for script in scripts] + [
        (folder, folder, "") for folder in box.folders if folder != "/"
    ]
    mounts = {target: (source, target, flags) for source, target, flags in (*own, *parse_mounts(box.mounts))}
    wanted = Wanted(
        box.image,
        tuple(task["argv"]),
        tuple(mounts.values()),
        box.workdir,
        going_along(task["environment"]),
        tuple(sorted(box.gpus)),
        tuple((name, *limits_of(name, box.limits, most)) for name, most in LIMITS.items()),
        box.root,
        stdin,
        name,
        join,
        terminal,
        box.umask,
    )
    task["argv"] = command_line(installed(box.engines), wanted)
    task["program"] = task["argv"][0]


def limits_of(name: str, wanted: dict[str, int], most: int) -> tuple[int, int]:
    """(soft, hard) of a resource limit as the job will have it, at most `most`; engines would set their own otherwise."""
    soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
    soft = wanted.get(name.upper(), soft)
    if most:
        hard = most if hard < 0 else min(hard, most)
    return (soft if hard < 0 else hard if soft < 0 else min(soft, hard)), hard
