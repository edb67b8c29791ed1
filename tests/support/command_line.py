"""The other way: from a spec to the options that ask for it, so that reading them back can be checked."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from flagplot.script.build import write_dependency
from flagplot_wire.job import GpuCount, JobSpec, LicenseCount
from flagplot_wire.units import format_limit


def to_command_line(spec: JobSpec, utc_offset_s: int = 0) -> list[str]:
    """The options of `flagplot submit` that ask for the same (without the script), typed at `utc_offset_s` from UTC."""
    request = spec.request
    words = [f"--job-name={spec.name}"]
    plain = (
        ("partition", spec.partition), ("account", spec.account), ("qos", spec.qos),
        ("reservation", spec.reservation), ("output", spec.stdout), ("error", spec.stderr), ("input", spec.stdin),
        ("comment", spec.comment), ("constraint", request.constraint), ("licenses", _licenses(request.licenses)),
        ("nodelist", ",".join(request.nodelist)), ("exclude", ",".join(request.exclude)),
        ("gpus", _gpus(request.gpus)), ("gpus-per-node", _gpus(request.gpus_per_node)),
        ("gpus-per-task", _gpus(request.gpus_per_task)),
    )  # fmt: skip
    words += [f"--{name}={value}" for name, value in plain if value]
    if request.nodes_max != 1:
        least, most = request.nodes_min, request.nodes_max
        words.append(f"--nodes={least}" if least == most else f"--nodes={least}-{most}")
    numbers = (
        ("ntasks", request.tasks, 0), ("ntasks-per-node", request.tasks_per_node, 0),
        ("cpus-per-task", request.cpus_per_task, 1), ("cpus-per-gpu", request.cpus_per_gpu, 0), ("nice", spec.nice, 0),
    )  # fmt: skip
    words += [f"--{name}={value}" for name, value, default in numbers if value != default]
    memory = (("mem", request.mem_per_node_mib), ("mem-per-cpu", request.mem_per_cpu_mib),
              ("mem-per-gpu", request.mem_per_gpu_mib))  # fmt: skip
    words += [f"--{name}={value}M" for name, value in memory if value is not None]
    if request.shards:
        words.append(f"--gres=shard:{request.share_type + ':' if request.share_type else ''}{request.shards}")
    if request.vram_mib:
        words.append(f"--vram={request.vram_mib}M")
    if request.switches:
        wait = f"@{format_limit(request.switches_wait_s)}" if request.switches_wait_s else ""
        words.append(f"--switches={request.switches}{wait}")
    if spec.begin:
        begin = datetime.fromtimestamp(spec.begin, timezone(timedelta(seconds=utc_offset_s)))
        words.append(f"--begin={begin:%Y-%m-%dT%H:%M:%S}")
    if request.time_limit_s is not None:
        words.append(f"--time={format_limit(request.time_limit_s)}")
    if spec.array:
        words.append(f"--array={spec.array.indices}{f'%{spec.array.limit}' if spec.array.limit else ''}")
    if spec.dependency:
        words.append(f"--dependency={write_dependency(spec.dependency)}")
    flags = (
        ("--exclusive", request.exclusive), ("--oversubscribe", request.oversubscribe),
        ("--contiguous", request.contiguous), ("--gres-flags=enforce-binding", request.near_gpus),
        ("--hold", bool(spec.hold)), ("--no-requeue", not spec.requeue),
        ("--launch=tasks", request.launch == "tasks"), ("--open-mode=append", spec.open_mode == "append"),
    )  # fmt: skip
    return words + [word for word, wanted in flags if wanted]


def _licenses(licenses: tuple[LicenseCount, ...]) -> str:
    return ",".join(f"{one.name}:{one.count}" for one in licenses)


def _gpus(gpus: tuple[GpuCount, ...]) -> str:
    return ",".join(f"{gpu.type}:{gpu.count}" if gpu.type else str(gpu.count) for gpu in gpus)
