"""What prolog, epilog and plugins are told of a job, and how their failures are told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from flagplot_agent.hooks.plugin import HookEnd, HookJob
from flagplot_agent.launch.recipe import Account, environment_of
from flagplot_wire.agentlink import Launch
from flagplot_wire.node import Inventory

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OF_A_TASK = frozenset({"SLURM_PROCID", "SLURM_LOCALID"})
_OURS = ("SLURM_", "SLURMD_", "CUDA_VISIBLE_DEVICES", "FLAGPLOT_ATTEMPT", "FLAGPLOT_NODE", "FLAGPLOT_SHARDS")
MAX_LINE = 200


def hook_job(launch: Launch, inventory: Inventory, account: Account, now: int) -> HookJob:
    """What hooks are told. Nothing of the submitted environment is in it: a root prolog must not obey a user.

    `FLAGPLOT_JOB_ID` is left out too: what a prolog leaves running is not the job's, which is found by that name.
    """
    part = launch.allocation.nodes[launch.node_index]
    bare = environment_of(_without_environment(launch), inventory, account, part, part.first_rank, 0, now)
    facts = {name: value for name, value in bare.items() if name.startswith(_OURS) and name not in _OF_A_TASK}
    facts |= {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "SLURM_JOB_WORK_DIR": launch.spec.work_dir,
        "SLURM_JOB_COMMENT": launch.spec.comment,
        "FLAGPLOT_UID": str(account.uid),
        "FLAGPLOT_HOME": account.home,
    }
    return HookJob(
        launch.number,
        launch.attempt,
        part.node,
        account.name,
        account.uid,
        account.gid,
        launch.spec.name,
        launch.spec.work_dir,
        tuple(gpu.uuid for gpu in part.gpus),
        {name: value.replace("\0", "") for name, value in facts.items()},
    )


def _without_environment(launch: Launch) -> Launch:
    return msgspec.structs.replace(launch, payload=msgspec.structs.replace(launch.payload, environment={}))


def hook_end(found: Mapping[str, Any]) -> HookEnd:
    """From the journal's end."""
    return HookEnd(found["cause"], found.get("exit_code", 0), found.get("signal", 0), found.get("message", ""))


def program_environment(job: HookJob, context: str, end: HookEnd | None = None) -> dict[str, str]:
    """The whole environment of a prolog (`context` is `prolog`) or an epilog, which also learns of the end."""
    found = job.facts | {"SLURM_SCRIPT_CONTEXT": f"{context}_slurmd", "FLAGPLOT_CONTEXT": context}
    if end is not None:
        found |= {
            "FLAGPLOT_CAUSE": end.cause,
            "FLAGPLOT_EXIT_CODE": str(end.exit_code),
            "FLAGPLOT_SIGNAL": str(end.signal),
            "SLURM_JOB_EXIT_CODE": str(end.signal if end.signal else end.exit_code << 8),
        }
    return found


def changed(environment: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str]:
    """A plugin's changes carried out; raises `ValueError` on what cannot be an environment."""
    found = dict(environment)
    for name, value in wanted.items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            raise ValueError("environment must give texts, or None to remove")
        if not name or "=" in name or "\0" in name or "\0" in (value or ""):
            raise ValueError(f"{name!r} cannot be set")
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


def last_line(text: str) -> str:
    """The last line that says something, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:MAX_LINE] if lines else ""


def first_line(text: str) -> str:
    """The first line that says something, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:MAX_LINE] if lines else ""
