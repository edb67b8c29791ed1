"""A script in a real container: podman with an image made of busybox, in the job's control groups."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support import images
from support.agent_fake_controller import Rig, opened_rig, part, until

from flagplot_wire import agentlink as al
from flagplot_wire.alloc import Allocation
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import JobSpec


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with images.storage() as made:
        yield made


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with opened_rig() as made:
        made.prefix = images.agent_prefix()
        await made.start()
        yield made


def wish(rig: Rig, **more: str) -> JobSpec:
    return JobSpec("boxed", str(rig.work), stdout="%j.out", container_image=images.IMAGE, **more)


async def test_a_script_runs_in_its_image(rig: Rig, storage: dict[str, str]) -> None:
    (rig.folder / "data").mkdir()
    (rig.folder / "data/given").write_text("from the node\n")
    script = (
        "#!/bin/sh\n[ -e /etc/debian_version ] || echo in the image\ncat /in/given; touch /in/no 2>/dev/null || echo read only\n"
        'echo "$1 $MINE $SLURM_JOB_ID $PATH"; pwd; touch made; grep -c /1.1 /proc/self/cgroup; ulimit -n; exit 6\n'
    )
    spec = wish(rig, container_mounts=f"{rig.folder}/data:/in:ro", container_workdir=str(rig.work))
    environment = {**storage, "MINE": "a b"}
    rig.launch(1, script, spec=spec, environment=environment, args=("one two",), limits={"NOFILE": 99})
    end = await rig.controller.end(1)
    lines = rig.out("1.out").splitlines()
    assert (end.cause, end.exit_code) == ("exited", 6), (end, lines)
    assert lines[:3] == ["in the image", "from the node", "read only"]
    assert lines[3].startswith("one two a b 1 ") and "flagplot" not in lines[3] and lines[4] == str(rig.work)
    assert int(lines[5]) > 0 and lines[6] == "99" and (rig.work / "made").exists()


async def test_a_container_ends_with_its_job(rig: Rig, storage: dict[str, str]) -> None:
    rig.launch(1, "#!/bin/sh\ntouch begun\nsleep 311.25\n", spec=wish(rig), environment=storage)
    await until((rig.work / "begun").exists)
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 1))
    assert (await rig.controller.end(1)).cause == "stopped"
    left = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    assert "sleep 311.25" not in left and "conmon" not in left


async def test_what_a_killed_container_left_is_removed(rig: Rig, storage: dict[str, str]) -> None:
    rig.launch(1, "#!/bin/sh\ntouch begun\nsleep 311.5\n", spec=wish(rig), environment=storage)
    await until((rig.work / "begun").exists)
    listed = ["podman", "ps", "--all", "--filter=label=flagplot", "--format={{.Names}} {{.Pid}}"]
    begun = subprocess.run(listed, env={**os.environ, **storage}, capture_output=True, text=True, check=True).stdout
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 0))
    await rig.controller.end(1)
    await until(lambda: not Path("/proc", begun.split()[1]).exists())
    rig.launch(2, "#!/bin/sh\ntouch again\n", spec=wish(rig), environment=storage)
    assert (await rig.controller.end(2)).exit_code == 0 and (rig.work / "again").exists()
    left = subprocess.run(listed, env={**os.environ, **storage}, capture_output=True, text=True, check=True).stdout
    assert "flagplot-1-1-0" not in left, left


async def test_memory_of_a_container_is_the_jobs(rig: Rig, storage: dict[str, str]) -> None:
    script = "#!/bin/sh\nx=$(cat /dev/zero | busybox tr '\\0' x | busybox head -c 300000000)\n"
    allocation = Allocation((part("gpu01", memory=120),))
    rig.launch(1, script, spec=wish(rig), environment=storage, allocation=allocation)
    started = await rig.controller.started(1)
    if "memory" not in started.enforced:
        pytest.skip(f"memory is not enforced here: {started.notes}")
    assert (await rig.controller.end(1, seconds=60)).cause == "oom"


async def test_what_cannot_be_boxed_says_why(rig: Rig, storage: dict[str, str]) -> None:
    rig.launch(1, "#!/bin/sh\n", spec=wish(rig, container_mounts="data:/in"), environment=storage)
    end = await rig.controller.end(1)
    assert end.cause == "launch_failed" and end.message.startswith(
        "user: --container-mounts: 'data' is no absolute path"
    )
    (rig.folder / "site.toml").write_text('[containers]\nengines = ["enroot"]\n')
    rig.kill()
    rig.options = ["--config", str(rig.folder / "site.toml")]
    await rig.start()
    rig.launch(2, "#!/bin/sh\n", spec=wish(rig), environment=storage)
    assert "no container engine is installed" in (await rig.controller.end(2)).message
