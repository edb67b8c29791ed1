"""Control groups: where we are, what is written, and real ones where this machine lets us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flagplot_agent.launch.cgroup import Groups
from flagplot_agent.launch.hierarchies import own_groups

V1_CGROUP = "5:devices:/\n4:memory:/box/1\n2:cpu,cpuacct:/\n3:cpuset:/\n0::/\n"
V1_MOUNTS = """
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 /box /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
""".strip()


def test_version_one_is_found_beside_an_empty_version_two() -> None:
    found = own_groups(V1_CGROUP, V1_MOUNTS)
    assert found["memory"] == (Path("/sys/fs/cgroup/memory/box/1"), False)
    assert found["cpuset"] == (Path("/sys/fs/cgroup/cpuset"), False)
    assert found[""] == (Path("/sys/fs/cgroup/unified"), True)


def test_version_two_alone() -> None:
    mounts = "34 30 0:30 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
    assert own_groups("0::/a/b\n", mounts) == {"": (Path("/sys/fs/cgroup/b"), True)}


def test_version_two_files(tmp_path: Path) -> None:
    """Plain files in place of the kernel's: what would be written, and where."""
    for folder in (tmp_path, tmp_path / "flagplot-n"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text("cpuset memory\n")
    group = Groups("n", {"": (tmp_path, True), "memory": (tmp_path, True), "cpuset": (tmp_path, True)}).create(
        "41.1", 64, [2, 3], ["c 195:0"]
    )
    folder = tmp_path / "flagplot-n/41.1"
    assert group.folders == [str(folder)] and group.tracked == str(folder)
    assert (folder / "memory.max").read_text() == str(64 << 20) and (folder / "cpuset.cpus").read_text() == "2,3"
    assert (folder / "memory.swap.max").read_text() == "0"
    assert group.enforced == ["memory", "cpuset"] and "CUDA_VISIBLE_DEVICES only" in group.notes[0]
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert group.oom_kills() == 2


def test_nothing_to_be_had_is_said() -> None:
    group = Groups("n", {}).create("41.1", 64, [0], ["c 195:0"])
    assert group.joins() == [] and group.enforced == [] and group.pids() == set()
    assert len(group.notes) == 4 and "memory is not limited" in " ".join(group.notes)


def test_small_limits_leave_room_for_the_shell(tmp_path: Path) -> None:
    group = Groups("n", {"memory": (tmp_path, False)}).create("41.1", 1, [], [])
    assert group.memory
    assert Path(group.memory, "memory.limit_in_bytes").read_text() == str(30 << 20)


@pytest.fixture
def groups() -> Groups:
    made = Groups(f"test-{os.getpid()}")
    trial = made.create("0.0", 64, [0], ["c 1:5"])
    trial.remove()
    if set(trial.enforced) != {"memory", "cpuset", "devices"}:
        made.close()
        pytest.skip(f"this machine enforces only {trial.enforced}: {trial.notes}")
    return made


def test_real_groups_hold_and_find_processes(groups: Groups) -> None:
    group = groups.create("41.1", 64, [0], ["c 1:5"])
    code = (
        "import os,sys\n"
        f"for path in {group.joins()!r}: open(path, 'w').write('0')\n"
        "try: open('/dev/zero')\n"
        "except PermissionError: print('denied', flush=True)\n"
        "print(sorted(os.sched_getaffinity(0)), flush=True)\n"
        "os.fork(); os.setsid() if os.getpid() != os.getpgrp() else 0\n"
        "import time; time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "denied\n" and child.stdout.readline() == "[0]\n"
        assert child.pid in group.pids()
        again = groups.find("41.1")
        assert again is not None and again.pids() >= {child.pid} and again.memory == group.memory
        group.kill()
        assert child.wait(10) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()
        while not group.remove():
            continue
        groups.close()
    assert not any((base / groups.label).exists() for base, _ in groups.bases.values())
