"""One job in words: its details, why it waits, what it uses. Pure."""

from __future__ import annotations

from flagplot.client.mirror import Mirror
from flagplot.language import later, tr, tr_count
from flagplot.script.build import write_dependency
from flagplot.view.queue import array_words, elements_of, job_target, time_used
from flagplot.view.request_words import request_words
from flagplot.view.words import about, and_more, clock_time, gpu_words, memory, moment, short_span, state_look
from flagplot_wire.alloc import NodeAlloc
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import compress_indices
from flagplot_wire.job import NO_LIMIT, Forecast, Job, Reason, State, Why
from flagplot_wire.telemetry import JobSample
from flagplot_wire.text import clean

Line = tuple[str, str, str]
"""Label, text (both plain and cleaned) and the role of the text."""

WHY_WORDS: dict[Why, str] = {
    Why.PRIORITY: later("Jobs with a higher priority come first"),
    Why.RESOURCES: later("What it asks for is not free"),
    Why.DEPENDENCY: later("It waits for other jobs"),
    Why.DEPENDENCY_NEVER: later("A job it depends on ended in a way that never lets it start"),
    Why.BEGIN_TIME: later("Its begin time has not come"),
    Why.HELD_USER: later("Its owner holds it"),
    Why.HELD_ADMIN: later("An administrator holds it"),
    Why.ARRAY_LIMIT: later("Its array has as many elements running as it allows"),
    Why.PARTITION_DOWN: later("Its partition is down"),
    Why.PARTITION_TIME: later("It asks for more time than its partition allows"),
    Why.PARTITION_NODES: later("It asks for more nodes than its partition allows"),
    Why.NODES_DOWN: later("Nodes it needs are down or drained"),
    Why.REQUEUE_DELAY: later("Its last launch failed; it is tried again soon"),
    Why.NOT_YET_EXAMINED: later("The scheduler has not looked at it yet"),
}
END_SLACK_S = 60
"""A start is planned on the ends of others; those may be some seconds later by now."""
MOST_HOLDERS = 5
UNBLOCKS: dict[Why, str] = {
    Why.HELD_USER: later("u releases it"),
    Why.HELD_ADMIN: later("only an operator or admin can release it"),
    Why.PARTITION_TIME: later("e lowers its time limit"),
    Why.DEPENDENCY_NEVER: later("e changes its dependency, ctrl-d cancels it"),
}


def headline(mirror: Mirror, job: Job, now: int) -> list[tuple[str, str]]:
    """The page's first line: id, name, owner, state, time, place."""
    look = state_look(job)
    parts = [
        (f"{job.display_id} ", "bold"),
        (f"{clean(job.spec.name)}  ", "plain"),
        (clean(job.user), f"owner:{job.user}"),
    ]
    parts.append((f"  {look.glyph} {look.word}", look.role))
    if job.status.start_time:
        limit = tr(" of {limit}").format(limit=short_span(job.time_limit_s)) if job.time_limit_s != NO_LIMIT else ""
        parts.append((f"  {time_used(job, now)}{limit}", "plain"))
    if job.status.allocation:
        gpus = gpu_words(job)
        parts.append((f"  {clean(compress_hosts(job.status.allocation.names))}", "plain"))
        parts.append(("" if gpus == "-" else f"  {gpus} GPU", "plain"))
    return parts


