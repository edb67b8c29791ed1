"""What the kernel is made to enforce: device programs, process limits, NUMA nodes, fork bombs held and ended."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flagplot_agent.launch import devicebpf
from flagplot_agent.launch.attempt import Running
from flagplot_agent.launch.cgroup import Group, Groups
from flagplot_agent.launch.hierarchies import own_groups
from flagplot_agent.launch.recipe import numa_of
from flagplot_wire.node import Inventory, NumaNode

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root for control groups and device programs")
BOMB = "import os,sys,time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(0.01)"
HELD_BOMB = "import os\nfor _ in range(5): os.fork()\nwhile True:\n if os.fork() == 0: os._exit(0)\n os.wait()"


def judge(code: bytes, kind: int, major: int, minor: int) -> int:
    """What the program answers, by a small interpreter of the instructions that it uses."""
    words = struct.pack("<III", 6 << 16 | kind, major, minor)
    registers, place = {1: 0}, 0
    while True:
        operation, both, offset, value = struct.unpack_from("<BBhi", code, place * 8)
        to, place = both & 15, place + 1
        match operation:
            case 0x61:
                registers[to] = struct.unpack_from("<I", words, offset)[0]
            case 0x54:
                registers[to] &= value
            case 0x55:
                place += offset if registers[to] != value else 0
            case 0xB7:
                registers[to] = value
            case 0x95:
                return registers[0]


def test_the_program_refuses_what_is_listed_and_nothing_else() -> None:
    code = devicebpf.program(["c 195:3", "b 8:*", "c 510:1"])
    for kind, major, minor, allowed in (
        (2, 195, 3, 0), (2, 195, 4, 1), (1, 195, 3, 1), (1, 8, 0, 0), (1, 8, 99, 0), (2, 8, 0, 1), (2, 510, 1, 0),
        (2, 510, 3, 1), (2, 1, 3, 1),
    ):  # fmt: skip
        assert judge(code, kind, major, minor) == allowed, (kind, major, minor)
    assert judge(devicebpf.program([]), 2, 195, 0) == 1


def unified() -> tuple[Path, bool]:
    found = own_groups().get("")
    if found is None:
        pytest.skip("this machine has no version 2 hierarchy")
    return found


@pytest.fixture
def version_two() -> Iterator[Groups]:
    made = Groups(f"test2-{os.getpid()}", {"": unified()})
    yield made
    made.close()
    assert not (unified()[0] / made.label).exists()


@pytest.fixture
def version_one() -> Iterator[Groups]:
    bases = {name: base for name, base in own_groups().items() if name and not base[1]}
    if not {"freezer", "pids"} <= set(bases):
        pytest.skip("this machine has no freezer and pids controllers of version 1")
    made = Groups(f"test1-{os.getpid()}", bases)
    yield made
    made.close()
    assert not any((base / made.label).exists() for base, _ in bases.values())


def joined(group: Group, code: str) -> subprocess.Popen[str]:
    head = f"for path in {group.joins()!r}: open(path, 'w').write('0')\n"
    return subprocess.Popen([sys.executable, "-c", head + code], stdout=subprocess.PIPE, stderr=2, text=True)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@ROOT_ONLY
def test_version_two_closes_devices_by_a_program(version_two: Groups) -> None:
    group = version_two.create("41.1", 0, [], ["c 1:5"])
    assert group.enforced == ["devices"], group.notes
    child = joined(group, "open('/dev/null')\ntry: open('/dev/zero')\nexcept PermissionError: print('denied')")
    assert child.communicate(timeout=20)[0] == "denied\n"
    wait_for(group.remove, "the group is still held")


@ROOT_ONLY
@pytest.mark.parametrize("version", ["version_one", "version_two"])
def test_a_fork_bomb_is_ended_at_once(request: pytest.FixtureRequest, version: str) -> None:
    groups: Groups = request.getfixturevalue(version)
    group = groups.create("41.1", 0, [], [], pids_max=60)
    if version == "version_one":
        assert group.enforced == ["pids"]
    # A bomb that nothing holds would take the machine: it holds itself then.
    child = joined(group, BOMB if "pids" in group.enforced else HELD_BOMB)
    wait_for(lambda: len(group.pids()) > 20, "the bomb did not go off")
    began = time.monotonic()
    while group.pids():
        group.kill()
        assert time.monotonic() - began < 10
    assert child.wait(20) == -signal.SIGKILL
    wait_for(group.remove, "the group is still held")


def test_without_groups_a_fork_bomb_is_stopped_before_it_is_killed() -> None:
    child = subprocess.Popen([sys.executable, "-c", HELD_BOMB], start_new_session=True)
    recipe = {"number": 1, "attempt": 1, "deadline_s": 0, "tasks": [{}]}
    one = Running("1.1", recipe, Group())
    one.roots.add(child.pid)
    wait_for(lambda: len(one.members()) >= 16, "the bomb did not go off")
    one.kill(signal.SIGKILL)
    assert child.wait(20) == -signal.SIGKILL
    wait_for(lambda: not one.members(), "some are left")


def test_the_numa_nodes_of_cores() -> None:
    inventory = Inventory("b", 2, 8, 1, "0-7", 1, (NumaNode(0, "0-3", 1), NumaNode(1, "4-7", 1)))
    assert numa_of([1, 2], inventory) == [0] and numa_of([3, 4], inventory) == [0, 1]
    assert numa_of([9], inventory) == [] and numa_of([], inventory) == []
    assert numa_of([1], Inventory("b", 1, 8, 1, "0-7", 1, (NumaNode(0, "0-7", 1),))) == []


def test_cpus_and_memory_are_bound_without_a_cpuset(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\ngrep -c bind:0 /proc/self/numa_maps\ngrep Cpus_allowed_list /proc/self/status\n")
    script.chmod(0o755)
    out = tmp_path / "out"
    task = {
        "argv": [str(script)],
        "environment": {"PATH": os.environ["PATH"]},
        "stdin": "",
        "stdout": str(out),
        "stderr": "",
    }
    recipe = {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "user": "x",
        "cpus": [cpu],
        "mems": [0],
        "work_dir": "/",
        "append": False,
    }
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel has no NUMA policies")
    # A process of its own, for begin() forks its caller.
    code = f"from flagplot_agent.launch.spawn import begin\nimport os\none = begin({recipe!r}, {task!r}, [])\nos.waitpid(one.pid, 0)\none.advance(); one.result()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
    first, second = out.read_text().splitlines()
    assert int(first) > 0 and second.split() == ["Cpus_allowed_list:", str(cpu)]
