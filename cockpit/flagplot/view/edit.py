"""Changing jobs: the fields of the form, what is wrong with them, and what a change will do to each of several. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flagplot.language import later, tr
from flagplot.script.build import write_dependency
from flagplot.view.effects import in_columns
from flagplot.view.queue import job_target
from flagplot.view.words import elapsed
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job, State
from flagplot_wire.units import format_limit, parse_memory, parse_time_limit
from flagplot_wire.values import parse_dependency, parse_gpus, parse_node_count


@dataclass(frozen=True, slots=True)
class EditField:
    """A field of the form: the name in `Update`, its label, the option of `flagplot update`, an example."""

    name: str
    label: str
    option: str
    example: str = ""
    running: bool = False
    several: bool = False
    operator: bool = False


FIELDS: tuple[EditField, ...] = (
    EditField(
        "time_limit", later("Time limit"), "--time", later("2:00:00, 1-12 (days-hours) or UNLIMITED"), True, True
    ),
    EditField("name", later("Name"), "--job-name"),
    EditField("partition", later("Partition"), "--partition", several=True),
    EditField("nodes", later("Nodes"), "--nodes"),
    EditField("cpus_per_task", later("CPUs per task"), "--cpus-per-task"),
    EditField("memory", later("Memory per node"), "--mem", "16G"),
    EditField("gpus_per_node", later("GPUs per node"), "--gpus-per-node", later("2 or h100:2")),
    EditField("dependency", later("Dependency"), "--dependency", "afterok:41"),
    EditField("account", later("Account"), "--account", several=True),
    EditField("qos", later("QoS"), "--qos", several=True),
    EditField("reservation", later("Reservation"), "--reservation", several=True),
    EditField("licenses", later("Licenses"), "--licenses", "matlab:2"),
    EditField("begin", later("Not before"), "--begin", later("now+1hour or 18:00"), several=True),
    EditField("nice", later("Nice"), "--nice", "0", several=True),
    EditField(
        "priority",
        later("Priority"),
        "--priority",
        later("takes the place of what is worked out"),
        several=True,
        operator=True,
    ),
    EditField("array_limit", later("At once (array)"), "--array-limit", "2"),
    EditField("comment", later("Comment"), "--comment", "", True, True),
)
CHECKS: dict[str, Callable[[str], object]] = {
    "time_limit": parse_time_limit,
    "memory": parse_memory,
    "gpus_per_node": parse_gpus,
    "dependency": parse_dependency,
    "nodes": parse_node_count,
}
"""What reads a field, so that a mistake shows while it is typed; the controller checks again."""
NUMBERS = frozenset({"nice", "cpus_per_task", "array_limit", "priority"})
EXACT = (NUMBERS - {"priority"}) | {
    "time_limit", "name", "partition", "nodes", "account", "qos", "reservation", "licenses", "comment",
}  # fmt: skip
"""Fields whose former value can be told the way it is typed."""


def value_of(job: Job, name: str) -> str:
    """A field's present value as the person would type it."""
    spec, request = job.spec, job.spec.request
    match name:
        case "time_limit":
            return elapsed_limit(job)
        case "name" | "partition" | "comment" | "account" | "qos" | "reservation":
            return str(getattr(spec, name))
        case "nodes":
            return (
                str(request.nodes_min)
                if request.nodes_min == request.nodes_max
                else (f"{request.nodes_min}-{request.nodes_max}")
            )
        case "cpus_per_task":
            return str(request.cpus_per_task)
        case "memory":
            return "" if request.mem_per_node_mib is None else f"{request.mem_per_node_mib}M"
        case "gpus_per_node":
            return ",".join(f"{one.type}:{one.count}" if one.type else str(one.count) for one in request.gpus_per_node)
        case "dependency":
            return write_dependency(spec.dependency) if spec.dependency else ""
        case "licenses":
            return ",".join(f"{one.name}:{one.count}" for one in request.licenses)
        case "nice":
            return str(spec.nice)
        case "priority":
            return str(job.status.priority)
        case "array_limit":
            return str(spec.array.limit) if spec.array else ""
    return ""


def problem_with(field: EditField, value: str | None) -> str:
    """What is wrong with a typed value (None: it was not changed), in words (empty: nothing)."""
    if value is None:
        return ""
    if not value:
        if field.name == "time_limit":
            return tr("{field} is empty: write UNLIMITED for none").format(field=tr(field.label))
        # A name that is taken away asks for the default.
        return tr("{field} must be a whole number").format(field=tr(field.label)) if field.name in NUMBERS else ""
    if field.name in NUMBERS:
        return (
            "" if value.lstrip("-").isdecimal() else tr("{field} must be a whole number").format(field=tr(field.label))
        )
    try:
        CHECKS.get(field.name, str)(value)
    except Refused as refused:
        return refused.message
    return ""


def elapsed_limit(job: Job) -> str:
    """The time limit as `-t` takes it."""
    if job.time_limit_s == 0:
        return "UNLIMITED"
    words = elapsed(job.time_limit_s)
    return f"0:{words}" if words.count(":") == 1 and "-" not in words else words


def why_disabled(field: EditField, jobs: Sequence[Job], operator: bool) -> str:
    """Why a field cannot be changed now (empty: it can, for one of the jobs at least)."""
    if field.operator and not operator:
        return tr("operators only")
    if field.name == "array_limit" and not all(job.is_array for job in jobs):
        return tr("only of arrays")
    if len(jobs) > 1 and not field.several:
        return tr("only one job at a time")
    if not field.running and all(started(job) for job in jobs):
        return tr("only while pending")
    return ""


def started(job: Job) -> bool:
    """True when it does not wait any more."""
    return job.status.state is not State.PENDING


def effect_of(job: Job, changes: Mapping[str, str], operator: bool) -> str:
    """What a change will do to a job, or that it cannot or need not be; as the controller will decide."""
    by_name = {field.name: field for field in FIELDS}
    if job.status.state.ended or job.status.state is State.COMPLETING:
        return tr("nothing: has ended")
    if started(job) and any(not by_name[name].running for name in changes):
        return tr("cannot: has started")
    if started(job) and "time_limit" in changes and not operator and _raises(job, changes["time_limit"]):
        return tr("cannot: operators raise limits")
    words = []
    for name, value in changes.items():
        before, after = _shown(name, value_of(job, name)), _shown(name, value)
        if before != after:
            words.append(f"{tr(by_name[name].label).lower()} {before or tr('none')} → {after or tr('none')}")
    return ", ".join(words) or tr("nothing: is so already")


def _raises(job: Job, value: str) -> bool:
    new, old = parse_time_limit(value), job.time_limit_s
    return new != old and (new == 0 or new > old > 0)


def _shown(name: str, value: str) -> str:
    return format_limit(parse_time_limit(value)) if name == "time_limit" and value else value


def changed_ones(jobs: Sequence[Job], changes: Mapping[str, str], operator: bool) -> list[Job]:
    """Those that the change does something to."""
    return [job for job in jobs if not effect_of(job, changes, operator).startswith(("cannot", "nothing"))]


def edit_lines(jobs: Sequence[Job], changes: Mapping[str, str], operator: bool) -> list[str]:
    """Every job with what the change will do to it, in columns."""
    return in_columns({job_target(job): job for job in jobs}, lambda job: effect_of(job, changes, operator))
