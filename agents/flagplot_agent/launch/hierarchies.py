"""The control group hierarchies of the machine: where this process is in them, and how a controller is handed down.
Standard library only.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

V1 = ("memory", "cpuset", "devices", "freezer", "pids")


def dmem_capacity() -> str:
    """What the kernel lists of GPU memory that it can limit, a region and its bytes a line; empty where it cannot."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in mounts:
        head, _, tail = line.partition(" - ")
        if tail.startswith("cgroup2 "):
            try:
                return Path(head.split()[4], "dmem.capacity").read_text()
            except OSError:
                # The kernel is older than 6.14, or this is not the root of the hierarchy.
                continue
    return ""


def own_groups(cgroup: str | None = None, mounts: str | None = None) -> dict[str, tuple[Path, bool]]:
    """Where this process is: (folder, is version 2) by controller; `""` is the version 2 hierarchy itself."""
    if cgroup is None or mounts is None:
        try:
            cgroup = Path("/proc/self/cgroup").read_text()
            mounts = Path("/proc/self/mountinfo").read_text()
        except OSError:
            return {}
    own = {}
    for line in cgroup.splitlines():
        _, kinds, path = line.split(":", 2)
        own.update(dict.fromkeys(kinds.split(","), path))
    found: dict[str, tuple[Path, bool]] = {}
    for line in mounts.splitlines():
        head, _, tail = line.partition(" - ")
        root, point = head.split()[3:5]
        kind, _, options = tail.split(" ", 2)
        if kind == "cgroup2" and "" in own:
            folder = _below(point, root, own[""])
            found[""] = (folder, True)
            try:
                available = (folder / "cgroup.controllers").read_text().split()
            except OSError:
                available = []
            for name in available:
                found.setdefault(name, (folder, True))
        elif kind == "cgroup":
            for name in set(options.split(",")) & set(V1) & set(own):
                found[name] = (_below(point, root, own[name]), False)
    return found


def _below(point: str, root: str, path: str) -> Path:
    inner = path[len(root) :] if root != "/" and path.startswith(root) else path
    return Path(point, inner.lstrip("/"))


def enable(folder: Path, kind: str) -> None:
    """Hand a version 2 controller down. Below the root no process may stay in a group that does, so ours move first.

    For some controllers the kernel does not refuse it: it makes a threaded group, below which no job could be.
    """
    control = folder / "cgroup.subtree_control"
    if kind in control.read_text().split():
        return
    if (folder / "cgroup.type").exists():
        _make_room(folder)
    control.write_text(f"+{kind}")


def _make_room(folder: Path) -> None:
    """Move the agent and its keeper from a group to one below it; raises OSError where others stay."""
    here = (folder / "cgroup.procs").read_text().split()
    own = [pid for pid in (str(os.getpid()), str(os.getppid())) if pid in here]
    if own:
        leaf = folder / "flagplot-agent"
        leaf.mkdir(exist_ok=True)
        for pid in own:
            (leaf / "cgroup.procs").write_text(pid)
    if (folder / "cgroup.procs").read_text().strip():
        raise OSError(errno.EBUSY, "processes of others are in this group, so that nothing can be handed down")


def inherit_cpuset(folder: Path) -> None:
    """A version 1 cpuset is born empty, and nothing can join it until it has CPUs and memory nodes."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        own = folder / file
        if own.exists() and not own.read_text().strip() and (folder.parent / file).exists():
            own.write_text((folder.parent / file).read_text().strip() or "0")
