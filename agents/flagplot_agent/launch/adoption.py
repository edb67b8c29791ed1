"""Attempts that another keeper began, which ended before them. Standard library only."""

from __future__ import annotations

import time

from flagplot_agent.launch.attempt import Running
from flagplot_agent.launch.cgroup import Group, Groups
from flagplot_agent.launch.journal import Journal
from flagplot_agent.launch.processes import is_marked, read_process, table


def taken_over(journal: Journal, groups: Groups, boot: str) -> list[tuple[Running, bool]]:
    """What has begun and not ended, and whether its start was told. What no longer lives is lost.

    An attempt that no keeper had begun is left alone: the agent has it started.
    """
    found = []
    for name in journal.names():
        begun = journal.begun_of(name)
        if begun is None or journal.end_of(name) is not None:
            continue
        recipe = journal.start_of(name)["recipe"]
        one = Running(name, recipe, groups.find(name) or Group())
        one.group.enforced, one.group.notes = begun["enforced"], begun["notes"]
        limit = journal.limit_of(name)
        one.deadline_s = one.deadline_s if limit is None else limit
        one.started = begun["started"] or one.started
        one.began = time.monotonic() - max(time.time() - one.started, 0)
        if begun["boot"] == boot:
            one.adopted = living(one, begun["pids"])
            one.roots |= set(one.adopted)
        if not one.adopted and recipe["tasks"]:
            one.cause = "lost"
            one.message = (
                "its keeper ended and the process with it" if begun["boot"] == boot else "the node was restarted"
            )
        found.append((one, bool(begun["started"])))
    return found


def look_at(one: Running) -> None:
    """Adopted processes are not our children: look whether they still live."""
    if not one.adopted:
        return
    for pid, ticks in list(one.adopted.items()):
        process = read_process(pid)
        if process is None or process.started != ticks or process.state in "ZX":
            del one.adopted[pid]
    if not one.adopted and not one.cause:
        one.cause = "lost"
        one.message = "its keeper was killed: the exit code is unknown"


def living(one: Running, noted: dict[str, int]) -> dict[int, int]:
    """The tasks of an earlier keeper that still live, with their start times."""
    if noted:
        found = {int(pid): read_process(int(pid)) for pid in noted}
        return {
            pid: process.started
            for pid, process in found.items()
            if process is not None and process.started == noted[str(pid)] and process.state not in "ZX"
        }
    # That keeper ended between the fork and the note: whatever bears the attempt's marks is the attempt.
    grouped = one.group.pids()
    everything = table()
    return {
        pid: process.started
        for pid, process in everything.items()
        if process.state not in "ZX" and (pid in grouped or is_marked(pid, one.markers))
    }
