"""What a job asks for, in words."""

from __future__ import annotations

from flagplot.language import tr, tr_count
from flagplot.view.words import memory, short_span
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Job, Request
from flagplot_wire.text import clean


def request_words(job: Job) -> str:
    """What it asks for, in one line."""
    request = job.spec.request
    nodes = str(request.nodes_min)
    if request.nodes_max > request.nodes_min:
        nodes += f"–{request.nodes_max}"
    parts = [tr("1 node") if nodes == "1" else tr("{count} nodes").format(count=nodes)]
    if request.tasks > 1:
        parts.append(tr("{count} tasks").format(count=request.tasks))
    if request.tasks_per_node:
        parts.append(tr_count("{count} task per node", "{count} tasks per node", request.tasks_per_node))
    if request.cpus_per_gpu:
        parts.append(tr_count("{count} CPU per GPU", "{count} CPUs per GPU", request.cpus_per_gpu))
    else:
        parts.append(tr_count("{count} CPU per task", "{count} CPUs per task", request.cpus_per_task))
    for amount, per in (
        (request.mem_per_node_mib, tr("{amount} per node") if request.mem_per_node_mib else tr("all memory")),
        (request.mem_per_cpu_mib, tr("{amount} per CPU")),
        (request.mem_per_gpu_mib, tr("{amount} per GPU")),
    ):
        if amount is not None:
            parts.append(per.format(amount=memory(amount)))
    for counts, per in (
        (request.gpus, "{gpus}"),
        (request.gpus_per_node, tr("{gpus} per node")),
        (request.gpus_per_task, tr("{gpus} per task")),
    ):
        parts += [per.format(gpus=f"{one.count} {clean(one.type) + ' ' if one.type else ''}GPU") for one in counts]
    kind = f"{clean(request.share_type)} " if request.share_type else ""
    if request.shards:
        parts.append(tr_count("{count} shard of one", "{count} shards of one", request.shards) + f" {kind}GPU")
    if request.vram_mib:
        parts.append(tr("{amount} VRAM of one").format(amount=memory(request.vram_mib)) + f" {kind}GPU")
    if request.exclusive:
        parts.append(tr("whole nodes"))
    if request.nodelist:
        parts.append(tr("on {nodes}").format(nodes=compress_hosts(request.nodelist)))
    if request.exclude:
        parts.append(tr("not on {nodes}").format(nodes=compress_hosts(request.exclude)))
    if request.constraint:
        parts.append(tr("with {features}").format(features=clean(request.constraint)))
    return " · ".join(parts + _conditions(request))


def _conditions(request: Request) -> list[str]:
    """What it asks for beside CPUs, memory, GPUs and nodes."""
    parts = []
    if request.switches:
        wait = tr(" for {span}").format(span=short_span(request.switches_wait_s)) if request.switches_wait_s else ""
        parts.append(tr_count("at most {count} switch", "at most {count} switches", request.switches) + wait)
    flags = ((tr("neighbours"), request.contiguous), (tr("CPUs near the GPUs"), request.near_gpus),
             (tr("shares its nodes"), request.oversubscribe))  # fmt: skip
    parts += [words for words, wanted in flags if wanted]
    if request.licenses:
        names = ", ".join(f"{clean(one.name)}:{one.count}" for one in request.licenses)
        parts.append(tr("licenses {names}").format(names=names))
    return parts
