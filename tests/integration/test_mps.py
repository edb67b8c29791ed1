"""CUDA MPS around shared GPUs, with a real agent, keeper and jobs; the control program is a stand-in that notes its calls."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.agent_fake_controller import Rig, opened_rig, part, until
from support.fake_nvml import build
from support.people import person

from flagplot_wire import agentlink as al
from flagplot_wire.alloc import Allocation, GpuPart
from flagplot_wire.ids import Epoch, JobNumber

SHARE_MIB = 81_059 // 4
JOB = '#!/bin/bash\nenv | grep ^CUDA_ >"$FLAGPLOT_JOB_ID.env"\nexec sleep 600\n'
QUARTER = Allocation((part("gpu01", gpus=(GpuPart(0, 2, 8, uuid="GPU-0"),)),))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with opened_rig(for_people=True) as made:
        made.simulated = False
        programs = made.folder / "programs"
        programs.mkdir()
        (programs / "mps.notes").touch()
        (programs / "mps.notes").chmod(0o666)
        shutil.copy(Path(__file__).parents[1] / "support" / "mps_control.sh", programs / "nvidia-cuda-mps-control")
        made.environment = {
            "LD_LIBRARY_PATH": str(build(made.folder)), "FAKE_NVML": "normal",
            "PATH": f"{programs}:{os.environ['PATH']}",
        }  # fmt: skip
        await made.start()
        yield made


def notes(rig: Rig) -> list[str]:
    return (rig.folder / "programs" / "mps.notes").read_text().splitlines()


async def environment(rig: Rig, number: int) -> dict[str, str]:
    await until(lambda: rig.out(f"{number}.env").endswith("\n"), 20, f"the environment of job {number}\n{rig.log()}")
    return dict(line.split("=", 1) for line in rig.out(f"{number}.env").splitlines())


def stop(rig: Rig, number: int) -> None:
    rig.controller.send(al.Stop(Epoch(1), JobNumber(number), 1, 0, "CANCELLED"))


async def test_one_daemon_from_the_first_shared_job_to_the_last(rig: Rig) -> None:
    for number in (1, 2):
        rig.launch(number, JOB, allocation=QUARTER)
    started = await rig.controller.started(1)
    assert "VRAM: MPS and guard, kills the youngest" in started.enforced
    uid = os.getuid()
    place = f"{uid}-0"
    for number in (1, 2):
        found = await environment(rig, number)
        assert found == {
            "CUDA_VISIBLE_DEVICES": "GPU-0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={SHARE_MIB}M",
            "CUDA_MPS_PIPE_DIRECTORY": str(rig.agent_dir / "mps" / place),
        }  # fmt: skip
    assert notes(rig) == [f"start {uid} GPU-0 {place}"]
    stop(rig, 1)
    await rig.controller.end(1)
    rig.kill()
    await rig.start()
    stop(rig, 2)
    await rig.controller.end(2)
    await until(lambda: len(notes(rig)) == 2, 20, f"a word to the daemon\n{rig.log()}")
    assert notes(rig)[1] == f"quit {uid} GPU-0 {place}"
    await until(lambda: not (rig.agent_dir / "mps" / place).exists(), 20, "its folder gone")


async def test_each_user_has_one_alone(rig: Rig) -> None:
    if os.getuid() != 0:
        pytest.skip("only root runs jobs of several users")
    with person("ada", ()) as ada, person("bob", ()) as bob:
        for number, one in ((1, ada), (2, bob)):
            rig.launch(number, JOB, allocation=QUARTER, user=one.pw_name, uid=one.pw_uid, gid=one.pw_gid)
            found = await environment(rig, number)
            assert found["CUDA_MPS_PIPE_DIRECTORY"].endswith(f"/{one.pw_uid}-0")
            place = rig.agent_dir / "mps" / f"{one.pw_uid}-0"
            assert place.stat().st_uid == one.pw_uid and place.stat().st_mode & 0o777 == 0o700
        assert notes(rig) == [f"start {one.pw_uid} GPU-0 {one.pw_uid}-0" for one in (ada, bob)]
        for number in (1, 2):
            stop(rig, number)
            await rig.controller.end(number)


async def test_whole_gpus_and_several_have_none(rig: Rig) -> None:
    whole = Allocation((part("gpu01", gpus=(GpuPart(0, 8, 8),)),))
    both = Allocation((part("gpu01", gpus=(GpuPart(0, 2, 8, uuid="GPU-0"), GpuPart(1, 2, 8, uuid="GPU-1"))),))
    for number, allocation in ((1, whole), (2, both)):
        rig.launch(number, JOB, allocation=allocation)
        assert list(await environment(rig, number)) == ["CUDA_VISIBLE_DEVICES"]
    assert not any("VRAM" in word for word in (await rig.controller.started(1)).enforced)
    assert "VRAM: guard, kills the youngest" in (await rig.controller.started(2)).enforced
    assert notes(rig) == []


async def test_without_it_the_guard_alone_is_named(rig: Rig) -> None:
    (rig.folder / "programs" / "mps.broken").touch()
    rig.launch(1, JOB, allocation=QUARTER)
    started = await rig.controller.started(1)
    assert "VRAM: guard, kills the youngest" in started.enforced
    assert any("MPS cannot be used: nvidia-cuda-mps-control does not start" in note for note in started.notes)
    assert list(await environment(rig, 1)) == ["CUDA_VISIBLE_DEVICES"]


async def test_what_a_killed_agent_left_is_ended(rig: Rig) -> None:
    rig.launch(1, JOB, allocation=QUARTER)
    await environment(rig, 1)
    rig.kill()
    left = rig.agent_dir / "mps" / f"{os.getuid()}-1"
    left.mkdir()
    (left / "alive").touch()
    await rig.start()
    await until(lambda: not left.exists(), 20, f"the end of what was left\n{rig.log()}")
    assert notes(rig)[1:] == [f"quit {os.getuid()}  {os.getuid()}-1"]
