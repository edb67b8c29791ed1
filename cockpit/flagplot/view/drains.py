"""Nodes on their way out of service: how far each drain or reboot is, and when one that was asked for here is through. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.view.bars import Piece
from flagplot.view.fleet import NodeFact
from flagplot.view.words import moment
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import NO_LIMIT
from flagplot_wire.text import clean


@dataclass(frozen=True, slots=True)
class Draining:
    """Nodes drained for one reason by one person, newest of them at `since`. `busy` of them hold jobs, `asked` are to
    reboot, `ordered` do so now. The last of the jobs ends at `last` at the latest; `endless` have no limit."""

    reason: str
    who: str
    since: int
    nodes: int
    busy: int
    asked: int
    ordered: int
    last: int
    endless: int

    def words(self, now: int) -> str:
        """`3 of 8 drained, last ends in 1 h 20 min`."""
        rebooting = self.asked + self.ordered
        if rebooting:
            text = tr("{count} to reboot").format(count=rebooting)
            text += tr(", {count} rebooting").format(count=self.ordered) if self.ordered else ""
        else:
            text = tr("{done} of {all} drained").format(done=self.nodes - self.busy, all=self.nodes)
        if self.endless:
            text += tr_count(", {count} job without a limit", ", {count} jobs without a limit", self.endless)
        elif self.last:
            ends = tr(", last ends {when}").format(when=moment(self.last, now))
            text += ends if self.last > now else tr(", last is over its limit")
        return text


def drainings(facts: Iterable[NodeFact]) -> list[Draining]:
    """The drains that are not through, the newest first; those of the nodes' own checks too."""
    groups: dict[tuple[str, str], list[NodeFact]] = {}
    for fact in facts:
        if (drain := fact.node.drain) is not None:
            groups.setdefault((drain.reason, drain.who), []).append(fact)
    found = [_draining(reason, who, some) for (reason, who), some in groups.items()]
    return sorted((one for one in found if one.busy or one.asked or one.ordered), key=lambda one: -one.since)


def _draining(reason: str, who: str, facts: list[NodeFact]) -> Draining:
    drains = [fact.node.drain for fact in facts if fact.node.drain is not None]
    jobs = {job.number: job for fact in facts for job in fact.jobs}.values()
    return Draining(
        clean(reason),
        clean(who),
        max(drain.since for drain in drains),
        len(facts),
        sum(bool(fact.jobs) for fact in facts),
        sum(drain.reboot == "asked" for drain in drains),
        sum(drain.reboot == "ordered" for drain in drains),
        max((job.limit_ends for job in jobs), default=0),
        sum(job.time_limit_s == NO_LIMIT for job in jobs),
    )


def progress_line(found: list[Draining], now: int) -> list[Piece]:
    """The newest of them in one line, and how many more there are; nothing without any."""
    if not found:
        return []
    first = found[0]
    pieces: list[Piece] = [("▽ ", "state-draining"), (first.words(now), "warning"), (f"  {first.reason}", "plain")]
    pieces.append((f"  {first.who}", "dim"))
    if len(found) > 1:
        pieces.append((tr("  and {count} more").format(count=len(found) - 1), "dim"))
    return pieces


@dataclass(frozen=True, slots=True)
class Watched:
    """A drain or reboot that was asked for in this cockpit."""

    names: tuple[str, ...]
    reason: str
    reboot: bool


def end_of(mirror: Mirror, watched: Watched) -> str:
    """A sentence once it is through (empty: not yet). Nodes that were given back or removed meanwhile do not hold it up."""
    nodes = [mirror.nodes[name] for name in watched.names if name in mirror.nodes]
    hosts, why = clean(compress_hosts(watched.names)), clean(watched.reason)
    if watched.reboot:
        if any(node.drain is not None and node.drain.reboot for node in nodes):
            return ""
        left = [node.name for node in nodes if node.drain is not None and "did not reboot" in node.drain.reason]
        done = f"Rebooted: {hosts}" if not left else f"{len(nodes) - len(left)} of {len(nodes)} rebooted"
        return f"{done} ({why})" + (f"; {clean(compress_hosts(left))} did not" if left else "")
    if any(node.drain is not None and mirror.held.get(node.name) for node in nodes):
        return ""
    drained = [node.name for node in nodes if node.drain is not None]
    return f"Drained: {clean(compress_hosts(drained))} ({why})" if drained else f"No longer draining: {hosts}"
