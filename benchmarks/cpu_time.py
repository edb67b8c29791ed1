"""The processor's time of a whole tree of processes, daemons included: what a busy neighbour does not change."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from flagplot_agent.launch.hierarchies import own_groups


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], float] | None]:
    """A function that tells the seconds used so far by this process and all it starts from here on; None without root
    or a version 2 hierarchy. What was started must have ended at the end."""
    found = own_groups().get("")
    if found is None or os.getuid() != 0:
        yield None
        return
    folder = found[0] / f"flagplot-b-{os.getpid()}"
    folder.mkdir()
    (folder / "cgroup.procs").write_text("0")
    try:
        yield lambda: int((folder / "cpu.stat").read_text().split()[1]) / 1e6
    finally:
        (found[0] / "cgroup.procs").write_text("0")
        until = time.monotonic() + 20
        while (folder / "cgroup.procs").read_text().strip() and time.monotonic() < until:
            time.sleep(0.1)
        for inner in (one for one, _, _ in os.walk(folder, topdown=False)):
            os.rmdir(inner)
