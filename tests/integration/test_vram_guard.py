"""The VRAM guard with a real agent, keeper and jobs, and a driver whose figures the test writes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
from support.agent_fake_controller import Rig, alive, opened_rig, part, until
from support.fake_nvml import build, put_processes

from flagplot_wire import agentlink as al
from flagplot_wire.alloc import Allocation, GpuPart
from flagplot_wire.ids import Epoch, JobNumber

JOB = (
    "#!/bin/bash\nsleep 600 & echo $! >$FLAGPLOT_JOB_ID.first\nsleep 600 & echo $! >$FLAGPLOT_JOB_ID.second\nwait $!\n"
)
SHARE_MIB = 81_059 // 2


@pytest.fixture
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with opened_rig() as made:
        made.simulated = False
        if request.param.startswith("controller:"):
            made.controller.policies = {"vram_guard": request.param.partition(":")[2]}
        else:
            made.options = ["--vram-guard", request.param]
        made.environment = {
            "LD_LIBRARY_PATH": str(build(made.folder)),
            "FAKE_NVML": "normal",
            "FAKE_NVML_PROCESSES": str(made.folder / "processes"),
        }
        await made.start()
        yield made


async def two_halves(rig: Rig) -> dict[str, int]:
    """Jobs 1 and 2 with half of GPU 0 each; the pids of their two processes by file name."""
    half = Allocation((part("gpu01", gpus=(GpuPart(0, 4, 8),)),))
    for number in (1, 2):
        rig.launch(number, JOB, allocation=half)
        await rig.controller.started(number)
    names = [f"{number}.{which}" for number in (1, 2) for which in ("first", "second")]
    await until(lambda: all(rig.out(name).endswith("\n") for name in names), 20, "the processes of both jobs")
    return {name: int(rig.out(name)) for name in names}


def use(rig: Rig, pids: dict[str, int], **mib: int) -> None:
    """Let processes use GPU memory: `one_first` is the first process of job 1."""
    words = {"one": "1", "two": "2"}
    chosen = {name: (words[name.split("_")[0]] + "." + name.split("_")[1]) for name in mib}
    put_processes(rig.folder / "processes", [(0, pids[chosen[name]], value) for name, value in mib.items()])


def notes(rig: Rig, number: int) -> list[str]:
    return [body.message for body in rig.controller.heard if isinstance(body, al.JobNoted) and body.number == number]


@pytest.mark.parametrize("rig", ["kill-youngest", "kill-after=0"], indirect=True)
async def test_who_overruns_its_share_is_ended_and_the_neighbour_lives(rig: Rig) -> None:
    pids = await two_halves(rig)
    fair = {"two_first": SHARE_MIB - 10_000, "two_second": -1}
    use(rig, pids, one_first=30_000, one_second=8_000, **fair)
    (warning,) = await until(lambda: notes(rig, 1), 20, f"a warning\n{rig.log()}")
    assert warning == f"gpu01, GPU 0: it used 38000 MiB of GPU memory, its share is {SHARE_MIB} MiB (93 %)"
    assert not rig.controller.ends(1)
    use(rig, pids, one_first=30_000, one_second=20_000, **fair)
    began = time.monotonic()
    end = await rig.controller.end(1)
    took = time.monotonic() - began
    assert took < 2, f"it took {took:.2f} s"
    assert end.cause == "oom" and f"used 50000 MiB of GPU memory, its share is {SHARE_MIB} MiB" in end.message
    assert "WARNING: GPU 0: it used 38000 MiB" in rig.out("1.out") and "OUT OF GPU MEMORY" in rig.out("1.out")
    assert not alive(pids["1.first"]) and not alive(pids["1.second"])
    assert alive(pids["2.first"]) and alive(pids["2.second"]) and not rig.controller.ends(2)
    assert len(notes(rig, 2)) == 1 and "cannot be measured" in notes(rig, 2)[0]


@pytest.mark.parametrize("rig", ["warn", "controller:warn"], indirect=True)
async def test_the_policy_warn_ends_nobody(rig: Rig) -> None:
    pids = await two_halves(rig)
    assert "VRAM: guard, warns" in (await rig.controller.started(1)).enforced
    use(rig, pids, one_first=30_000, one_second=20_000)
    await until(lambda: notes(rig, 1), 20, f"a warning\n{rig.log()}")
    use(rig, pids, two_first=SHARE_MIB + 1)
    await until(lambda: notes(rig, 2), 20, f"a warning\n{rig.log()}")
    assert all(alive(pid) for pid in pids.values()) and len(notes(rig, 1)) == 1


@pytest.mark.parametrize("rig", ["warn"], indirect=True)
async def test_a_job_with_idle_gpus_is_warned_and_ended_where_asked_for(rig: Rig) -> None:
    rig.kill()
    rig.options = ["--idle-gpus", "end-after=3"]
    rig.environment["FAKE_NVML"] = "idle"
    await rig.start()
    rig.launch(1, "#!/bin/bash\nexec sleep 600\n", allocation=Allocation((part("gpu01", gpus=(GpuPart(0, 8, 8),)),)))
    rig.launch(2, "#!/bin/bash\nexec sleep 600\n")
    rig.launch(3, "#!/bin/bash\nexec sleep 600\n", allocation=Allocation((part("gpu01", gpus=(GpuPart(1, 8, 8),)),)))
    await rig.controller.started(3)
    rig.controller.send(al.Signal(Epoch(1), JobNumber(3), 1, "STOP"))
    end = await rig.controller.end(1)
    assert end.cause == "stopped" and end.message.startswith("gpu01: its GPUs did nothing for ")
    assert len(notes(rig, 1)) == 1 and "ENDED BECAUSE ITS GPUS DID NOTHING" in rig.out("1.out")
    assert not rig.controller.ends(2) and not notes(rig, 3) and not rig.controller.ends(3)
