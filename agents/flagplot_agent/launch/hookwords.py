"""What hooks are told and what a task prolog says. Pure; standard library only, for the keeper uses it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HOOK_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FROM_TASK = (
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_USER", "SLURM_JOB_UID", "SLURM_JOB_GID", "SLURM_JOB_NAME",
    "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES",
    "SLURM_NODEID", "SLURM_CLUSTER_NAME", "SLURMD_NODENAME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
    "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "FLAGPLOT_JOB_ID", "FLAGPLOT_ATTEMPT", "FLAGPLOT_NODE",
)  # fmt: skip
"""What the controller and the agent wrote themselves: nothing of the submitted environment reaches a root hook."""


def hook_environment(job: Mapping[str, str], work_dir: str) -> dict[str, str]:
    """The environment of prolog and epilog, from the environment that the job's first task would have."""
    found = {name: job[name] for name in _FROM_TASK if name in job}
    return {"PATH": HOOK_PATH, "LANG": "C.UTF-8", **found, "SLURM_JOB_WORK_DIR": work_dir}


def end_environment(end: Mapping[str, Any]) -> dict[str, str]:
    """What an epilog is told beside: the wait status as Slurm writes it, and the cause."""
    code, number = int(end["exit_code"]), int(end["signal"])
    return {
        "SLURM_JOB_EXIT_CODE": str(number if number else code << 8),
        "SLURM_JOB_EXIT_CODE2": f"{0 if number else code}:{number}",
        "FLAGPLOT_JOB_CAUSE": str(end["cause"]),
    }


def obey_task_prolog(said: str, environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """(environment, lines for the task's output) after what a task prolog wrote: `export NAME=value`,
    `unset NAME`, `print text`. Other lines are ignored, as Slurm does."""
    after, lines = dict(environment), []
    for line in said.splitlines():
        verb, _, rest = line.partition(" ")
        name, equals, value = rest.partition("=")
        if verb == "print":
            lines.append(rest)
        elif verb == "export" and equals and _NAME.fullmatch(name.strip()):
            after[name.strip()] = value
        elif verb == "unset":
            after.pop(rest.strip(), None)
    return after, lines
