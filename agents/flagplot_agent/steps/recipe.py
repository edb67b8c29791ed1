"""From a step to what is executed on this node: tasks, environment, CPUs and GPUs. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from flagplot_agent.launch.recipe import MASTER_PORT_FIRST, MASTER_PORTS, Account, environment_of, numa_of, repeats
from flagplot_wire.alloc import GpuPart
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.indices import expand_indices
from flagplot_wire.node import Inventory
from flagplot_wire.patterns import Fields, expand_pattern
from flagplot_wire.steps import StepSpec
from flagplot_wire.streams import ConnectStep

STEP_PORT_STRIDE = 17
"""Steps of one job that run at the same time get `MASTER_PORT`s of their own."""


def step_recipe(
    call: ConnectStep,
    inventory: Inventory,
    account: Account,
    machine_cpus: Sequence[int],
    used: Mapping[tuple[str, int], int],
    joins: Sequence[str],
    add: Callable[[dict[str, str]], None],
    now: int,
) -> dict[str, Any]:
    """The recipe of this node's part, as `steps.stepper` reads it.

    `used` counts how many tasks of the job's running steps were given each (`cpu` or `gpu`, index), so that steps
    beside each other get different ones while there are some. `add` puts in the variables that this node gives to all.
    """
    launch, spec = call.launch, call.spec
    assert launch is not None and spec is not None
    part = call.parts[call.part]
    node_index = launch.allocation.names.index(part.node)
    launch = msgspec.structs.replace(launch, node_index=node_index)
    held = launch.allocation.nodes[node_index]
    cpus = [cpu for cpu in (expand_indices(held.cpu_ids) if held.cpu_ids else []) if cpu in machine_cpus]
    counts = dict(used)
    tasks = []
    for local in range(part.tasks):
        rank = part.first_rank + local
        own_cpus = _least_used("cpu", cpus, spec.cpus_per_task, counts)
        own_gpus = _least_used("gpu", [gpu.index for gpu in held.gpus], spec.gpus_per_task, counts)
        gpus = tuple(gpu for gpu in held.gpus if gpu.index in own_gpus)
        bound = msgspec.structs.replace(held, gpus=gpus)
        environment = environment_of(launch, inventory, account, bound, rank, local, now)
        environment |= _step_environment(call, spec, part.tasks, rank, local, gpus)
        add(environment)
        fields = Fields(launch.number, spec.name, launch.user, part.node, node_index=call.part, task=rank)
        argv = list(spec.argv) or ["-" + posixpath.basename(account.shell)]
        tasks.append(
            {
                "rank": rank,
                "argv": argv,
                "program": argv[0] if spec.argv else account.shell,
                "environment": environment,
                "cpus": own_cpus,
                "gpus": list(own_gpus) if spec.gpus_per_task else [],
                "bound": bool(spec.cpus_per_task),
                "stdout": _path(spec.stdout, spec.work_dir, fields),
                "stderr": _path(spec.stderr, spec.work_dir, fields),
                "stdin": _path(spec.input, spec.work_dir, fields),
            }
        )
    return {
        "number": launch.number,
        "attempt": launch.attempt,
        "step": call.step,
        "node": part.node,
        "user": account.name,
        "uid": account.uid,
        "gid": account.gid,
        "work_dir": spec.work_dir or launch.spec.work_dir,
        "append": spec.append or bool(spec.stdout and "%" not in spec.stdout),
        "kill_wait_s": launch.kill_wait_s,
        "kill_on_bad_exit": spec.kill_on_bad_exit,
        "keep_left": spec.keep_left,
        "input": spec.stdin,
        "pty": spec.pty,
        "rows": spec.rows,
        "columns": spec.columns,
        "joins": list(joins),
        "umask": launch.payload.umask & 0o777,
        "limits": launch.payload.limits,
        "mems": numa_of(cpus, inventory),
        "tasks": tasks,
    }


def _least_used(kind: str, indices: list[int], count: int, counts: dict[tuple[str, int], int]) -> list[int]:
    """`count` of `indices`, those that the fewest others were given (0: all, and nothing is counted)."""
    if not count or count > len(indices):
        return indices
    chosen = sorted(sorted(indices, key=lambda index: (counts.get((kind, index), 0), index))[:count])
    for index in chosen:
        counts[kind, index] = counts.get((kind, index), 0) + 1
    return chosen


def _path(pattern: str, work_dir: str, fields: Fields) -> str:
    return posixpath.join(work_dir, expand_pattern(pattern, fields)) if pattern else ""


def _step_environment(
    call: ConnectStep, spec: StepSpec, here: int, rank: int, local: int, gpus: tuple[GpuPart, ...]
) -> dict[str, str]:
    parts, total = call.parts, sum(part.tasks for part in call.parts)
    nodes = compress_hosts([part.node for part in parts])
    per_node = repeats([part.tasks for part in parts])
    port = MASTER_PORT_FIRST + (call.number + STEP_PORT_STRIDE * (call.step + 1)) % MASTER_PORTS
    found: dict[str, Any] = {
        "SLURM_STEP_ID": call.step,
        "SLURM_STEPID": call.step,
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_NODES": len(parts),
        "SLURM_STEP_NUM_TASKS": total,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_NNODES": len(parts),
        "SLURM_NTASKS": total,
        "SLURM_NPROCS": total,
        "SLURM_PROCID": rank,
        "SLURM_LOCALID": local,
        "SLURM_NODEID": call.part,
        "RANK": rank,
        "LOCAL_RANK": local,
        "WORLD_SIZE": total,
        "LOCAL_WORLD_SIZE": here,
        "MASTER_ADDR": parts[0].node,
        "MASTER_PORT": port,
    }
    if spec.cpus_per_task:
        found["SLURM_CPUS_PER_TASK"] = spec.cpus_per_task
    if spec.gpus_per_task:
        found["SLURM_GPUS_PER_TASK"] = spec.gpus_per_task
        found["SLURM_STEP_GPUS"] = ",".join(str(gpu.index) for gpu in gpus)
    if spec.pty:
        found["TERM"] = spec.environment.get("TERM", "xterm-256color")
    return {name: str(value) for name, value in found.items() if value != ""}
