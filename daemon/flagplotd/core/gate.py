"""Submission: who may, is it well formed, what the cluster fills in."""

from __future__ import annotations

import re

import msgspec

from flagplot_wire import constraint
from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber, parse_job_ref
from flagplot_wire.indices import has_index
from flagplot_wire.job import Job, JobSpec, Request, Status
from flagplot_wire.mail import check_mail_user, parse_mail_type
from flagplot_wire.node import Partition
from flagplot_wire.replies import Submitted
from flagplot_wire.text import clean
from flagplot_wire.units import format_limit
from flagplotd.core import transfers
from flagplotd.core.admission import ADMITTED_BY, admit
from flagplotd.core.needs import MAX_CHOICES, MAX_GPU_TYPES, MAX_GROUPS, MAX_LICENSES, seats, span
from flagplotd.core.state import State, Who
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import SubmitJob

MAX_NAME = 256
MAX_COMMENT = 1024
MAX_COUNT = 2**31 - 1
"""No count of a request is higher, so that sums and products of a plan stay within 64 bits."""
MAX_NICE = 2**31 - 3
"""As sbatch(1) takes it."""
MAX_RUNS = 5_000
_RUNS = re.compile(r"\d{1,8}(-\d{1,8})?(,\d{1,8}(-\d{1,8})?)*", re.ASCII)


def wider(request: Request) -> str:
    """What to do about a request that no nodes can hold: a hint, where its tasks may not spread (empty: nothing)."""
    least, most = span(request)
    if request.tasks <= least or least < most or request.tasks_per_node:
        return ""
    nodes = "one node" if least == 1 else f"{least} nodes"
    return f"its {request.tasks} tasks are to share {nodes}: say how many by -N"


def submit(step: Stepper, stimulus: SubmitJob) -> Submitted:
    """Accept a job; the same key of the same user answers with the job it made. Raises `Refused`."""
    state, who = step.state, stimulus.who
    known = state.by_key.get((who.user, stimulus.key))
    if known is not None and not stimulus.dry_run:
        return Submitted(known, again=True)
    if len(state.pending) + len(state.active) >= state.settings.max_jobs:
        raise Refused("too_many_jobs", f"the cluster holds its most jobs, {state.settings.max_jobs}", "try again later")
    spec = check_spec(state, stimulus.spec, who)
    if stimulus.never:
        raise Refused("never_fits", stimulus.never, wider(spec.request))
    if stimulus.dry_run:
        return Submitted(JobNumber(0))
    number = JobNumber(state.next_number)
    status = Status(
        submit_time=step.now,
        eligible_time=max(step.now, spec.begin),
        waiting=spec.array.indices if spec.array else "",
        staging=bool(spec.stage_in),
    )
    step.emit(ev.JobAdded(Job(number, who.user, who.uid, spec, status, who.gid)))
    state.by_key[who.user, stimulus.key] = number
    step.replan()
    return Submitted(number)


def check_spec(state: State, spec: JobSpec, who: Who, before: Job | None = None) -> JobSpec:
    """The spec with what the cluster fills in; raises `Refused` for what it cannot take. `before` is the job that
    it changes: what let that in is not looked at again unless it changes."""
    if not spec.work_dir.startswith("/"):
        raise Refused("bad_request", f"the working folder {clean(spec.work_dir)!r} is no absolute path")
    partition = find_partition(state, spec.partition, who)
    request = check_request(state, spec.request, partition)
    if spec.array is not None and spec.request.launch == "interactive":
        raise Refused("bad_array", "a job made for one command is no array", "flagplot submit takes --array")
    if spec.array is not None:
        check_array(state, spec)
    check_dependency(state, spec)
    transfers.check(spec)
    if abs(spec.nice) > MAX_NICE:
        raise Refused("bad_request", f"a nice value of {spec.nice}: it is -{MAX_NICE} to {MAX_NICE}")
    if spec.nice < 0 and not who.operator:
        raise Refused("not_permitted", "only operators may raise a priority (a negative --nice)")
    hold = spec.hold if spec.hold != "admin" or who.operator else "user"
    timed = spec.request.time_limit_s is not None
    mail_type, _ = parse_mail_type(",".join(spec.mail_type)) if spec.mail_type else ((), ())
    spec = msgspec.structs.replace(
        spec,
        name=clean(spec.name)[:MAX_NAME] or "job",
        comment=clean(spec.comment)[:MAX_COMMENT],
        partition=partition.name,
        request=request,
        hold=hold,
        mail_type=mail_type,
        mail_user=check_mail_user(spec.mail_user) if spec.mail_user else "",
    )
    if before is not None and all(getattr(before.spec, field) == getattr(spec, field) for field in ADMITTED_BY):
        return spec
    return admit(state, spec, who, before, timed)


