"""The recipe: from a launch to what is executed."""

from __future__ import annotations

from typing import Any

import msgspec

from flagplot_agent.launch.recipe import Account, Recipe, environment_of, recipe_of
from flagplot_wire.agentlink import Launch
from flagplot_wire.alloc import Allocation, GpuPart, NodeAlloc
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import JobSpec, Payload, Request
from flagplot_wire.node import Gpu, Inventory

ALICE = Account("alice", 1001, 100, "/home/alice", "/bin/zsh")
GPUS = tuple(Gpu(index, f"GPU-{index}", "a100", vram_mib=40_000, minor=7 - index) for index in range(4))
NODE = Inventory("boot", 1, 8, 1, "0-7", 64_000, gpus=GPUS)


def node_part(name: str, gpus: tuple[GpuPart, ...] = (), tasks: int = 1, first: int = 0) -> NodeAlloc:
    return NodeAlloc(name, 2, "2-3", 4_000, gpus, tasks, first)


def make(spec: JobSpec | None = None, parts: tuple[NodeAlloc, ...] = (), index: int = 0, **more: Any) -> Launch:
    spec = spec or JobSpec("train", "/home/alice/runs", partition="gpu")
    payload = more.pop("payload", Payload("#!/bin/sh\n", ("--lr", "0.1")))
    return Launch(
        Epoch(1), JobNumber(41), 2, "alice", 1001, 100, spec, payload, Allocation(parts or (node_part("gpu01"),)),
        index, more.pop("deadline_s", 600), **more,
    )  # fmt: skip


def recipe(launch: Launch, inventory: Inventory = NODE, cpus: list[int] | None = None) -> Recipe:
    return recipe_of(launch, inventory, ALICE, "/spool/41.2/script", list(range(8)) if cpus is None else cpus, 1_000)


def test_a_batch_job_has_one_task_with_its_arguments() -> None:
    made = recipe(make())
    assert [task.argv for task in made.tasks] == [["/spool/41.2/script", "--lr", "0.1"]]
    assert made.tasks[0].stdout == "/home/alice/runs/slurm-41.out" and made.tasks[0].stderr == ""
    assert (made.uid, made.gid, made.cpus, made.memory_mib, made.append) == (1001, 100, [2, 3], 4_000, False)
    assert made.notes == []


def test_cpus_that_do_not_exist_here_are_not_bound() -> None:
    made = recipe(make(), cpus=[0, 1, 2])
    assert made.cpus == [] and "simulated" in made.notes[0]


def test_file_patterns_and_array_defaults() -> None:
    spec = JobSpec("a/b", "/w", stdout="%x-%A_%4a.log", stderr="/abs/%N-%u.err", stdin="in")
    made = recipe(make(spec, array_number=JobNumber(40), array_index=7))
    task = made.tasks[0]
    assert (task.stdout, task.stderr, task.stdin) == ("/w/a_b-40_0007.log", "/abs/gpu01-alice.err", "/w/in")
    made = recipe(make(JobSpec("j", "/w"), array_number=JobNumber(40), array_index=7))
    assert made.tasks[0].stdout == "/w/slurm-40_7.out"


def test_tasks_of_the_second_node_follow_the_first() -> None:
    parts = (node_part("gpu01", tasks=2), node_part("gpu02", tasks=2, first=2))
    made = recipe(make(JobSpec("j", "/w", Request(launch="tasks")), parts, 1))
    assert [task.rank for task in made.tasks] == [2, 3] and made.append
    last = made.tasks[1].environment
    wanted = {
        "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_TASKS_PER_NODE": "2(x2)", "MASTER_ADDR": "gpu01",
        "SLURM_JOB_NODELIST": "gpu[01-02]", "SLURM_NTASKS": "4", "SLURMD_NODENAME": "gpu02",
        "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
    }  # fmt: skip
    assert {name: last.get(name) for name in wanted} == wanted
    assert made.tasks[0].environment["MASTER_PORT"] == last["MASTER_PORT"]


def test_other_nodes_of_a_batch_job_start_nothing() -> None:
    assert recipe(make(parts=(node_part("gpu01"), node_part("gpu02")), index=1)).tasks == []


def test_gpus_by_uuid_and_the_others_denied() -> None:
    held = (GpuPart(1, 8, 8, "a100", "GPU-1"), GpuPart(3, 8, 8, "a100", "GPU-3"))
    made = recipe(make(parts=(node_part("gpu01", held),)))
    found = made.tasks[0].environment
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-3" and found["SLURM_JOB_GPUS"] == "1,3"
    assert found["SLURM_GPUS_ON_NODE"] == "2" and "FLAGPLOT_SHARDS" not in found
    assert made.denied == ["c 195:7", "c 195:5"]


def test_a_job_without_gpus_sees_none_and_a_node_without_gpus_says_nothing() -> None:
    assert recipe(make()).tasks[0].environment["CUDA_VISIBLE_DEVICES"] == ""
    bare = msgspec.structs.replace(NODE, gpus=())
    assert "CUDA_VISIBLE_DEVICES" not in recipe(make(), bare).tasks[0].environment


def test_simulated_gpus_are_not_denied() -> None:
    gpus = tuple(msgspec.structs.replace(gpu, simulated=True) for gpu in GPUS)
    assert recipe(make(), msgspec.structs.replace(NODE, gpus=gpus)).denied == []


def test_a_share_comes_with_its_part_of_the_memory() -> None:
    made = recipe(make(parts=(node_part("gpu01", (GpuPart(2, 3, 8, "a100", "GPU-2"),)),)))
    found = made.tasks[0].environment
    assert (found["FLAGPLOT_SHARDS"], found["FLAGPLOT_VRAM_MIB"]) == ("3", "15000")


def test_the_submitted_environment_is_below_ours() -> None:
    submitted = {
        "PATH": "/opt/bin", "HOME": "/evil", "MINE": "1", "SLURM_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "4",
        "FLAGPLOT_FD": "7", "FLAGPLOT_DATA_DIR": "/d", "USER": "bob",
    }  # fmt: skip
    launch = make(payload=Payload("", environment=submitted))
    found = environment_of(launch, NODE, ALICE, launch.allocation.nodes[0], 0, 0, 1_000)
    assert (found["PATH"], found["HOME"], found["MINE"], found["USER"]) == ("/opt/bin", "/home/alice", "1", "alice")
    assert found["SLURM_JOB_ID"] == "41" and found["FLAGPLOT_DATA_DIR"] == "/d" and found["SHELL"] == "/bin/zsh"
    assert not {"SLURM_ARRAY_TASK_ID", "FLAGPLOT_FD"} & set(found)
    assert (found["SLURM_JOB_START_TIME"], found["SLURM_JOB_END_TIME"]) == ("1000", "1600")
    bare = environment_of(make(payload=Payload("")), NODE, ALICE, launch.allocation.nodes[0], 0, 0, 0)
    assert bare["PATH"] == "/usr/local/bin:/usr/bin:/bin"


def test_no_limit_means_no_end_time_and_no_restart_no_count() -> None:
    found = recipe(make(deadline_s=0)).tasks[0].environment
    assert "SLURM_JOB_END_TIME" not in found and "SLURM_RESTART_COUNT" not in found
    assert recipe(make(restarts=1)).tasks[0].environment["SLURM_RESTART_COUNT"] == "1"
