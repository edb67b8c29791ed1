"""From options to a job: what a script and a command line say, put together (the command line wins)."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from flagplot.script.lexer import check_script, directives
from flagplot.script.options import Draft, Given, When, read_words
from flagplot_wire import constraint
from flagplot_wire.errors import Refused
from flagplot_wire.job import Dependency, JobSpec, Payload, Request
from flagplot_wire.text import clean

_REQUEST = frozenset(Request.__struct_fields__)


@dataclass(frozen=True, slots=True)
class ParsedScript:
    """A script that may be submitted: its text, the options found in it and warnings in sentences."""

    text: str
    options: list[Given] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def parse_script(script: str | bytes, script_name: str) -> ParsedScript:
    """Read a script's directives; raises `Refused` naming line and option."""
    text = check_script(script, script_name)
    found, ignored = directives(text, script_name)
    options: list[Given] = []
    for directive in found:
        given, rest = read_words(directive.words, f"{script_name} line {directive.line}")
        if rest:
            raise Refused(
                "bad_directive",
                f"{script_name} line {directive.line}: Invalid directive found in batch script: {rest[0]}",
                "quote a value that has blanks; an optional value needs =",
            )
        options.extend(given)
    warnings = []
    if ignored:
        lines = f"line {ignored[0]}" if len(ignored) == 1 else f"lines {', '.join(map(str, ignored))}"
        warnings.append(f"{script_name} {lines}: ignored, since directives below the first command are plain comments")
    return ParsedScript(text, options, warnings)


def parse_arguments(words: Sequence[str]) -> tuple[list[Given], list[str]]:
    """The submit options at the start of a command line, and what follows them (script and arguments)."""
    return read_words(list(words), "command line")


def wrap_script(command: str) -> str:
    """The script that `--wrap COMMAND` submits."""
    return f"#!/bin/sh\n# This script was created by flagplot submit --wrap.\n\n{command}\n"


def build(
    script_options: Sequence[Given],
    cli_options: Sequence[Given],
    *,
    script_text: str,
    script_name: str,
    args: Sequence[str],
    work_dir: str,
    environment: Mapping[str, str],
    now: int,
    utc_offset_s: int = 0,
) -> tuple[JobSpec, Payload, list[str]]:
    """The job, its payload and warnings; raises `Refused` naming where a wrong value stands."""
    draft: Draft = {}
    warnings: list[str] = []
    when = When(now, utc_offset_s)
    for given in (*script_options, *cli_options):
        try:
            idle = given.option.set(draft, given.value, when)
        except Refused as wrong:
            raise Refused(wrong.code, f"{given.where}: {given.written}: {wrong.message}", wrong.hint) from wrong
        if idle or not given.option.effective:
            warnings.append(f"{given.where}: --{given.option.long}{f'={idle}' if idle else ''} has no effect yet")
    export = draft.pop("export", "ALL")
    request = Request(**{name: value for name, value in draft.items() if name in _REQUEST})
    request = check_request(request)
    rest = {name: value for name, value in draft.items() if name not in _REQUEST}
    rest["work_dir"] = posixpath.normpath(posixpath.join(work_dir, rest.get("work_dir", ".")))
    # Paths of the submitting machine are those of the folder that one submits from, whatever --chdir says.
    for name, part in (("stage_in", "source"), ("stage_out", "target")):
        transfers = rest.get(name, ())
        rest[name] = tuple(
            msgspec.structs.replace(one, **{part: posixpath.join(work_dir, getattr(one, part))}) for one in transfers
        )
    rest.setdefault("name", posixpath.basename(script_name) or "wrap")
    rest["name"] = clean(rest["name"])
    spec = JobSpec(**rest, request=request, script_name=script_name, command=shlex.join([script_name, *args]))
    if (spec.container_mounts or spec.container_workdir) and not spec.container_image:
        raise Refused("bad_container", "--container-mounts and --container-workdir need --container-image")
    if spec.array and spec.stdout and not re.search(r"%\d*[ajJ]", spec.stdout):
        warnings.append(f"all elements of the array write to {spec.stdout}: put %a into -o")
    payload = Payload(script_text, tuple(args), exported(export, environment))
    return spec, payload, warnings


def check_request(request: Request) -> Request:
    """Refuse requests that contradict themselves; fill in what follows from the rest (sbatch(1))."""
    whole = request.gpus or request.gpus_per_node or request.gpus_per_task
    if (request.shards or request.vram_mib) and whole:
        raise Refused("bad_gres", "whole GPUs and a share of a GPU in one job: it may have one kind only")
    if request.shards and request.vram_mib:
        raise Refused("bad_gres", "--gres=shard and --vram both ask for a share of a GPU: give one")
    memory = (request.mem_per_node_mib, request.mem_per_cpu_mib, request.mem_per_gpu_mib)
    if sum(value is not None for value in memory) > 1:
        raise Refused("bad_memory", "only one of --mem, --mem-per-cpu and --mem-per-gpu may be given")
    if request.gpus_per_task and not request.tasks:
        per_task = sum(gpu.count for gpu in request.gpus_per_task)
        total = sum(gpu.count for gpu in request.gpus)
        if total:
            if total % per_task:
                raise Refused("bad_gres", f"--gpus={total} is no multiple of --gpus-per-task={per_task}")
            request = msgspec.structs.replace(request, tasks=total // per_task)
        elif not request.tasks_per_node or request.nodes_min != request.nodes_max:
            raise Refused("bad_gres", "--gpus-per-task needs the number of tasks: give --ntasks")
    if request.tasks and request.tasks < request.nodes_min:
        request = msgspec.structs.replace(request, nodes_min=request.tasks, nodes_max=request.tasks)
    if request.cpus_per_gpu and request.cpus_per_task != 1:
        raise Refused("bad_cpus", "only one of --cpus-per-task and --cpus-per-gpu may be given")
    if request.cpus_per_gpu and not whole:
        raise Refused("bad_cpus", "--cpus-per-gpu without whole GPUs", "ask for GPUs, or use --cpus-per-task")
    by_tasks = -(-request.tasks // request.tasks_per_node) if request.tasks_per_node else 0
    constraint.check(request.constraint, max(request.nodes_max, by_tasks))
    return request


def exported(export: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that goes along, by `--export` (sbatch(1))."""
    taken: dict[str, str] = {}
    for word in export.split(","):
        name, equals, value = word.strip().partition("=")
        if name.upper() == "ALL" and not equals:
            taken = {**environment, **taken}
        elif name.upper() in ("NONE", "NIL") and not equals:
            continue
        elif equals:
            taken[name] = value
        elif name in environment:
            taken[name] = environment[name]
    return taken


def write_dependency(dependency: Dependency) -> str:
    """A dependency as `--dependency` takes it."""
    terms = []
    for term in dependency.terms:
        delay = f"+{term.delay_s // 60}" if term.delay_s else ""
        terms.append(":".join([term.kind, *(f"{job}{delay}" for job in term.jobs)]))
    return ("?" if dependency.any_of else ",").join(terms)
