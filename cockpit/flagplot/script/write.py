"""From a job back to the options that make it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flagplot.script.build import write_dependency
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import NO_LIMIT, GpuCount, JobSpec, Request
from flagplot_wire.units import format_limit

OWN = frozenset({"vram", "launch", "container-image", "container-mounts", "container-workdir"})
"""Options that sbatch(1) does not have: a script says them in `#FLAGPLOT` lines."""


def write_options(spec: JobSpec) -> dict[str, str]:
    """The long options, without dashes, and their values ("" for options without one); defaults are left out.

    `--begin`, `--hold` and `--export` are left out too: they were about that one submission.
    """
    request = spec.request
    found: dict[str, str] = {
        "job-name": spec.name,
        "partition": spec.partition,
        "account": spec.account,
        "qos": spec.qos,
        "reservation": spec.reservation,
        **_amounts(request),
        "time": "" if request.time_limit_s is None else _limit(request.time_limit_s),
        "array": "",
        "dependency": write_dependency(spec.dependency) if spec.dependency else "",
        "licenses": ",".join(f"{one.name}:{one.count}" for one in request.licenses),
        "chdir": spec.work_dir,
        "output": spec.stdout,
        "error": spec.stderr,
        "input": spec.stdin,
        "open-mode": spec.open_mode if spec.open_mode != "truncate" else "",
        **_places(request),
        "launch": request.launch if request.launch == "tasks" else "",
        "nice": str(spec.nice) if spec.nice else "",
        "comment": spec.comment,
        "container-image": spec.container_image,
        "container-mounts": spec.container_mounts,
        "container-workdir": spec.container_workdir,
    }
    if spec.array is not None:
        found["array"] = spec.array.indices + (f"%{spec.array.limit}" if spec.array.limit else "")
    found = {name: value for name, value in found.items() if value}
    flags = {
        "exclusive": request.exclusive,
        "oversubscribe": request.oversubscribe,
        "contiguous": request.contiguous,
        "no-requeue": not spec.requeue,
    }
    return found | {name: "" for name, on in flags.items() if on}


def _amounts(request: Request) -> dict[str, str]:
    nodes = f"{request.nodes_min}-{request.nodes_max}"
    if request.nodes_min == request.nodes_max:
        nodes = "" if request.nodes_min == 1 else str(request.nodes_min)
    share = f"{request.share_type}:{request.shards}" if request.share_type else str(request.shards)
    return {
        "nodes": nodes,
        "ntasks": _number(request.tasks),
        "ntasks-per-node": _number(request.tasks_per_node),
        "cpus-per-task": str(request.cpus_per_task) if request.cpus_per_task > 1 else "",
        "cpus-per-gpu": _number(request.cpus_per_gpu),
        "mem": _memory(request.mem_per_node_mib),
        "mem-per-cpu": _memory(request.mem_per_cpu_mib),
        "mem-per-gpu": _memory(request.mem_per_gpu_mib),
        "gpus": _gpus(request.gpus),
        "gpus-per-node": _gpus(request.gpus_per_node),
        "gpus-per-task": _gpus(request.gpus_per_task),
        "gres": f"shard:{share}" if request.shards else "",
        "vram": _memory(request.vram_mib or None),
    }


def _places(request: Request) -> dict[str, str]:
    wait = f"@{_limit(request.switches_wait_s)}" if request.switches_wait_s else ""
    return {
        "nodelist": compress_hosts(request.nodelist),
        "exclude": compress_hosts(request.exclude),
        "constraint": request.constraint,
        "switches": f"{request.switches}{wait}" if request.switches else "",
        "gres-flags": "enforce-binding" if request.near_gpus else "",
    }


def _number(count: int) -> str:
    return str(count) if count else ""


def _limit(seconds: int) -> str:
    return "UNLIMITED" if seconds == NO_LIMIT else format_limit(seconds)


def _memory(mib: int | None) -> str:
    """Exactly so much, in the largest unit that has no fraction."""
    if mib is None:
        return ""
    for unit, size in (("T", 1024**2), ("G", 1024)):
        if mib and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M" if mib else "0"


def _gpus(counts: Iterable[GpuCount]) -> str:
    return ",".join(f"{one.type}:{one.count}" if one.type else str(one.count) for one in counts)


def written(name: str, value: str) -> str:
    """One option as a command line has it, before quoting."""
    return f"--{name}={value}" if value else f"--{name}"


def with_directives(script: str, options: Mapping[str, str]) -> str:
    """The script with these options as directives below its own, so that they hold in place of its own."""
    lines = script.split("\n")
    at = 1
    for number, line in enumerate(lines[1:], 1):
        if line.startswith(("#SBATCH", "#FLAGPLOT")):
            at = number + 1
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    fresh = [f"{'#FLAGPLOT' if name in OWN else '#SBATCH'} {_quoted(written(name, value))}"
             for name, value in options.items()]  # fmt: skip
    return "\n".join([*lines[:at], *fresh, *lines[at:]])


def _quoted(word: str) -> str:
    """A word as `flagplot.script.lexer.split_words` reads it."""
    if not any(character.isspace() or character in "\"'\\#" for character in word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
