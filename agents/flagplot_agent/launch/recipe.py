"""From a `Launch` to what is executed: arguments, environment, files. Pure; nothing is read or opened."""

from __future__ import annotations

import posixpath

from msgspec import Struct

from flagplot_agent.launch.devices import denied_devices
from flagplot_wire.agentlink import Launch
from flagplot_wire.alloc import NodeAlloc
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.indices import expand_indices
from flagplot_wire.node import Inventory
from flagplot_wire.patterns import Fields, default_stdout, expand_pattern

MASTER_PORT_FIRST, MASTER_PORTS = 20_000, 10_000
"""`MASTER_PORT` follows from the job's number, so that all nodes of a gang agree."""
OWN_NAMES = ("SLURM_", "FLAGPLOT_SOCKET", "FLAGPLOT_FD", "FLAGPLOT_CONFINED", "FLAGPLOT_SHARDS", "FLAGPLOT_VRAM_MIB")
"""Submitted variables with these beginnings speak of another job or session: a job never inherits them."""


class Task(Struct, frozen=True):
    """One process to start. Paths are absolute; an empty `stderr` joins standard output."""

    rank: int
    argv: list[str]
    environment: dict[str, str]
    stdout: str
    stderr: str
    stdin: str


class Recipe(Struct, frozen=True):
    """One node's part of an attempt. Without tasks it only holds the node until it is stopped.

    Times are seconds; a `deadline_s` of 0 is no limit. `cpus` are the CPU ids to run on (empty: not bound),
    `memory_mib` is what the node's part may use (0: no limit), `denied` the devices of GPUs that it does not hold.
    `umask` and the soft `limits` are the submitter's; `mems` are the NUMA nodes of the CPUs (empty: not bound).
    `pids_max` is how many processes and threads it may have (0: no limit).
    """

    number: int
    attempt: int
    node: str
    user: str
    uid: int
    gid: int
    work_dir: str
    append: bool
    deadline_s: int
    kill_wait_s: int
    cpus: list[int]
    tasks: list[Task]
    notes: list[str]
    memory_mib: int = 0
    denied: list[str] = []
    umask: int = 0o022
    limits: dict[str, int] = {}
    mems: list[int] = []
    pids_max: int = 0


class Account(Struct, frozen=True):
    """Who a job runs as, from the password database of the node."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str


def recipe_of(
    launch: Launch, inventory: Inventory, account: Account, script: str, machine_cpus: list[int], now: int
) -> Recipe:
    """The recipe of this node's part. `machine_cpus` are the CPUs that really exist here; `now` is epoch seconds."""
    part = launch.allocation.nodes[launch.node_index]
    wanted = expand_indices(part.cpu_ids) if part.cpu_ids else []
    bound = [cpu for cpu in wanted if cpu in machine_cpus]
    notes = []
    if len(bound) < len(wanted):
        bound = []
        notes.append("not bound to CPUs: the node's CPUs are simulated")
    if account.uid != launch.uid or account.name != launch.user:
        notes.append(f"runs as {account.name}, not as {launch.user}: this node's agent is not root")
    if launch.spec.request.launch == "tasks":
        ranks = [(part.first_rank + local, local) for local in range(part.tasks)]
    elif launch.spec.request.launch == "interactive":
        ranks = []
    else:
        ranks = [(0, 0)] if launch.node_index == 0 else []
    tasks = [_task(launch, inventory, account, script, part, rank, local, now) for rank, local in ranks]
    denied = denied_devices(inventory.gpus, {gpu.index for gpu in part.gpus})
    return Recipe(
        launch.number,
        launch.attempt,
        part.node,
        account.name,
        account.uid,
        account.gid,
        launch.spec.work_dir,
        launch.spec.open_mode == "append" or launch.spec.request.launch == "tasks",
        launch.deadline_s,
        launch.kill_wait_s,
        bound,
        tasks,
        notes,
        part.memory_mib,
        denied,
        launch.payload.umask & 0o777,
        launch.payload.limits,
        numa_of(bound, inventory),
    )


def numa_of(cpus: list[int], inventory: Inventory) -> list[int]:
    """The NUMA nodes that CPUs belong to; empty where there is but one, or one is not known."""
    if len(inventory.numa) < 2:
        return []
    home = {
        cpu: node.index for node in inventory.numa for cpu in (expand_indices(node.cpu_ids) if node.cpu_ids else [])
    }
    return sorted({home[cpu] for cpu in cpus}) if all(cpu in home for cpu in cpus) else []


def _task(
    launch: Launch,
    inventory: Inventory,
    account: Account,
    script: str,
    part: NodeAlloc,
    rank: int,
    local: int,
    now: int,
) -> Task:
    environment = environment_of(launch, inventory, account, part, rank, local, now)
    stdout, stderr, stdin = output_paths(launch, part.node, rank)
    return Task(rank, [script, *launch.payload.args], environment, stdout, stderr, stdin)


