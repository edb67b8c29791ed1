"""Which versions of the libraries that GPU programs depend on a machine has."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable

USUAL = (
    "libcuda", "libnvidia-ml", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libmpi", "libmpich",
    "libpmix", "libucp", "libfabric", "libibverbs", "librdmacm", "libhwloc", "libstdc++", "libcrypto",
)  # fmt: skip
LDCONFIG_S = 20
_LINE = re.compile(r"^\s+(\S+?)\.so(?:\.\S+)? \([^)]*\) => (/.+)$")
_VERSION = re.compile(r"\.so\.([\w.]+)$")


def versions(listing: str, resolve: Callable[[str], str], wanted: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(name, version) of the wanted libraries in what `ldconfig -p` prints, sorted. Pure.

    The version is what stands behind `.so.` in the name of the file that `resolve` finds; several are joined.
    """
    names, found = set(wanted), dict[str, set[str]]()
    for line in listing.splitlines():
        match = _LINE.match(line)
        if match is None or match[1] not in names:
            continue
        version = _VERSION.search(resolve(match[2]))
        if version is not None:
            found.setdefault(match[1], set()).add(version[1])
    return tuple((name, ", ".join(sorted(found[name], key=_order))) for name in sorted(found))


def _order(version: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (0, part) for part in version.split(".")]


def find_libraries(extra: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The libraries of this machine that its loader knows, and its C library; raises OSError where nobody can say."""
    try:
        done = subprocess.run(
            ["ldconfig", "-p"], capture_output=True, text=True, errors="replace", timeout=LDCONFIG_S, check=True,
            env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.SubprocessError as wrong:
        raise OSError(f"ldconfig -p: {wrong}") from wrong
    found = versions(done.stdout, os.path.realpath, [*USUAL, *extra])
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return tuple(sorted([*found, (name, version)] if version else found))
