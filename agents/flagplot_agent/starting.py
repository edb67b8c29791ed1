"""The durable part of a start: what is to be executed, written down before anything is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import msgspec

from flagplot_agent.config import Config
from flagplot_agent.hooks.hooks import Hooks
from flagplot_agent.hooks.words import hook_job
from flagplot_agent.launch.account import account_of
from flagplot_agent.launch.containers import contain
from flagplot_agent.launch.journal import Journal, name_of
from flagplot_agent.launch.recipe import output_paths, recipe_of
from flagplot_agent.staging import transfers
from flagplot_agent.steps.site import add_site
from flagplot_wire.agentlink import Launch
from flagplot_wire.alloc import GpuPart
from flagplot_wire.errors import Refused
from flagplot_wire.node import Inventory


def write_down(
    launch: Launch,
    config: Config,
    inventory: Inventory,
    journal: Journal,
    hooks: Hooks,
    hold: Callable[[tuple[GpuPart, ...]], dict[str, Any]],
) -> dict[str, Any]:
    """Journal an attempt and return what was written; raises `Refused` or OSError where it cannot start here.

    `hold` tells how it is held to its part of GPU memory.
    """
    account, now = account_of(launch), int(time.time())
    check_first_line(launch.payload.script)
    name = name_of((launch.number, launch.attempt))
    script = str(journal.script(name))
    recipe = recipe_of(launch, inventory, account, script, sorted(os.sched_getaffinity(0)), now)
    recipe = msgspec.structs.replace(recipe, pids_max=config.settings.pids_max)
    stdout, stderr, _ = output_paths(launch, config.node, recipe.tasks[0].rank if recipe.tasks else 0)
    start: dict[str, Any] = {
        "recipe": msgspec.to_builtins(recipe),
        "stdout": stdout,
        "stderr": stderr,
        "nodes": len(launch.allocation.nodes),
        "gpus": msgspec.to_builtins(launch.allocation.nodes[launch.node_index].gpus),
    }
    start |= transfers(launch, account, config.node)
    tasks = start["recipe"]["tasks"]
    for task in tasks:
        add_site(task["environment"], config)
    contain(tasks, recipe, launch, inventory, config.settings.containers.engines)
    start["recipe"] |= hold(launch.allocation.nodes[launch.node_index].gpus)
    start["recipe"]["task_prolog"] = hooks.task_prolog()
    if hooks.wanted:
        start["hook_job"] = msgspec.to_builtins(hook_job(launch, inventory, account, now))
    journal.begin(name, start, launch.payload.script, account.uid)
    return start


def check_first_line(script: str) -> None:
    """Refuse what the kernel would report as a missing interpreter."""
    if script.partition("\n")[0].endswith("\r"):
        raise Refused(
            "bad_script", "user: line 1 of the script has a DOS line break (CR LF): convert it with sed 's/\\r$//'"
        )
