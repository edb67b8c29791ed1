"""Control groups of version 2 on the real kernel: limits that bite, and controllers handed down.

A controller that a version 1 hierarchy holds is not in version 2, and cannot be moved while that hierarchy has groups
(any container or session manager makes some): then its test skips and says so. `hugetlb`, which nothing of ours uses,
stands in for handing down.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flagplot_agent.launch.cgroup import Group, Groups
from flagplot_agent.launch.hierarchies import own_groups

HAND_DOWN = """
import os, sys
from pathlib import Path
from flagplot_agent.launch.cgroup import Groups
base, kind = Path(sys.argv[1]), sys.argv[2]
(base / "cgroup.procs").write_text("0")
groups = Groups("inner", {"": (base, True), kind: (base, True)})
folder = groups._folder(kind, "1.1")
assert folder, groups.why_not
print(Path(folder, "cgroup.controllers").read_text().split())
print((base / "flagplot-agent" / "cgroup.procs").read_text().split() == [str(os.getpid())])
os.rmdir(folder)
groups.close()
"""


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder of our own in the version 2 hierarchy."""
    if os.getuid() != 0:
        pytest.skip("only root makes groups")
    found = own_groups().get("")
    if found is None:
        pytest.skip("this machine has no version 2 hierarchy")
    folder = found[0] / f"flagplot-v2-{os.getpid()}"
    folder.mkdir()
    yield folder
    for inner in (one for one, _, _ in os.walk(folder, topdown=False)):
        os.rmdir(inner)


@contextmanager
def handed_down(base: Path, kind: str) -> Iterator[None]:
    """A controller at `base` for as long as this lasts; skips where version 2 does not have it."""
    if kind not in (here := (base.parent / "cgroup.controllers").read_text().split()):
        pytest.skip(f"version 2 has {', '.join(here) or 'nothing'} here: {kind} is held by version 1, or not built in")
    control = base.parent / "cgroup.subtree_control"
    before = control.read_text().split()
    control.write_text(f"+{kind}")
    yield
    if kind not in before:
        for inner in (one for one, _, _ in os.walk(base, topdown=False)):
            os.rmdir(inner)
        control.write_text(f"-{kind}")


@pytest.fixture
def groups(base: Path, request: pytest.FixtureRequest) -> Iterator[Groups]:
    """Groups with one controller, below `base`."""
    kind = request.param
    with handed_down(base, kind):
        yield Groups("t", {"": (base, True), kind: (base, True)})


def run_in(group: Group, code: str) -> subprocess.CompletedProcess[str]:
    head = f"for path in {group.joins()!r}: open(path, 'w').write('0')\n"
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, timeout=30, check=False)


def removed(group: Group) -> None:
    deadline = time.monotonic() + 10
    while not group.remove():
        assert time.monotonic() < deadline, "the group is still held"


@pytest.mark.parametrize("groups", ["memory"], indirect=True)
def test_too_much_memory_is_an_oom_kill(groups: Groups) -> None:
    group = groups.create("1.1", 64, [], [])
    assert group.enforced == ["memory"], group.notes
    assert run_in(group, "data = bytearray(300 << 20)").returncode == -9
    assert group.oom_kills() == 1
    removed(group)


@pytest.mark.parametrize("groups", ["cpuset"], indirect=True)
def test_a_job_cannot_leave_its_cpus(groups: Groups) -> None:
    group = groups.create("1.1", 0, [0], [])
    assert group.enforced == ["cpuset"], group.notes
    code = "import os\ntry: os.sched_setaffinity(0, range(os.cpu_count()))\nexcept OSError: pass\n"
    assert run_in(group, code + "print(os.sched_getaffinity(0))").stdout == "{0}\n"
    removed(group)


@pytest.mark.parametrize("groups", ["pids"], indirect=True)
def test_one_process_too_many_is_refused_and_told(groups: Groups) -> None:
    group = groups.create("1.1", 0, [], [], pids_max=1)
    assert group.enforced == ["pids"] and not group.pids_refused()
    assert run_in(group, "import os\ntry: os.fork()\nexcept OSError as wrong: print(wrong.errno)").stdout == "11\n"
    assert group.pids_refused()
    removed(group)


@pytest.mark.parametrize("groups", ["dmem"], indirect=True)
def test_gpu_memory_of_a_region(groups: Groups) -> None:
    from flagplot_agent.launch.hierarchies import dmem_capacity
    from flagplot_agent.vram import regions_in

    regions = sorted(regions_in(dmem_capacity()))
    if not regions:
        pytest.skip("no driver here registered memory of a device with the dmem controller")
    group = groups.create("1.1", 0, [], [], dmem={regions[0]: 1 << 20})
    assert group.enforced == ["dmem"], group.notes
    assert f"{regions[0]} {1 << 20}" in Path(group.folders[0], "dmem.max").read_text()
    removed(group)


@pytest.mark.parametrize("kind", ["memory", "pids", "hugetlb"])
def test_a_controller_is_handed_down_below_our_own_process(base: Path, kind: str) -> None:
    """The kernel refuses that while a process is in the folder itself: the agent's moves into one of its own."""
    with handed_down(base, kind):
        done = subprocess.run(
            [sys.executable, "-c", HAND_DOWN, str(base), kind], capture_output=True, text=True, check=False, timeout=30
        )
    assert done.stdout.splitlines() == [f"['{kind}']", "True"], done.stderr
