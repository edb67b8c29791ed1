"""Reservations in words, and the form of a new one with whom it hits. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.view.bookings import when_words, whom_words
from flagplot.view.node_list import affected_by
from flagplot.view.policy import flags_words
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts, expand_hosts
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.policy import Reservation
from flagplot_wire.text import clean
from flagplot_wire.units import parse_begin, parse_time_limit

FLAGS = ("maint", "flex", "ignore_jobs", "daily", "weekly")


def lines_of(mirror: Mirror, one: Reservation, now: int) -> list[str]:
    """Everything about one, for a popup."""
    nodes = one.covered(mirror.nodes, mirror.partitions)
    part = [
        f"{count} {what} of each" for count, what in ((one.cores, "cores"), (one.gpus, "GPUs")) if count is not None
    ]
    lines = [
        f"nodes    {clean(compress_hosts(nodes)) or '-'}" + (f" ({', '.join(part)})" if part else ""),
        f"for      {whom_words(one)}",
        f"when     {when_words(one, now)}",
        f"flags    {flags_words(one) or '-'}",
    ]
    if one.licenses:
        lines.append("licenses " + clean(", ".join(f"{name}:{count}" for name, count in one.licenses)))
    return [*lines, *([f"comment  {clean(one.comment)}"] if one.comment else [])]


@dataclass(frozen=True, slots=True)
class Draft:
    """A reservation as the form has it: checked, with its nodes and times."""

    name: str
    nodes: tuple[str, ...]
    start: int
    end: int
    flags: tuple[str, ...]
    values: tuple[tuple[str, str], ...]

    @property
    def command_line(self) -> str:
        """The same from a shell."""
        return shlex.join(
            ["flagplot", "reservation", "add", self.name, *(f"--{key}={value}" for key, value in self.values)]
        )


def read_form(form: Mapping[str, str], mirror: Mirror, now: int, offset_s: int) -> Draft:
    """The form's fields (`name nodes start duration users accounts flags comment`); raises `Refused` with what is wrong."""
    given = {key: value.strip() for key, value in form.items()}
    if not given["nodes"]:
        raise Refused("usage", tr("Which nodes? Write names such as gpu01,gpu[03-08]"))
    names = expand_hosts(given["nodes"])
    if unknown := [name for name in names if name not in mirror.nodes]:
        raise Refused("not_found", tr("There is no node {nodes} in this cluster").format(nodes=compress_hosts(unknown)))
    start = parse_begin(given["start"] or "now", now, offset_s)
    if not given["duration"]:
        raise Refused("usage", tr("How long? Write a duration as time limits are: 2:00:00, or 1-12 (days-hours)"))
    length = parse_time_limit(given["duration"])
    if not length:
        raise Refused("usage", tr("A reservation needs an end: give a duration"))
    flags = tuple(word.strip().replace("-", "_") for word in given["flags"].split(",") if word.strip())
    if strange := [word for word in flags if word not in FLAGS]:
        raise Refused(
            "usage",
            tr("There is no flag '{flag}'").format(flag=strange[0]),
            tr("there are: {names}").format(names=", ".join(FLAGS)),
        )
    if not given["name"]:
        raise Refused("usage", tr("It needs a name"))
    if given["name"] in mirror.reservations:
        raise Refused("usage", tr("There is a reservation {name} already").format(name=given["name"]))
    if not (given["users"] or given["accounts"] or "maint" in flags):
        raise Refused("usage", tr("For whom? Give users or accounts, or the flag maint for maintenance"))
    values = [("start", str(start)), ("duration", given["duration"]), ("nodes", compress_hosts(names))]
    values += [(key, given[key].replace(" ", "")) for key in ("users", "accounts") if given[key]]
    values += [("flags", ",".join(flags))] if flags else []
    values += [("comment", given["comment"])] if given["comment"] else []
    return Draft(given["name"], tuple(names), start, start + length, flags, tuple(values))


def hits(mirror: Mirror, draft: Draft, now: int) -> tuple[str, list[str]]:
    """(a sentence, jobs as lines): who runs into it, and what is planned there meanwhile."""
    names = set(draft.nodes)
    numbers = sorted({number for name in names for number in mirror.held.get(name, ())})
    running = [mirror.jobs[number] for number in numbers if number in mirror.jobs]
    running = [job for job in running if not job.limit_ends or job.limit_ends > draft.start]
    planned = _planned(mirror, names, draft)
    lines = affected_by(running, now)
    lines += [
        f"  {job.display_id:<8} {clean(job.user)}  {clean(job.spec.name)}: "
        + tr("planned there, starts elsewhere or later")
        for job in planned
    ]
    if not running:
        there = tr_count("; {count} planned start there", "; {count} planned starts there", len(planned))
        return tr("No running job reaches into it") + (there if planned else ""), lines
    many = len(running)
    if "ignore_jobs" not in draft.flags:
        words = tr_count("{count} job may run into it", "{count} jobs may run into it", many)
        return tr("{jobs}: it is refused without the flag ignore_jobs").format(jobs=words), lines
    return tr_count("{count} job may run into it and goes on", "{count} jobs may run into it and go on", many), lines


def _planned(mirror: Mirror, names: set[str], draft: Draft) -> list[Job]:
    found = []
    for number, forecast in mirror.forecasts.items():
        job = mirror.jobs.get(JobNumber(number))
        if job is None or not forecast.start or not names.intersection(forecast.nodes):
            continue
        ends = forecast.start + job.time_limit_s if job.time_limit_s else draft.end
        if forecast.start < draft.end and ends > draft.start:
            found.append(job)
    return sorted(found, key=lambda job: job.number)


def local_offset(now: int) -> int:
    """Seconds that this machine's zone is ahead of UTC at a time."""
    return int((datetime.fromtimestamp(now).astimezone().utcoffset()).total_seconds())  # type: ignore[union-attr]
