"""What is wrong with a node, from what was found out about it. Pure.

Sentences have no figures that move: a drain whose reason changed every minute would be written down every minute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from flagplot_agent.hooks.words import first_line
from flagplot_agent.settings import Disk

MIB = 1024 * 1024
_FIGURES = re.compile(r"[\d.,]+")


class Free(Struct, frozen=True):
    """What `statvfs` tells of a file system: bytes and inodes (0: it has none to count), whole and free for users."""

    size: int
    free: int
    inodes: int
    inodes_free: int


def disk_wrong(disk: Disk, found: Free | str | None) -> str:
    """A sentence (empty: fine). `found` is a text where it could not be asked, None where it does not answer."""
    if found is None:
        return f"disk {disk.path}: does not answer"
    if isinstance(found, str):
        return f"disk {disk.path}: {found}"
    if found.free < disk.min_free_mib * MIB:
        return f"disk {disk.path}: less than {disk.min_free_mib} MiB free"
    if found.free * 100 < found.size * disk.min_free_percent:
        return f"disk {disk.path}: less than {disk.min_free_percent} % free"
    if found.inodes and found.inodes_free * 100 < found.inodes * disk.min_free_percent:
        return f"disk {disk.path}: less than {disk.min_free_percent} % of its inodes free"
    return ""


def mount_points(mountinfo: str) -> set[str]:
    """The mount points of /proc/self/mountinfo (proc(5)); spaces and the like come as octal escapes."""
    found = set()
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) > 4:
            found.add(_unescaped(fields[4]))
    return found


def _unescaped(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


def mount_wrong(path: str, points: Iterable[str]) -> str:
    """A sentence where nothing is mounted on `path`."""
    return "" if (path.rstrip("/") or "/") in points else f"file system {path}: not mounted"


def skew_wrong(skew_s: int | None, limit_s: int) -> str:
    """A sentence where this clock is too far off the controller's (positive: ahead); None is unknown, and fine."""
    if not limit_s or skew_s is None or abs(skew_s) <= limit_s:
        return ""
    return f"clock: more than {limit_s} s {'ahead of' if skew_s > 0 else 'behind'} the controller's"


def skew_of(asked: int, answered: int, theirs: int) -> int:
    """How far a clock is ahead of another that said `theirs` between two of its moments; all in seconds."""
    if asked <= theirs <= answered:
        return 0
    return answered - theirs if answered < theirs else asked - theirs


def script_wrong(name: str, wrong: str, output: str) -> str:
    """A sentence on a script that failed (`wrong` says how; empty: it did not): its first line, else how."""
    return f"{name}: {first_line(output) or wrong}" if wrong else ""


class Verdict:
    """What is wrong now, by check. A check that goes on failing keeps its words while only figures in them move."""

    def __init__(self) -> None:
        self.failing: dict[str, str] = {}

    def update(self, found: Mapping[str, str]) -> bool:
        """Take the sentences of all checks (empty: fine); True where that changes what is wrong."""
        now = {}
        for check, text in found.items():
            if text:
                before = self.failing.get(check, "")
                now[check] = before if _FIGURES.sub("", before) == _FIGURES.sub("", text) else text
        changed, self.failing = now != self.failing, now
        return changed

    @property
    def reasons(self) -> tuple[str, ...]:
        """The sentences, by check."""
        return tuple(self.failing[check] for check in sorted(self.failing))
