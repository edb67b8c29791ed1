"""Finding every process of an attempt. Standard library only."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

EXEC_TRIES = 5
PR_SET_CHILD_SUBREAPER = 36


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


def of_attempt(
    roots: set[int], markers: tuple[bytes, ...], keeper: int, processes: dict[int, Process] | None = None
) -> set[int]:
    """Live processes of an attempt: its sessions, their descendants, and strays the keeper inherited.

    `roots` are the pids it was started with (each leads a session of its own). A stray, which left both session
    and ancestry, is known by `markers` in its environment; without any, all that `keeper` inherits belong to it.
    """
    processes = table() if processes is None else processes
    members = {pid for pid, one in processes.items() if pid in roots or one.session in roots}
    children: dict[int, list[int]] = {}
    for pid, one in processes.items():
        children.setdefault(one.parent, []).append(pid)
    stray = [pid for pid in children.get(keeper, []) if pid not in members and (not markers or is_marked(pid, markers))]
    todo = [*members, *stray]
    members.update(stray)
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in members:
                members.add(child)
                todo.append(child)
    return {pid for pid in members if processes[pid].state not in "ZX"}


def all_marked(markers: tuple[bytes, ...]) -> set[int]:
    """Live processes of the machine with all of `markers` in their environment, wherever they are."""
    return {pid for pid, one in table().items() if one.state not in "ZX" and is_marked(pid, markers, tries=1)}


def is_marked(pid: int, markers: tuple[bytes, ...], tries: int = EXEC_TRIES) -> bool:
    """True when all of `markers` (`NAME=value`) are in a process's environment."""
    for _ in range(tries):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                found = file.read()
        except OSError:
            return False
        if found:
            return set(markers) <= set(found.split(b"\0"))
        # In the middle of an exec, or a zombie: the environment is empty for a moment, or for good.
        time.sleep(0.001)
    return False


def name_of(pid: int) -> str:
    """What a process is called (its `comm`); empty when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def send_signal(pids: Iterable[int], number: int, first: Collection[int] = ()) -> None:
    """Signal processes, `first` (tasks) before what they started: a shell must not live to tell of its killed child."""
    for pid in sorted(pids, key=lambda pid: (pid not in first, pid)):
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            # Gone meanwhile, or became another user's (sudo): what does not die is told at the end.
            continue


def signal_named(name: str) -> signal.Signals | None:
    """`TERM`, `sigterm`, …; None for what is no signal."""
    found = getattr(signal, f"SIG{name.upper().removeprefix('SIG')}", None)
    return found if isinstance(found, signal.Signals) else None


def exit_of(status: int) -> tuple[int, int]:
    """(exit code, signal) of a wait status; the code of one killed is 128 + signal, as shells have it."""
    code = os.waitstatus_to_exitcode(status)
    return (code, 0) if code >= 0 else (128 - code, -code)


def adopt_orphans() -> None:
    """Become the parent of all that our children leave behind."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def keep_forks_cheap() -> None:
    """Call it once all is loaded: each page of this process costs every fork something, and those that a child touches are
    copied. So what is free in the heap goes back to the kernel (glibc), and the collector leaves alone what stays."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    gc.freeze()


def boot_id() -> str:
    """Changes with every boot of the machine: pids of another boot mean nothing."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
