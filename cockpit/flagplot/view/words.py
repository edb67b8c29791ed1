"""Times, states and amounts in words for the screens. Pure: the clock is handed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from flagplot.language import later, tr
from flagplot_wire.job import Forecast, Job, State, Why
from flagplot_wire.text import clean


def elapsed(seconds: int) -> str:
    """A run time as `squeue` writes it: `M:SS`, `H:MM:SS`, `D-HH:MM:SS`."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def short_span(seconds: int) -> str:
    """A span in at most two units without blanks: `2d`, `1h30m`, `45s`."""
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
        if len(parts) == 2 or (parts and not seconds):
            break
    return "".join(parts) or "0s"


def about(seconds: int) -> str:
    """A span for reading: `2 h`, `1 h 20 min`, `3 d 4 h`, `40 s`."""
    if seconds < 60:
        return tr("{seconds} s").format(seconds=max(0, seconds))
    if seconds < 3_600:
        return tr("{minutes} min").format(minutes=seconds // 60)
    if seconds < 86_400:
        hours, minutes = seconds // 3_600, seconds % 3_600 // 60
        long = minutes and hours < 10
        return tr("{hours} h {minutes} min" if long else "{hours} h").format(hours=hours, minutes=minutes)
    days, hours = seconds // 86_400, seconds % 86_400 // 3_600
    return tr("{days} d {hours} h" if hours else "{days} d").format(days=days, hours=hours)


def and_more(count: int) -> str:
    """The line under a list that is cut: how many there are beyond it."""
    return tr("… and {count} more").format(count=count)


def moment(at: int, now: int, zone: tzinfo | None = None) -> str:
    """A time: relative within a day (`in 2 h`, `5 min ago`), absolute beyond; `-` for 0."""
    if not at:
        return "-"
    if abs(at - now) < 86_400:
        return tr("in {span}" if at > now else "{span} ago").format(span=about(abs(at - now)))
    return datetime.fromtimestamp(at, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M")


def clock_time(at: int, zone: tzinfo | None = None) -> str:
    """A time in full, with its zone (the local one unless given)."""
    if not at:
        return "-"
    return datetime.fromtimestamp(at, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def memory(mib: int | None) -> str:
    """MiB for reading: `512 MiB`, `64 GiB`; `?` for unknown."""
    if mib is None:
        return "?"
    if mib < 1_024:
        return f"{mib} MiB"
    return f"{mib // 1_024} GiB" if mib % 1_024 == 0 or mib > 102_400 else f"{mib / 1_024:.1f} GiB"


@dataclass(frozen=True, slots=True)
class Look:
    """How a job's state is shown: glyph, short code, word and the role that colours them."""

    glyph: str
    short: str
    word: str
    role: str


_LOOKS: dict[State, tuple[str, str, str]] = {
    State.PENDING: ("○", "state-pending", later("pending")),
    State.RUNNING: ("●", "state-running", later("running")),
    State.SUSPENDED: ("◆", "state-suspended", later("suspended")),
    State.COMPLETING: ("◐", "state-completing", later("completing")),
    State.COMPLETED: ("✓", "state-completed", later("completed")),
    State.FAILED: ("✗", "state-failed", later("failed")),
    State.CANCELLED: ("⊘", "state-cancelled", later("cancelled")),
    State.TIMEOUT: ("◷", "state-timeout", later("timeout")),
    State.OUT_OF_MEMORY: ("▲", "state-failed", later("out of memory")),
    State.NODE_FAIL: ("!", "state-failed", later("node fail")),
    State.PREEMPTED: ("↺", "state-cancelled", later("preempted")),
}


def state_look(job: Job, instead: State | None = None) -> Look:
    """The look of a job's state; a held job is told apart from one that waits."""
    state = instead or job.status.state
    if state == State.PENDING and job.spec.hold:
        return Look("◇", "PD", tr("held"), "state-held")
    return state_words(state)


def state_words(word: str) -> Look:
    """The look of a state by its word alone; of one that a newer controller told, the word as it is."""
    state = State.__members__.get(word)
    if state is None:
        return Look("?", clean(word)[:3], clean(word).lower(), "plain")
    glyph, role, known = _LOOKS[state]
    return Look(glyph, state.short, tr(known), role)


def gpu_words(job: Job) -> str:
    """GPUs held or asked for: `8 h100`, a share as `3/8`, `3 sh` or `20 GiB`; `-` for none."""
    held = job.status.allocation
    if held is not None:
        parts = [gpu for node in held.nodes for gpu in node.gpus]
        if not parts:
            return "-"
        if len(parts) == 1 and not parts[0].whole:
            return f"{parts[0].shards}/{parts[0].of}"
        kinds = {gpu.type for gpu in parts}
        return _count(len(parts), kinds.pop() if len(kinds) == 1 else "")
    request = job.spec.request
    if request.shards:
        return f"{request.shards} sh"
    if request.vram_mib:
        return memory(request.vram_mib).replace(" GiB", "G").replace(" MiB", "M")
    counts = [(one.count, one.type) for one in request.gpus]
    counts += [(one.count * request.nodes_min, one.type) for one in request.gpus_per_node]
    counts += [(one.count * max(1, request.tasks), one.type) for one in request.gpus_per_task]
    total = sum(count for count, _ in counts)
    kinds = {kind for _, kind in counts}
    return _count(total, kinds.pop() if len(kinds) == 1 else "") if total else "-"


def _count(total: int, kind: str) -> str:
    return f"{total} {clean(kind)[:5]}" if kind else str(total)


def pending_words(job: Job, forecast: Forecast | None, now: int) -> str:
    """`(Resources) in 2 h`: the reasons' words, then the planned start or that there is none."""
    if job.status.staging and forecast is None:
        return f"({Why.STAGE_IN})"
    if job.spec.hold and forecast is None:
        return f"(JobHeld{job.spec.hold.capitalize()})"
    if forecast is None:
        return "(None)"
    if forecast.never:
        return tr("(never: {why})").format(why=clean(forecast.never))
    words = ",".join(reason.why for reason in forecast.reasons) or "None"
    when = f" {moment(forecast.start, now)}" if forecast.start and forecast.start > now else ""
    return f"({words}){when}"
