"""A real agent that looks at a real machine: disks, mounts, scripts, the clock."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator

import pytest
from support.agent_fake_controller import Rig, alive, opened_rig, until


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with opened_rig() as made:
        made.agent_dir.mkdir()
        yield made


async def start(rig: Rig, text: str) -> None:
    """Start the agent with this `[health]`, looking every second."""
    (rig.agent_dir / "agent.toml").write_text(f"[health]\ninterval_s = 1\n{text}\n")
    await rig.start()


async def reasons(rig: Rig, *wanted: str) -> None:
    """Wait until the last report has these reasons."""

    def reported() -> bool:
        report = rig.controller.health()
        return report is not None and report.reasons == wanted

    await until(reported, 10, f"{wanted}, the last is {rig.controller.health()}\n{rig.log()}")


async def test_a_healthy_node_says_so_once(rig: Rig) -> None:
    await start(rig, 'mounts = ["/proc"]\nresume = "auto"')
    await reasons(rig)
    report = rig.controller.health()
    assert report is not None and report.resume
    asked = len(rig.controller.heard)
    await until(lambda: len(rig.controller.heard) > asked + 8, 20, "heartbeats and samples")
    assert sum(body == report for body in rig.controller.heard) == 1


async def test_a_full_disk_and_one_that_is_not_there(rig: Rig) -> None:
    gone = rig.folder / "gone"
    much = 10**12
    await start(rig, f'disks = [{{path = "/", min_free_mib = {much}}}, {{path = "{gone}"}}]')
    missing = f"disk {gone}: cannot be asked: No such file or directory"
    await reasons(rig, f"disk /: less than {much} MiB free", missing)
    report = rig.controller.health()
    assert report is not None and not report.resume
    count = len(rig.controller.heard)
    await until(lambda: report in rig.controller.heard[count:], 10, "the same report again")


async def test_scripts_drain_by_exit_code_and_first_line(rig: Rig) -> None:
    folder = rig.agent_dir / "health.d"
    folder.mkdir()

    def script(name: str, text: str, mode: int = 0o755) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(mode)

    pids = rig.folder / "pid"
    script("10-fine", 'echo "fine on $FLAGPLOT_NODE"; test -z "$HOME"')
    script("20-link", "echo noise >&2; echo port 1 is down; echo more; exit 1")
    script("30-quiet", "exit 3")
    script("40-hangs", f"echo $$ >{pids}; exec sleep 303")
    script("50-open", "exit 1", 0o777)
    script("60-data", "exit 1", 0o644)
    script("backup~", "exit 1")
    await start(rig, "script_timeout_s = 1")
    await reasons(
        rig, "20-link: port 1 is down", "30-quiet: ended with exit code 3", "40-hangs: did not end within 1 s",
        "50-open: can be written by everybody: it is not run",
    )  # fmt: skip
    for name in ("20-link", "30-quiet", "40-hangs", "50-open"):
        (folder / name).unlink()
    await reasons(rig)
    assert not alive(int(pids.read_text()))


async def test_a_clock_that_is_off(rig: Rig) -> None:
    rig.controller.clock_ahead_s = 3600
    await start(rig, "max_skew_s = 30")
    await reasons(rig, "clock: more than 30 s behind the controller's")
    rig.controller.clock_ahead_s = -3600
    await reasons(rig, "clock: more than 30 s ahead of the controller's")
    rig.controller.clock_ahead_s = 0
    await reasons(rig)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount a file system")
async def test_a_file_system_that_is_unmounted_and_comes_back(rig: Rig) -> None:
    place = rig.folder / "two words"
    place.mkdir()
    await start(rig, f'mounts = ["/proc", "{place}"]')
    await reasons(rig, f"file system {place}: not mounted")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    try:
        await reasons(rig)
    finally:
        subprocess.run(["umount", place], check=True)
    await reasons(rig, f"file system {place}: not mounted")


async def test_nothing_is_looked_at_where_that_is_switched_off(rig: Rig) -> None:
    (rig.agent_dir / "agent.toml").write_text('[health]\ninterval_s = 0\nmounts = ["/nowhere"]\n')
    await rig.start()
    await until(lambda: len(rig.controller.heard) > 4, 20, "heartbeats and samples")
    assert rig.controller.health() is None
