"""Control groups of attempts, version 1 and 2, as far as the kernel lets us. Standard library only.

One group an attempt, in every hierarchy that has something to enforce: it finds all processes of the attempt,
holds them to memory and CPUs, and keeps them off the GPUs of others. What could not be had is said in notes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from flagplot_agent.launch import devicebpf
from flagplot_agent.launch.hierarchies import enable, inherit_cpuset, own_groups
from flagplot_agent.launch.processes import send_signal

MIN_MEMORY_MIB = 30
"""A limit below this would kill the shell of the script itself (Slurm has the same floor)."""
_LEAF_LINKS = 2
"""Of a folder without folders in it."""


class Group:
    """The control group of one attempt: its folders, what they enforce, and what they do not."""

    def __init__(self) -> None:
        self.tracked = ""
        """The folder whose `cgroup.procs` lists every process (empty: none could be made)."""
        self.folders: list[str] = []
        self.memory = ""
        self.pids_limited = ""
        self.enforced: list[str] = []
        self.notes: list[str] = []

    def joins(self) -> list[str]:
        """The files that a process writes `0` to in order to join."""
        return [f"{folder}/cgroup.procs" for folder in self.folders]

    def pids(self) -> set[int]:
        """All processes of the group."""
        return pids_in(self.tracked) if self.tracked else set()

    def kill(self) -> None:
        """SIGKILL to all processes at once, where the kernel can do that."""
        if not self.tracked:
            return
        try:
            _write(f"{self.tracked}/cgroup.kill", "1")
        except OSError:
            # Version 1, or a kernel before 5.14: one by one, frozen meanwhile, so that none forks away.
            self.freeze(True)
            send_signal(self.pids(), signal.SIGKILL)
            self.freeze(False)

    def freeze(self, hold: bool) -> bool:
        """Hold all processes, or let them go; False where the kernel cannot."""
        for folder in self.folders:
            for file, words in (("cgroup.freeze", ("0", "1")), ("freezer.state", ("THAWED", "FROZEN"))):
                if os.path.exists(f"{folder}/{file}"):
                    try:
                        _write(f"{folder}/{file}", words[hold])
                    except OSError:
                        # Removed under our eyes: nothing lives in it.
                        continue
                    return True
        return False

    def oom_kills(self) -> int:
        """How many processes the kernel killed because the group's memory was used up."""
        return oom_kills_in(self.memory) if self.memory else 0

    def pids_refused(self) -> bool:
        """True when a fork failed because of the group's limit of processes."""
        if not self.pids_limited:
            return False
        try:
            lines = _read(f"{self.pids_limited}/pids.events").splitlines()
        except OSError:
            # A kernel that does not count them.
            return False
        return any(line.startswith("max ") and line != "max 0" for line in lines)

    def remove(self) -> bool:
        """Remove the folders; False when the kernel still holds one, then try again later."""
        gone = True
        for folder in list(self.folders):
            if _remove(folder):
                self.folders.remove(folder)
            else:
                gone = False
        return gone