def detail(mirror: Mirror, job: Job, now: int) -> list[Line]:
    """Everything the controller knows of the job; an empty label continues the line above."""
    status, spec = job.status, job.spec
    look = state_look(job)
    lines: list[Line] = [(tr("State"), f"{look.glyph} {look.word}{_ending(job)}", look.role)]
    if status.message:
        lines.append(("", clean(status.message), "warning"))
    if status.exit_code is not None or status.signal:
        lines.append((tr("Exit"), _exit(job), "plain" if not status.exit_code and not status.signal else "bad"))
    if job.is_array:
        lines.append((tr("Array"), array_words(job), "plain"))
    lines.append((tr("Partition"), clean(spec.partition) or tr("(default)"), "plain"))
    if spec.account or spec.qos:
        lines.append((tr("Account"), f"{clean(spec.account) or '-'}  QoS {clean(spec.qos) or '-'}", "plain"))
    if spec.reservation:
        lines.append((tr("Reservation"), clean(spec.reservation), "plain"))
    lines.append((tr("Submitted"), _when(status.submit_time, now), "plain"))
    if spec.begin > now and status.state == State.PENDING:
        lines.append((tr("Not before"), _when(spec.begin, now), "plain"))
    if status.start_time:
        lines.append((tr("Started"), f"{_when(status.start_time, now)}{_attempt(job)}", "plain"))
    if status.end_time:
        lines.append((tr("Ended"), _when(status.end_time, now), "plain"))
    lines.append((tr("Time limit"), _limit(job, now), "plain"))
    lines += [(tr("Asks for"), request_words(job), "plain")]
    if spec.dependency is not None:
        lines.append((tr("Depends on"), write_dependency(spec.dependency), "plain"))
    if status.state == State.PENDING:
        lines.append((tr("Priority"), f"{status.priority}" + (f"  nice {spec.nice}" if spec.nice else ""), "plain"))
    lines += _held(job)
    lines.append((tr("Work dir"), clean(spec.work_dir), "plain"))
    lines.append((tr("Output"), clean(spec.stdout) or tr("(default name)"), "plain"))
    if spec.stderr:
        lines.append((tr("Errors"), clean(spec.stderr), "plain"))
    lines.append((tr("Command"), clean(spec.command or spec.script_name) or "-", "plain"))
    if spec.comment:
        lines.append((tr("Comment"), clean(spec.comment), "plain"))
    if spec.mail_type:
        lines.append((tr("Mail"), f"{','.join(spec.mail_type)} to {clean(spec.mail_user or job.user)}", "plain"))
    return lines + _elements(mirror, job, now)


def _ending(job: Job) -> str:
    if job.status.state == State.COMPLETING and job.status.ending:
        return tr(", then {state}").format(state=job.status.ending.value.lower())
    return ""


def _exit(job: Job) -> str:
    if job.status.signal:
        return tr("signal {number}").format(number=job.status.signal)
    return tr("code {number}").format(number=job.status.exit_code)


def _attempt(job: Job) -> str:
    return tr("  (attempt {number})").format(number=job.status.attempt) if job.status.attempt > 1 else ""


def _when(at: int, now: int) -> str:
    if not at:
        return "-"
    near = f"  ({moment(at, now)})" if abs(at - now) < 86_400 else ""
    return clock_time(at) + near


def _limit(job: Job, now: int) -> str:
    if job.time_limit_s == NO_LIMIT:
        return tr("none")
    words = short_span(job.time_limit_s)
    if job.status.state == State.RUNNING:
        left = job.limit_ends - now
        words += tr("  ({span} left)").format(span=about(left)) if left > 0 else tr("  (over)")
    return words


def _held(job: Job) -> list[Line]:
    if job.status.allocation is None:
        return []
    label = tr("Had" if job.status.state.ended else "Holds")
    return [
        (label if index == 0 else "", _part(part), "plain") for index, part in enumerate(job.status.allocation.nodes)
    ]


def _part(part: NodeAlloc) -> str:
    words = f"{clean(part.node)}  CPUs {part.cpu_ids}  {memory(part.memory_mib)}"
    whole = [gpu.index for gpu in part.gpus if gpu.whole]
    kinds = " ".join(sorted({clean(gpu.type) for gpu in part.gpus if gpu.type}))
    if whole:
        words += f"  GPU {compress_indices(whole)} {kinds}"
    for gpu in part.gpus:
        if not gpu.whole:
            words += (
                "  " + tr("{part} of GPU {index}").format(part=f"{gpu.shards}/{gpu.of}", index=gpu.index) + f" {kinds}"
            )
    return words


def _elements(mirror: Mirror, job: Job, now: int) -> list[Line]:
    if not job.is_array:
        return []
    found = elements_of(mirror, job.number)
    lines: list[Line] = []
    for index, element in enumerate(found[:500]):
        look = state_look(element)
        place = clean(compress_hosts(element.status.allocation.names)) if element.status.allocation else ""
        text = f"{job_target(element):<10} {look.glyph} {look.word:<10} {time_used(element, now):>9}  {place}"
        lines.append((tr("Elements") if index == 0 else "", text, look.role))
    if len(found) > 500:
        lines.append(("", and_more(len(found) - 500), "dim"))
    return lines


