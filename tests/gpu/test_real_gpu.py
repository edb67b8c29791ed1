"""On a machine with an NVIDIA GPU: telemetry against nvidia-smi, binding by UUID, and the VRAM guard."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.agent_fake_controller import Rig, alive, part, until

from flagplot_agent.telemetry.inventory import discover_gpus
from flagplot_wire import agentlink as al
from flagplot_wire.alloc import Allocation, GpuPart
from flagplot_wire.node import Gpu

HOLD = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def must(code):
    assert code == 0, code
must(cuda.cuInit(0))
device, context = ctypes.c_int(), ctypes.c_void_p()
must(cuda.cuDeviceGet(ctypes.byref(device), 0))
must(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device))
number = os.environ["FLAGPLOT_JOB_ID"]
kept = []
def take(mib):
    at = ctypes.c_uint64()
    must(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mib << 20)))
    kept.append(at)
take(64)
open(number + ".pid", "w").write(f"{os.getpid()} {os.environ['CUDA_VISIBLE_DEVICES']}\\n")
while not os.path.exists(number + ".go"):
    time.sleep(0.01)
take(int(sys.argv[1]))
time.sleep(600)
"""


def smi(fields: str) -> list[list[str]]:
    argv = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    gpus, _, notes = discover_gpus()
    if not gpus or shutil.which("nvidia-smi") is None:
        pytest.skip(f"NO NVIDIA GPU HERE, so nothing of tests/gpu was checked: {'; '.join(notes) or 'no nvidia-smi'}")
    if gpus[0].mig:
        pytest.skip("the first GPU is a MIG device: the tests of tests/gpu are for whole cards")
    return gpus[0]


@pytest.fixture
async def rig(gpu: Gpu) -> AsyncIterator[Rig]:
    folder = Path(tempfile.mkdtemp(prefix="flagplot-g-"))
    made = Rig(folder)
    made.simulated = False
    await made.controller.open()
    await made.start()
    yield made
    await made.close()
    shutil.rmtree(folder)


def test_the_inventory_is_what_nvidia_smi_tells(gpu: Gpu) -> None:
    uuid, name, total = smi("uuid,name,memory.total")[0]
    assert (gpu.uuid, gpu.name) == (uuid, name)
    assert gpu.vram_mib is not None and 0 <= int(total) - gpu.vram_mib < int(total) // 20


async def test_samples_agree_with_nvidia_smi(rig: Rig, gpu: Gpu) -> None:
    reports = await until(lambda: [body for body in rig.controller.heard if isinstance(body, al.SampleReport)], 30)
    sample = reports[-1].sample.gpus[0]
    used, watts, celsius = smi("memory.used,power.draw,temperature.gpu")[0]
    assert sample.memory_used_mib is not None and abs(sample.memory_used_mib - int(used)) < 2_000
    assert sample.temperature_c is not None and abs(sample.temperature_c - int(celsius)) <= 10
    assert sample.power_w is not None and abs(sample.power_w - float(watts)) < 150


async def test_two_jobs_share_a_gpu_and_only_the_one_that_overruns_is_ended(rig: Rig, gpu: Gpu) -> None:
    assert gpu.vram_mib is not None
    eighth = gpu.vram_mib // 8
    (rig.work / "hold.py").write_text(HOLD)
    share = Allocation((part("gpu01", gpus=(GpuPart(0, 1, 8, uuid=gpu.uuid),)),))
    for number, mib in ((1, eighth + 100), (2, eighth // 4)):
        rig.launch(number, f"#!/bin/bash\nexec {sys.executable} hold.py {mib}\n", allocation=share)
    await until(lambda: rig.out("1.pid").endswith("\n") and rig.out("2.pid").endswith("\n"), 60, rig.out("1.out"))
    pids = {number: int(rig.out(f"{number}.pid").split()[0]) for number in (1, 2)}
    assert {rig.out(f"{number}.pid").split()[1] for number in (1, 2)} == {gpu.uuid}
    (rig.work / "2.go").touch()
    (rig.work / "1.go").touch()
    began = time.monotonic()
    end = await rig.controller.end(1)
    took = time.monotonic() - began
    assert end.cause == "oom" and took < 2, f"{end} after {took:.2f} s"
    assert alive(pids[2]) and not rig.controller.ends(2)