def find_partition(state: State, name: str, who: Who) -> Partition:
    """The named partition, or the default one."""
    if not state.partitions:
        raise Refused("no_partition", "the cluster has no partition", "add one to flagplotd.toml")
    if not name:
        default = next((part for part in state.partitions.values() if part.default), None)
        partition = default or next(iter(state.partitions.values()))
    elif name in state.partitions:
        partition = state.partitions[name]
    else:
        there = ", ".join(state.partitions)
        raise Refused("no_partition", f"there is no partition {clean(name)!r}", f"there are: {there}")
    if partition.allow_users and who.user not in partition.allow_users and not who.operator:
        raise Refused("not_permitted", f"partition {partition.name} is not open to {who.user}")
    return partition


def check_request(state: State, request: Request, partition: Partition) -> Request:
    """Whole numbers that make sense, the partition's limits, and nodes that exist."""
    whole = request.gpus or request.gpus_per_node or request.gpus_per_task
    if (request.shards or request.vram_mib) and whole:
        raise Refused("bad_gres", "whole GPUs and a share of a GPU in one job: it may have one kind only")
    gpus = (*request.gpus, *request.gpus_per_node, *request.gpus_per_task)
    counts = (request.nodes_min, request.cpus_per_task, *(gpu.count for gpu in gpus))
    others = (
        request.tasks,
        request.tasks_per_node,
        request.shards,
        request.vram_mib,
        request.time_limit_s or 0,
        request.cpus_per_gpu,
    )
    memory = tuple(value or 0 for value in (request.mem_per_node_mib, request.mem_per_cpu_mib, request.mem_per_gpu_mib))
    if min(counts) < 1 or min(others) < 0 or min(memory) < 0:
        raise Refused("bad_request", "a count in the request is negative or zero")
    if max(*counts, *others, *memory, request.nodes_max) > MAX_COUNT:
        raise Refused("bad_request", f"a count in the request is above {MAX_COUNT}")
    if (
        max(len({gpu.type for gpu in some}) for some in (request.gpus, request.gpus_per_node, request.gpus_per_task))
        > MAX_GPU_TYPES
    ):
        raise Refused("bad_gres", f"a job may ask for at most {MAX_GPU_TYPES} types of GPUs")
    if len(seats(request)) > MAX_LICENSES:
        raise Refused("bad_request", f"a job may ask for at most {MAX_LICENSES} different licenses")
    if request.nodes_max < request.nodes_min:
        raise Refused("bad_request", f"at most {request.nodes_max} nodes is fewer than at least {request.nodes_min}")
    if request.cpus_per_gpu and not whole:
        raise Refused("bad_request", "--cpus-per-gpu goes with whole GPUs", "ask for GPUs, or for --cpus-per-task")
    request = check_constraint(request)
    for name in (*request.nodelist, *request.exclude):
        if state.nodes and name not in state.nodes:
            raise Refused("no_node", f"there is no node {clean(name)!r}", "flagplot nodes lists them")
    if partition.max_nodes and request.nodes_min > partition.max_nodes:
        raise Refused(
            "partition_limit",
            f"{request.nodes_min} nodes: partition {partition.name} gives at most {partition.max_nodes}",
        )
    limit = request.time_limit_s
    if limit is None:
        limit = partition.default_time_s or partition.max_time_s
    elif partition.max_time_s and (limit == 0 or limit > partition.max_time_s):
        raise Refused(
            "partition_limit",
            f"a time limit of {format_limit(limit)}: partition {partition.name} gives at most "
            f"{format_limit(partition.max_time_s)}",
            f"ask for -t {format_limit(partition.max_time_s)} or less",
        )
    return msgspec.structs.replace(request, time_limit_s=limit)