def output_paths(launch: Launch, node: str, rank: int) -> tuple[str, str, str]:
    """Absolute paths of standard output, error (empty: joined) and input (empty: nothing)."""
    fields = Fields(
        launch.number,
        launch.spec.name,
        launch.user,
        node,
        launch.array_number,
        launch.array_index,
        launch.restarts,
        launch.node_index,
        rank,
    )

    def path(pattern: str) -> str:
        return posixpath.join(launch.spec.work_dir, expand_pattern(pattern, fields)) if pattern else ""

    stdout = path(launch.spec.stdout or default_stdout(launch.array_index is not None))
    return stdout, path(launch.spec.stderr), path(launch.spec.stdin)


def environment_of(
    launch: Launch, inventory: Inventory, account: Account, part: NodeAlloc, rank: int, local: int, now: int
) -> dict[str, str]:
    """The job's environment: what was submitted, below the account's, Slurm's, torchrun's and our own."""
    submitted = launch.payload.environment
    found = {name: value for name, value in submitted.items() if not name.startswith(OWN_NAMES)}
    found.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    found |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": account.shell}
    found |= _slurm(launch, part, rank, local, now)
    found |= _gpus(inventory, part)
    names = launch.allocation.names
    tasks = sum(one.tasks for one in launch.allocation.nodes)
    if launch.spec.request.launch == "tasks":
        found |= {"RANK": str(rank), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(part.tasks)}
    found |= {
        "MASTER_ADDR": names[0],
        "MASTER_PORT": str(MASTER_PORT_FIRST + launch.number % MASTER_PORTS),
        "WORLD_SIZE": str(tasks),
        "FLAGPLOT_JOB_ID": str(launch.number),
        "FLAGPLOT_ATTEMPT": str(launch.attempt),
        "FLAGPLOT_NODE": part.node,
    }
    return found


def _slurm(launch: Launch, part: NodeAlloc, rank: int, local: int, now: int) -> dict[str, str]:
    nodes = launch.allocation.nodes
    spec = launch.spec
    found = {
        "SLURM_JOB_ID": launch.number,
        "SLURM_JOBID": launch.number,
        "SLURM_JOB_NAME": spec.name,
        "SLURM_JOB_USER": launch.user,
        "SLURM_JOB_UID": launch.uid,
        "SLURM_JOB_GID": launch.gid,
        "SLURM_JOB_START_TIME": now,
        "SLURM_JOB_PARTITION": spec.partition,
        "SLURM_JOB_NODELIST": compress_hosts(launch.allocation.names),
        "SLURM_NODELIST": compress_hosts(launch.allocation.names),
        "SLURM_JOB_NUM_NODES": len(nodes),
        "SLURM_NNODES": len(nodes),
        "SLURM_NTASKS": sum(one.tasks for one in nodes),
        "SLURM_NPROCS": sum(one.tasks for one in nodes),
        "SLURM_PROCID": rank,
        "SLURM_LOCALID": local,
        "SLURM_NODEID": launch.node_index,
        "SLURM_TASKS_PER_NODE": repeats([one.tasks for one in nodes]),
        "SLURM_CPUS_PER_TASK": spec.request.cpus_per_task,
        "SLURM_CPUS_ON_NODE": part.cpus,
        "SLURM_JOB_CPUS_PER_NODE": repeats([one.cpus for one in nodes]),
        "SLURM_MEM_PER_NODE": part.memory_mib,
        "SLURM_SUBMIT_DIR": spec.work_dir,
        "SLURM_SUBMIT_HOST": launch.submit_host,
        "SLURM_CLUSTER_NAME": launch.cluster,
        "SLURMD_NODENAME": part.node,
        "SLURM_RESTART_COUNT": launch.restarts,
    }
    if launch.deadline_s:
        found["SLURM_JOB_END_TIME"] = now + launch.deadline_s
    if spec.qos:
        found["SLURM_JOB_QOS"] = spec.qos
    if spec.account:
        found["SLURM_JOB_ACCOUNT"] = spec.account
    if launch.array_index is not None:
        found |= {
            "SLURM_ARRAY_JOB_ID": launch.array_number,
            "SLURM_ARRAY_TASK_ID": launch.array_index,
            "SLURM_ARRAY_TASK_MIN": launch.array_min,
            "SLURM_ARRAY_TASK_MAX": launch.array_max,
            "SLURM_ARRAY_TASK_COUNT": launch.array_count,
        }
    return {name: str(value) for name, value in found.items() if name != "SLURM_RESTART_COUNT" or value}


def _gpus(inventory: Inventory, part: NodeAlloc) -> dict[str, str]:
    if not inventory.gpus:
        return {}
    found = {
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in part.gpus),
        "SLURM_JOB_GPUS": ",".join(str(gpu.index) for gpu in part.gpus),
        "SLURM_GPUS_ON_NODE": str(len(part.gpus)),
    }
    shares = [gpu for gpu in part.gpus if not gpu.whole]
    if shares:
        found["FLAGPLOT_SHARDS"] = str(shares[0].shards)
        vram = next((gpu.vram_mib for gpu in inventory.gpus if gpu.index == shares[0].index), None)
        if vram is not None:
            found["FLAGPLOT_VRAM_MIB"] = str(vram * shares[0].shards // shares[0].of)
    return found


def repeats(counts: list[int]) -> str:
    """Slurm's short form: `2(x3),1`."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)