def why(mirror: Mirror, job: Job, forecast: Forecast | None, now: int) -> list[Line]:
    """Why a pending job waits: every reason, the jobs in front by name, the planned start, what would help."""
    if job.status.state != State.PENDING:
        return [("", tr("It does not wait: it is {state}.").format(state=state_look(job).word), "plain")]
    if forecast is None:
        held = job.spec.hold
        words = (
            tr("Held by its owner: u releases it." if held == "user" else "Held by an administrator.") if held else ""
        )
        return [("", words or tr("The scheduler has not looked at it yet; this takes a moment."), "plain")]
    lines: list[Line] = []
    if forecast.never:
        lines.append((tr("Never"), clean(forecast.never), "bad"))
        lines.append(
            ("", tr("As the cluster is now it can never start. Change it (e) or cancel it (ctrl-d)."), "plain")
        )
    for index, reason in enumerate(forecast.reasons):
        lines += _reason(mirror, reason, now, tr("Waits" if index == 0 else "And"))
    if forecast.start:
        place = tr(" on {nodes}").format(nodes=clean(compress_hosts(forecast.nodes))) if forecast.nodes else ""
        lines.append((tr("Planned"), f"{_when(forecast.start, now)}{place}", "good"))
        if any(reason.why == Why.RESOURCES for reason in forecast.reasons):
            lines += _until_then(mirror, forecast, now)
    elif not forecast.never:
        lines.append((tr("Planned"), tr("no start planned yet"), "dim"))
    for index, hint in enumerate(forecast.hints):
        lines.append((tr("Would help") if index == 0 else "", clean(hint), "warning"))
    return lines


def _until_then(mirror: Mirror, forecast: Forecast, now: int) -> list[Line]:
    """The jobs on the planned nodes that are over by the planned start and that no reason names, the last to end first."""
    nodes, latest = set(forecast.nodes), (forecast.start or now) + END_SLACK_S
    named = {number for reason in forecast.reasons for number in reason.jobs}
    held = [
        job
        for job in mirror.jobs.values()
        if job.status.state == State.RUNNING
        and job.number not in named
        and job.status.allocation is not None
        and 0 < job.limit_ends <= latest
        and not nodes.isdisjoint(job.status.allocation.names)
    ]
    held.sort(key=lambda job: (-job.limit_ends, job.number))
    lines = [
        (tr("Until then") if index == 0 else "", in_front(mirror, job.number, now), "plain")
        for index, job in enumerate(held[:MOST_HOLDERS])
    ]
    if len(held) > MOST_HOLDERS:
        lines.append(
            (
                "",
                tr_count(
                    "… and {count} more job that ends there by then",
                    "… and {count} more jobs that end there by then",
                    len(held) - MOST_HOLDERS,
                ),
                "dim",
            )
        )
    return lines


def _reason(mirror: Mirror, reason: Reason, now: int, label: str) -> list[Line]:
    words = f"{tr(WHY_WORDS.get(reason.why, reason.why))} ({reason.why})"
    lines: list[Line] = [(label, words, "bold")]
    if reason.text:
        lines.append(("", clean(reason.text), "plain"))
    for number in reason.jobs[:20]:
        lines.append(("", in_front(mirror, number, now), "plain"))
    if len(reason.jobs) > 20:
        lines.append(("", tr_count("… and {count} more job", "… and {count} more jobs", len(reason.jobs) - 20), "dim"))
    if reason.why in UNBLOCKS:
        lines.append(("", tr(UNBLOCKS[reason.why]), "dim"))
    return lines


def in_front(mirror: Mirror, number: JobNumber, now: int) -> str:
    """A job that stands in front, with what will move it out of the way."""
    job = mirror.jobs.get(number)
    if job is None:
        return tr("job {number} (gone from the queue)").format(number=number)
    words = f"{job.display_id}  {clean(job.spec.name)}  {clean(job.user)}  {state_look(job).word}"
    if job.status.state == State.RUNNING and job.time_limit_s != NO_LIMIT:
        left = job.limit_ends - now
        words += tr(", ends in {span} at the latest").format(span=about(left)) if left > 0 else tr(", over its limit")
    elif forecast := mirror.forecasts.get(number):
        words += tr(", planned {when}").format(when=moment(forecast.start, now)) if forecast.start else ""
    return words


