"""Finding every process of an attempt. Standard library only."""

from __future__ import annotations

import os
from typing import NamedTuple


class Process(NamedTuple):
    """A line of /proc: parent, session, state letter and start time (clock ticks since boot)."""

    parent: int
    session: int
    state: str
    started: int


def read_process(pid: int) -> Process | None:
    """One process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19]))


def table() -> dict[int, Process]:
    """All processes that can be seen."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            process = read_process(int(name))
            if process is not None:
                found[int(name)] = process
    return found


def of_attempt(roots: set[int], marker: bytes, keeper: int, processes: dict[int, Process] | None = None) -> set[int]:
    """Live processes of an attempt: its sessions, their descendants, and strays the keeper inherited.

    `roots` are the pids it was started with (each leads a session of its own). A stray, which left both session
    and ancestry, is known by `marker` in its environment.
    """
    processes = table()
    members = {pid for pid, one in processes.items() if pid in roots or one.session in roots}
    children: dict[int, list[int]] = {}
    for pid, one in processes.items():
        children.setdefault(one.parent, []).append(pid)
    stray = [pid for pid in children.get(keeper, []) if pid not in members and _marked(pid, marker)]
    todo = [*members, *stray]
    members.update(stray)
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in members:
                members.add(child)
                todo.append(child)
    return {pid for pid in members if processes[pid].state not in "ZX"}


def _marked(pid: int, marker: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker in file.read().split(b"\0")
    except OSError:
        return False
