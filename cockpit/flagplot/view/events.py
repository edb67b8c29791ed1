"""The journal in words: when, what, whom it concerns, who did it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.view.words import about, memory, state_look
from flagplot_wire import events as ev
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, State, Status
from flagplot_wire.node import Node
from flagplot_wire.text import clean, counted


@dataclass(frozen=True, slots=True)
class EventRow:
    """One entry: `job` or `node` is what Enter opens (0 and empty: nothing)."""

    seq: int
    time: int
    glyph: str
    role: str
    what: str
    target: str
    text: str
    by: str
    job: JobNumber = JobNumber(0)
    node: str = ""

    @property
    def words(self) -> str:
        """What a filter searches."""
        return f"{self.what} {self.target} {self.text} {self.by}".lower()


def row_of(event: ev.Event, mirror: Mirror) -> EventRow:
    """One event in words; jobs are named as they are known now."""
    seq, time = event.seq, event.time
    match event.body:
        case ev.JobAdded(job):
            text = tr("{name}  to {partition}").format(
                name=clean(job.spec.name), partition=clean(job.spec.partition) or tr("the default partition")
            )
            return EventRow(seq, time, "○", "state-pending", "submitted", job.display_id, text, job.user, job.number)
        case ev.JobChanged(number, status, cause, by):
            known = mirror.jobs.get(number)
            look = state_look(known, status.state) if known else None
            glyph, role = (look.glyph, look.role) if look else ("·", "plain")
            target = known.display_id if known else str(number)
            return EventRow(seq, time, glyph, role, clean(cause), target, _change(known, status), by, number)
        case ev.JobSpecChanged(number, _, what, by):
            known = mirror.jobs.get(number)
            target = known.display_id if known else str(number)
            return EventRow(seq, time, "✎", "plain", "changed", target, clean(what), by, number)
        case ev.StepChanged(step):
            known = mirror.jobs.get(step.number)
            text = f"{clean(step.name)}  {step.state.lower()}"
            target = f"{known.display_id if known else step.number}.{step.id.partition('.')[2]}"
            return EventRow(seq, time, "·", "plain", "step", target, text, step.user, step.number)
        case ev.JobsForgotten(numbers):
            text = tr_count(
                "{count} ended job left the queue; history keeps it",
                "{count} ended jobs left the queue; history keeps them",
                len(numbers),
            )
            return EventRow(seq, time, "·", "dim", "forgotten", "-", text, "")
        case ev.NodeChanged(node, cause, by):
            glyph, role = _NODE.get(cause, ("·", "plain"))
            return EventRow(
                seq, time, glyph, role, clean(cause), clean(node.name), _node_text(node), by, node=node.name
            )
        case ev.NodeRemoved(name, by):
            return EventRow(seq, time, "⊘", "dim", "removed", clean(name), "", by)
        case ev.PartitionChanged(partition, by):
            text = "up" if partition.up else "down"
            return EventRow(seq, time, "·", "plain", "partition", clean(partition.name), text, by)
        case ev.ControllerStarted(epoch, version):
            return EventRow(seq, time, "⚑", "brand", "controller", f"start {epoch}", f"version {clean(version)}", "")
    raise TypeError(f"no words for {event.body!r}")


_NODE = {
    "registered": ("●", "good"),
    "back": ("●", "good"),
    "resumed": ("●", "good"),
    "lost": ("✗", "bad"),
    "drained": ("▼", "warning"),
    "reboot asked": ("▼", "warning"),
    "rebooting": ("↺", "warning"),
    "rebooted": ("✓", "good"),
    "reboot failed": ("✗", "bad"),
}


def _node_text(node: Node) -> str:
    if node.drain is not None:
        return clean(node.drain.words)
    if node.inventory is None:
        return ""
    if not node.responding:
        return clean(node.down_reason) or tr("its agent is not connected")
    gpus = f", {counted(len(node.inventory.gpus), 'GPU')}" if node.inventory.gpus else ""
    return f"{counted(node.cpus, 'CPU')}, {memory(node.inventory.memory_mib)}{gpus}"


def _change(job: Job | None, status: Status) -> str:
    name = f"{clean(job.spec.name)}  " if job else ""
    where = tr("on {nodes}").format(nodes=clean(compress_hosts(status.allocation.names))) if status.allocation else ""
    message = clean(status.message)
    if status.state == State.RUNNING:
        return f"{name}{where}"
    code = tr("exit code {code}").format(code=status.exit_code) if status.exit_code else ""
    rest = message or code
    return f"{name}{tr(status.state.value.lower().replace('_', ' '))}{': ' + rest if rest else ''}"


def select(mirror: Mirror, older: list[ev.Event], text: str) -> list[EventRow]:
    """The entries to show, newest first: those that came live and the `older` ones asked for, each once."""
    by_seq = {event.seq: event for event in older}
    by_seq.update((event.seq, event) for event in mirror.recent)
    rows = [row_of(by_seq[seq], mirror) for seq in sorted(by_seq, reverse=True)]
    for token in text.lower().split():
        negated, word = token.startswith("!"), token.removeprefix("!")
        if word:
            rows = [row for row in rows if (word in row.words) != negated]
    return rows


def age(at: int, now: int, zone: tzinfo | None = None) -> str:
    """How long ago within a day (`5 min`), the date and time beyond (`11-30 10:53`)."""
    if now - at < 86_400:
        return about(now - at)
    return datetime.fromtimestamp(at, UTC).astimezone(zone).strftime("%m-%d %H:%M")