def samples_of(mirror: Mirror, job: Job) -> list[tuple[str, JobSample]]:
    """(node, sample) of the job's present attempt, in rank order."""
    if job.status.allocation is None:
        return []
    found = []
    for name in job.status.allocation.names:
        sample = mirror.samples.get(name)
        for one in sample.jobs if sample else ():
            if one.number == job.number and one.attempt == job.status.attempt:
                found.append((name, one))
    return found


def usage(mirror: Mirror, job: Job, now: int, width: int) -> list[Line]:
    """What the job uses now, node by node, beside what it holds; `?` is what could not be measured."""
    if job.status.state.ended or job.status.allocation is None:
        return [("", tr("Nothing is measured: the job does not run."), "dim")]
    found = dict(samples_of(mirror, job))
    lines: list[Line] = []
    room = max(10, min(32, width - 62))
    for part in job.status.allocation.nodes:
        sample = mirror.samples.get(part.node)
        tag = "  " + tr("SIMULATED GPUs") if sample and sample.simulated else ""
        age = "  " + tr("{seconds} s ago").format(seconds=max(0, now - sample.time)) if sample else ""
        lines.append((clean(part.node), f"{_part(part)}{tag}{age}", "bold"))
        one = found.get(part.node)
        if one is None:
            lines.append(("", tr("no sample yet"), "dim"))
            continue
        lines += _bars(one, part, room)
        lines += _gpu_bars(mirror, part, room)
    return lines


def _bars(one: JobSample, part: NodeAlloc, room: int) -> list[Line]:
    cpu = None if one.cpu_percent is None else one.cpu_percent / max(1, part.cpus)
    words = tr_count("{{part}} of {count} CPU", "{{part}} of {count} CPUs", part.cpus).format(part=_pct(cpu))
    lines: list[Line] = [("CPU", f"{bar(cpu, room)} {words}", "plain")]
    share = None
    if one.memory_mib is not None and part.memory_mib:
        share = 100 * one.memory_mib / part.memory_mib
    used = tr("{used} of {all}").format(used=memory(one.memory_mib), all=memory(part.memory_mib))
    if one.memory_peak_mib is not None:
        used += "  " + tr("peak {amount}").format(amount=memory(one.memory_peak_mib))
    lines.append((tr("Memory"), f"{bar(share, room)} {used}", "plain"))
    if one.processes is not None:
        lines.append((tr("Processes"), str(one.processes), "plain"))
    return lines


def _gpu_bars(mirror: Mirror, part: NodeAlloc, room: int) -> list[Line]:
    sample = mirror.samples.get(part.node)
    by_index = {gpu.index: gpu for gpu in sample.gpus} if sample else {}
    lines: list[Line] = []
    for held in part.gpus:
        gpu = by_index.get(held.index)
        if gpu is None or gpu.fault:
            lines.append((f"GPU {held.index}", f"? {clean(gpu.fault) if gpu else tr('not measured')}", "warning"))
            continue
        used = tr("{used} of {all}").format(used=memory(gpu.memory_used_mib), all=memory(gpu.memory_total_mib))
        heat = "" if gpu.temperature_c is None else f"  {gpu.temperature_c} °C"
        power = "" if gpu.power_w is None else f"  {gpu.power_w} W"
        busy = tr("{part} busy").format(part=_pct(gpu.utilisation))
        text = f"{bar(gpu.utilisation, room)} {busy}  {used}{heat}{power}"
        lines.append((f"GPU {held.index}", text, "plain"))
    return lines


def bar(percent: float | None, room: int) -> str:
    """A thin bar in steps of half a cell; unknown is drawn as dots, never as empty."""
    if percent is None:
        return "·" * room
    full, rest = divmod(round(max(0.0, min(100.0, percent)) * room * 2 / 100), 2)
    return ("━" * full + "╸" * rest).ljust(room, "─")


def _pct(percent: float | None) -> str:
    return "?" if percent is None else f"{percent:.0f} %"