def check_constraint(request: Request) -> Request:
    """What a constraint asks of each node and of all together; the job has at least the nodes that it counts."""
    by_tasks = -(-request.tasks // request.tasks_per_node) if request.tasks_per_node else 0
    most = max(request.nodes_max, by_tasks)
    constraint.check(request.constraint, most)
    wanted = constraint.asked(request.constraint, most)
    words = clean(request.constraint)
    if len(wanted.choices) > MAX_CHOICES:
        raise Refused("bad_constraint", f"{words!r} has {len(wanted.choices)} alternatives, at most {MAX_CHOICES}")
    if not wanted.groups:
        return request
    if len(wanted.groups) > MAX_GROUPS:
        raise Refused("bad_constraint", f"{words!r} counts {len(wanted.groups)} kinds of nodes, at most {MAX_GROUPS}")
    if wanted.least > most and len(wanted.groups) > 2:
        raise Refused(
            "bad_constraint",
            f"{words!r} counts {wanted.least} nodes of more than two kinds, more than the {most} of the job",
            f"ask for --nodes={wanted.least}, or count two kinds at most",
        )
    if request.switches > 1:
        raise Refused(
            "bad_constraint",
            f"{words!r} counts nodes, which goes with --switches=1 alone",
            "leave --switches out: the lowest switch that has what is counted is taken",
        )
    least = max(request.nodes_min, min(wanted.least, most))
    return msgspec.structs.replace(request, nodes_min=least, nodes_max=max(request.nodes_max, least))


def check_array(state: State, spec: JobSpec) -> None:
    """An index must be below MaxArraySize, whatever their number."""
    assert spec.array is not None
    top = state.settings.max_array_size - 1
    if not spec.array.indices:
        raise Refused("bad_array", "the array names no index")
    if spec.array.limit < 0:
        raise Refused("bad_array", "the array's limit is negative", "write for example --array=0-9%2")
    if not _RUNS.fullmatch(spec.array.indices):
        raise Refused("bad_array", "an array's indices travel as plain runs such as 0-9,12")
    check_runs(spec.array.indices)
    last = -1
    for run in spec.array.indices.split(","):
        low, _, high = run.partition("-")
        if int(low) <= last or int(high or low) < int(low):
            raise Refused("bad_array", f"the array's indices are not in order at {run}")
        last = int(high or low)
    if last > top:
        raise Refused("bad_array", f"the array's index {last} is above the highest, {top} (max_array_size - 1)")


def check_runs(indices: str) -> None:
    """Refuse a list of too many pieces: it is written anew with every element that starts."""
    if indices.count(",") >= MAX_RUNS:
        raise Refused(
            "bad_array",
            f"the array's indices are {indices.count(',') + 1} separate ranges, at most {MAX_RUNS} are taken",
            "use unbroken ranges such as 0-9999, and compute the value in the script",
        )


def check_dependency(state: State, spec: JobSpec) -> None:
    """Jobs that are waited for must have existed."""
    for term in spec.dependency.terms if spec.dependency else ():
        for text in term.jobs:
            ref = parse_job_ref(text)
            if ref.number >= state.next_number:
                raise Refused("bad_dependency", f"there is no job {clean(text)} to wait for")
            if ref.indices is None:
                continue
            if len(ref.indices) != 1:
                raise Refused("bad_dependency", f"{clean(text)}: wait for the array, or name one element such as 41_3")
            target = state.jobs.get(ref.number)
            if target is not None and (
                target.spec.array is None or not has_index(target.spec.array.indices, ref.indices[0])
            ):
                raise Refused("bad_dependency", f"job {ref.number} has no element {ref.indices[0]} to wait for")