class Groups:
    """Makes the groups of one keeper, below the group that it was started in.

    `label` keeps the keepers of one machine apart; `bases` are (folder, is version 2) by controller, with
    the version 2 hierarchy itself as `""`.
    """

    def __init__(self, label: str, bases: dict[str, tuple[Path, bool]] | None = None) -> None:
        self.label = f"flagplot-{label}"
        self.bases = own_groups() if bases is None else bases
        self.why_not = "" if self.bases else "this kernel has no control groups"
        self.parents: dict[str, str] = {}
        """The folder of all our groups by controller; empty where there can be none."""

    def create(
        self,
        name: str,
        memory_mib: int,
        cpus: list[int],
        denied: list[str],
        mems: Sequence[int] = (),
        pids_max: int = 0,
        dmem: Mapping[str, int] | None = None,
    ) -> Group:
        """Make an attempt's group. `denied` are devices as `c 195:3`, `mems` NUMA nodes, `pids_max` how many processes
        and threads it may have; 0 MiB, 0 processes and no CPUs mean no such limit. `dmem` are bytes by region of GPU memory."""
        group = Group()
        for kind in ("", "freezer", "pids", "memory"):
            if folder := self._folder(kind, name):
                group.tracked = folder
                group.folders.append(folder)
                break
        else:
            group.notes.append(f"processes are found by session and ancestry: {self.why_not}")
        if memory_mib:
            self._limit(group, "memory", name, self._memory(memory_mib), "memory is not limited by the kernel")
        if cpus:
            wanted = {"cpuset.cpus": ",".join(map(str, cpus))}
            if mems:
                wanted["cpuset.mems"] = ",".join(map(str, mems))
            self._limit(group, "cpuset", name, wanted, "CPUs are bound by affinity, which a job can change")
        if pids_max:
            self._limit(group, "pids", name, {"pids.max": str(pids_max)}, "the number of processes is not limited")
        if dmem:
            wanted = {"dmem.max": "\n".join(f"{region} {size}" for region, size in dmem.items())}
            self._limit(group, "dmem", name, wanted, "GPU memory is not limited by the kernel")
        if denied:
            self._deny(group, name, denied)
        return group

    def _deny(self, group: Group, name: str, denied: list[str]) -> None:
        """Close devices: by the version 1 controller, or by a program on the version 2 group."""
        otherwise = "GPUs of others are hidden by CUDA_VISIBLE_DEVICES only"
        folder = self._folder("", name) if "devices" not in self.bases else ""
        if not folder:
            wanted = {"devices.deny": "\n".join(f"{device} rwm" for device in denied)}
            self._limit(group, "devices", name, wanted, otherwise)
            return
        try:
            devicebpf.deny(folder, denied)
        except OSError as wrong:
            group.notes.append(f"{otherwise} (bpf: {wrong.strerror})")
            return
        if folder not in group.folders:
            group.folders.append(folder)
        group.enforced.append("devices")

    def find(self, name: str) -> Group | None:
        """The group that an earlier keeper made for an attempt; None when there is none."""
        found = Group()
        for kind, (base, _) in self.bases.items():
            folder = f"{base}/{self.label}/{name}"
            if os.path.isdir(folder):
                found.folders.append(folder)
                if kind == "memory":
                    found.memory = folder
                if kind == "pids":
                    found.pids_limited = folder
                if not found.tracked or kind == "":
                    found.tracked = folder
        found.folders = list(dict.fromkeys(found.folders))
        return found if found.folders else None

    def close(self) -> None:
        """Remove our own folders once no attempt is left in them."""
        for base, _ in self.bases.values():
            try:
                os.rmdir(base / self.label)
            except OSError:
                # Absent, or still in use by an attempt whose processes cannot be killed.
                continue

    def _memory(self, memory_mib: int) -> dict[str, str]:
        limit = str(max(memory_mib, MIN_MEMORY_MIB) * 1024 * 1024)
        if self.bases.get("memory", (None, False))[1]:
            return {"memory.max": limit, "memory.swap.max": "0"}
        return {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit}

    def _limit(self, group: Group, kind: str, name: str, wanted: dict[str, str], otherwise: str) -> None:
        """Write the files of one controller; the first one must succeed, the others only where they exist."""
        folder = self._folder(kind, name)
        if not folder:
            group.notes.append(otherwise)
            return
        needed = next(iter(wanted))
        for file, text in wanted.items():
            try:
                for line in text.split("\n"):
                    _write(f"{folder}/{file}", line)
            except OSError as wrong:
                if file == needed:
                    group.notes.append(f"{otherwise} ({file}: {wrong.strerror})")
                    if folder not in group.folders:
                        os.rmdir(folder)
                    return
        if folder not in group.folders:
            group.folders.append(folder)
        if kind == "memory":
            group.memory = folder
        if kind == "pids":
            group.pids_limited = folder
        group.enforced.append(kind)

    def _folder(self, kind: str, name: str) -> str:
        """An attempt's folder in one hierarchy, made if need be; empty where that is not allowed."""
        if kind not in self.parents:
            self.parents[kind] = self._parent(kind)
        parent = self.parents[kind]
        if not parent:
            return ""
        folder = f"{parent}/{name}"
        try:
            os.mkdir(folder)
        except FileExistsError:
            # An earlier keeper made it, or this one for another controller of the same hierarchy.
            pass
        except OSError as wrong:
            self.why_not = f"{folder}: {wrong.strerror}"
            return ""
        if kind == "cpuset":
            try:
                inherit_cpuset(Path(folder))
            except OSError as wrong:
                self.why_not = f"{folder}: {wrong.strerror}"
                return ""
        return folder

    def _parent(self, kind: str) -> str:
        if kind not in self.bases:
            return ""
        base, second = self.bases[kind]
        folder = base / self.label
        try:
            folder.mkdir(exist_ok=True)
            if second and kind:
                enable(base, kind)
                enable(folder, kind)
            if kind == "cpuset":
                inherit_cpuset(folder)
        except OSError as wrong:
            self.why_not = f"{folder}: {wrong.strerror}"
            return ""
        return str(folder)


def _write(file: str, text: str) -> None:
    """Write a control file: `Path.write_text` takes three times as long, and a start has many of them."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _read(file: str) -> str:
    """Read a control file that is short."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65_536).decode()
    finally:
        os.close(descriptor)


def oom_kills_in(folder: str) -> int:
    """How many processes of a group the kernel killed for want of memory; 0 where it has no memory controller."""
    for name in ("memory.oom_control", "memory.events"):
        try:
            lines = _read(f"{folder}/{name}").splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return 0


def pids_in(folder: str) -> set[int]:
    """All processes in a group and the groups below it; none when it is gone."""
    found: set[int] = set()
    try:
        deep = os.stat(folder).st_nlink != _LEAF_LINKS
    except FileNotFoundError:
        return found
    for inner in (one for one, _, _ in os.walk(folder)) if deep else (folder,):
        try:
            with open(f"{inner}/cgroup.procs", encoding="ascii") as file:
                found.update(map(int, file.read().split()))
        except OSError:
            # Removed under our eyes: nothing lives in it.
            continue
    return found


def _remove(folder: str) -> bool:
    """Remove a group and those below it; False while the kernel holds one."""
    for inner in chain((folder,), (one for one, _, _ in os.walk(folder, topdown=False))):
        try:
            os.rmdir(inner)
        except FileNotFoundError:
            continue
        except OSError:
            if inner != folder:
                return False
        else:
            if inner == folder:
                return True
    return not os.path.exists(folder)
