"""Changing jobs: everything of a pending one, a few things of a running one."""

from __future__ import annotations

from typing import Any

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job, JobSpec, LicenseCount, Request
from flagplot_wire.job import State as JobState
from flagplot_wire.replies import Acted
from flagplot_wire.requests import Update
from flagplot_wire.text import clean
from flagplot_wire.units import format_limit, parse_begin, parse_memory, parse_time_limit
from flagplot_wire.values import parse_dependency, parse_gpus, parse_node_count
from flagplotd.core.dependency import circle
from flagplotd.core.gate import MAX_COMMENT, MAX_NAME, check_spec
from flagplotd.core.orders import ExtendOn
from flagplotd.core.people import each, may, targets
from flagplotd.core.state import Who
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import UpdateJobs
from flagplotd.core.values import license_counts

_WHILE_RUNNING = frozenset({"time_limit", "name", "comment", "requeue"})
MAX_SITE_FACTOR = 2**31 - 3
"""As scontrol(1) takes it."""
_OF_ELEMENTS = _WHILE_RUNNING
"""A change of a whole array goes to the elements that run already where it is made of these alone."""


def update_jobs(step: Stepper, stimulus: UpdateJobs) -> Acted:
    """Change every job named, or say for each why not."""
    request, who = stimulus.request, stimulus.who
    changed = [name for name in request.__struct_fields__ if name != "jobs" and getattr(request, name) is not None]

    def one(text: str) -> str:
        job, chosen, waiting = targets(step.state, text)
        may(who, job)
        if waiting:
            raise Refused("bad_request", "elements that wait in an array change with the whole array")
        if chosen is None:
            said = update_one(step, who, job, request, changed)
            if job.is_array and set(changed) <= _OF_ELEMENTS:
                said += _update_elements(step, who, job, request, changed)
            return said
        said = ""
        for number in chosen:
            said = update_one(step, who, step.state.jobs[number], request, changed)
        return said

    if not changed:
        raise Refused("bad_request", "nothing to change", "give for example --time-limit")
    return each(request.jobs, one)


def _update_elements(step: Stepper, who: Who, array: Job, request: Update, changed: list[str]) -> str:
    """Change an array's own jobs too; returns words about those that must stay as they are."""
    left: list[str] = []
    for number in step.state.elements.get(array.number, {}).values():
        element = step.state.jobs[number]
        if element.status.state.ended or element.status.state is JobState.COMPLETING:
            continue
        try:
            update_one(step, who, element, request, changed)
        except Refused as refused:
            left.append(f"; {element.display_id} stays: {refused.message}")
    return "".join(left[:1]) + (f" (and {len(left) - 1} more)" if len(left) > 1 else "")


def update_one(step: Stepper, who: Who, job: Job, request: Update, changed: list[str]) -> str:
    """Change one job; returns what changed in words."""
    state = job.status.state
    if state.ended or state is JobState.COMPLETING:
        raise Refused("already_ended", f"job {job.display_id} is {state}: it cannot change any more")
    if "array_limit" in changed and not job.is_array:
        raise Refused("bad_request", f"job {job.display_id} is no array")
    running = state is not JobState.PENDING and not job.is_array
    wrong = [name for name in changed if running and name not in _WHILE_RUNNING]
    if wrong:
        raise Refused(
            "not_pending", f"job {job.display_id} runs: its {wrong[0].replace('_', ' ')} cannot change any more"
        )
    if request.priority is not None and not who.operator:
        raise Refused("not_permitted", "only operators set a priority")
    if request.site_factor is not None:
        _check_site_factor(who, request.site_factor)
    spec = changed_spec(step, job.spec, request)
    if running and request.time_limit is not None:
        _check_limit(who, job, spec)
    elif not running:
        before = job.spec
        if request.dependency is not None and (way := circle(step.state, job.number, spec)):
            raise Refused("bad_dependency", f"these jobs would wait for each other: {' → '.join(map(str, way))}")
        spec = check_spec(step.state, spec, Who(job.user, job.uid, job.gid, who.roles), job)
        spec = msgspec.structs.replace(spec, hold=before.hold)
    words = ", ".join(name.replace("_", " ") for name in changed)
    step.emit(ev.JobSpecChanged(job.number, spec, f"changed {words}", who.user))
    given = {"priority": request.priority, "site_factor": request.site_factor}
    if ordered := {name: value for name, value in given.items() if value is not None}:
        step.change(step.state.jobs[job.number], "prioritised", who.user, **ordered)
    if running and request.time_limit is not None and job.status.allocation is not None:
        for node in job.status.allocation.names:
            seconds = spec.request.time_limit_s or 0
            if job.status.state is not JobState.SUSPENDED:
                slept = job.status.suspended_s if seconds else 0
                step.order(ExtendOn(node, job.number, job.status.attempt, seconds + slept))
    step.replan()
    return f"changed {words}"


def _check_site_factor(who: Who, value: int) -> None:
    if not who.operator:
        raise Refused("not_permitted", "only operators set a site factor")
    if abs(value) > MAX_SITE_FACTOR:
        raise Refused("bad_request", f"a site factor of {value}: it is -{MAX_SITE_FACTOR} to {MAX_SITE_FACTOR}")


def _check_limit(who: Who, job: Job, spec: JobSpec) -> None:
    old, new = job.time_limit_s, spec.request.time_limit_s or 0
    if (new == 0 or new > old > 0) and old != new and not who.operator:
        raise Refused("not_permitted", f"only operators may raise the limit of a running job ({format_limit(old)})")


def changed_spec(step: Stepper, spec: JobSpec, request: Update) -> JobSpec:
    """The spec with the changes read; raises `Refused` for a value that cannot be read."""
    fields: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    if request.time_limit is not None:
        inner["time_limit_s"] = parse_time_limit(request.time_limit)
    if request.cpus_per_task is not None:
        inner["cpus_per_task"] = request.cpus_per_task
    if request.memory is not None:
        inner |= {"mem_per_node_mib": parse_memory(request.memory), "mem_per_cpu_mib": None, "mem_per_gpu_mib": None}
    if request.gpus_per_node is not None:
        gpus = parse_gpus(request.gpus_per_node)
        inner |= {"gpus_per_node": gpus, "gpus": (), "gpus_per_task": (), "shards": 0, "vram_mib": 0}
    if request.nodes is not None:
        inner["nodes_min"], inner["nodes_max"] = parse_node_count(request.nodes)
    if request.licenses is not None:
        counts = license_counts(request.licenses)
        inner["licenses"] = tuple(LicenseCount(name, count) for name, count in counts)
    for name in ("partition", "nice", "requeue", "account", "qos", "reservation"):
        if getattr(request, name) is not None:
            fields[name] = getattr(request, name)
    for name in ("name", "comment"):
        if getattr(request, name) is not None:
            fields[name] = clean(getattr(request, name))[: MAX_NAME if name == "name" else MAX_COMMENT]
    if request.dependency is not None:
        fields["dependency"] = parse_dependency(request.dependency) if request.dependency else None
    if request.begin is not None:
        fields["begin"] = parse_begin(request.begin, step.now)
    if request.array_limit is not None:
        assert spec.array is not None
        fields["array"] = msgspec.structs.replace(spec.array, limit=request.array_limit)
    inner_request: Request = msgspec.structs.replace(spec.request, **inner)
    return msgspec.structs.replace(spec, request=inner_request, **fields)
