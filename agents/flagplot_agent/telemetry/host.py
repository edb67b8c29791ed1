"""The host by /proc and /sys: what it has, and how busy it is."""

from __future__ import annotations

import os
import platform
import pwd
from pathlib import Path

from flagplot_wire.indices import compress_indices, expand_indices
from flagplot_wire.node import NumaNode

SYS_CPU = Path("/sys/devices/system/cpu")
SYS_NODE = Path("/sys/devices/system/node")


def memory_total_mib() -> int:
    """Memory of the machine, in MiB; a cgroup's lower limit counts (a container's machine is its limit)."""
    total = _meminfo()["MemTotal"] // 1024
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _read(Path(path))
        if text.isdecimal():
            total = min(total, int(text) // 2**20)
    return total


def memory_used_mib() -> int:
    """Memory that is not available to new processes, in MiB."""
    found = _meminfo()
    return (found["MemTotal"] - found["MemAvailable"]) // 1024


def _meminfo() -> dict[str, int]:
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0])
    return found


def cpus() -> list[int]:
    """The CPUs this process may use."""
    return sorted(os.sched_getaffinity(0))


def topology() -> tuple[int, int, int]:
    """(sockets, cores in all, threads per core) of the CPUs that may be used."""
    sockets, cores = set(), set()
    usable = cpus()
    for cpu in usable:
        folder = SYS_CPU / f"cpu{cpu}" / "topology"
        socket = _read(folder / "physical_package_id") or "0"
        core = _read(folder / "core_id") or str(cpu)
        sockets.add(socket)
        cores.add((socket, core))
    return len(sockets) or 1, len(cores) or 1, max(len(usable) // max(len(cores), 1), 1)


def numa_nodes() -> tuple[NumaNode, ...]:
    """NUMA nodes with the CPUs that may be used; empty where the kernel shows none."""
    found = []
    usable = set(cpus())
    for folder in sorted(SYS_NODE.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        text = _read(folder / "cpulist")
        ids = sorted(usable & set(expand_indices(text))) if text else []
        memory = 0
        for line in _read(folder / "meminfo").splitlines():
            if "MemTotal:" in line:
                memory = int(line.split()[-2]) // 1024
        found.append(NumaNode(int(folder.name[4:]), compress_indices(ids), memory))
    return tuple(found)


def boot_id() -> str:
    """The kernel's id of this boot."""
    return _read(Path("/proc/sys/kernel/random/boot_id")) or f"no-boot-id-{platform.node()}"


def cpu_model() -> str:
    """The processor's name."""
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.lower().startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def os_name() -> str:
    """The distribution's name and version."""
    for line in _read(Path("/etc/os-release")).splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()


def cpu_times() -> tuple[int, int]:
    """(busy, all) clock ticks of the machine since boot."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def load_hundredths() -> int:
    """The 1-minute load average times 100."""
    return int(os.getloadavg()[0] * 100)


def process_usage(pid: int) -> tuple[int, int] | None:
    """(CPU milliseconds, resident KiB) of a process; None when it is gone."""
    text = _read(Path(f"/proc/{pid}/stat"))
    if not text:
        return None
    fields = text.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
    pages = int(fields[21])
    return ticks * 1000 // os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") // 1024


def process_owner(pid: int) -> tuple[str, str]:
    """(user, command) of a process, empty where they cannot be read."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return "", ""
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return user, _read(Path(f"/proc/{pid}/comm"))


def numa_of_pci(pci: str) -> int | None:
    """The NUMA node of a PCI address; None where the kernel does not tell."""
    domain, _, rest = pci.lower().partition(":")
    text = _read(Path(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node"))
    return int(text) if text.lstrip("-").isdecimal() and int(text) >= 0 else None


def text_at(path: str) -> str:
    """A file's text; empty where it cannot be read."""
    return _read(Path(path))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        # Absent on this kernel or gone meanwhile: the caller shows it as unknown.
        return ""
