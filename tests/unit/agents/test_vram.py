"""How jobs are held to their part of GPU memory: which way is taken, and what it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagplot_agent.config import Config
from flagplot_agent.guard import parse_policy
from flagplot_agent.launch.cgroup import Groups
from flagplot_agent.policies import Policies
from flagplot_agent.settings import Gpus, HealthSettings, Settings
from flagplot_agent.vram import Has, Hold, held_to, hold, regions_in, words
from flagplot_wire.agentlink import AgentWelcome
from flagplot_wire.alloc import GpuPart
from flagplot_wire.ids import Epoch
from flagplot_wire.node import Gpu

CARD = Gpu(0, "GPU-0", "h100", vram_mib=80_000, pci="00000000:3b:00.0")
OTHER = Gpu(1, "GPU-1", "h100", vram_mib=80_000, pci="00000000:5e:00.0")
SLICE = Gpu(2, "MIG-2", "1g.10gb", vram_mib=9_000, pci="00000000:3b:00.0", mig=True)
GPUS = {gpu.index: gpu for gpu in (CARD, OTHER, SLICE)}
REGION = "drm/0000:3b:00.0/vram0"
CAPACITY = f"{REGION} 8514437120\ndrm/0000:00:02.0/stolen 67108864\n"
QUARTER = GpuPart(0, 2, 8)


def test_the_kernels_list_of_regions() -> None:
    assert regions_in(CAPACITY) == {REGION, "drm/0000:00:02.0/stolen"} and regions_in("") == frozenset()


def test_the_strongest_way_is_taken() -> None:
    dmem, mps = regions_in(CAPACITY), Has(mps=True)
    assert hold([], GPUS, mps) == hold([GpuPart(0, 8, 8)], GPUS, mps) == Hold("whole")
    assert hold([GpuPart(2, 8, 8)], GPUS, mps).way == "MIG"
    assert hold([QUARTER], GPUS, Has(dmem, True)) == Hold("dmem limit", {REGION: 20_000 << 20})
    found = hold([QUARTER], GPUS, mps)
    assert (found.way, found.mps) == ("MPS", 0)
    assert found.mps_environment == {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=20000M",
    }  # fmt: skip
    assert hold([QUARTER], GPUS, Has()) == Hold("guard")


def test_what_no_way_reaches() -> None:
    """Memory that is not known or simulated is not held; a region of another card says nothing of this one."""
    for gpu in (Gpu(0, "a", "h100"), Gpu(0, "a", "h100", vram_mib=80_000, simulated=True)):
        assert hold([QUARTER], {0: gpu}, Has(mps=True)) == Hold("none")
    assert hold([QUARTER], {}, Has(mps=True)).way == "none"
    assert hold([GpuPart(1, 2, 8)], GPUS, Has(regions_in(CAPACITY))).way == "guard"
    assert hold([GpuPart(0, 2, 8)], {0: Gpu(0, "a", "h100", vram_mib=8)}, Has(frozenset({"drm//vram0"}))).way == "guard"


def test_the_weakest_of_several_is_told() -> None:
    """MPS serves one GPU; with a second one there is the guard, and a dmem limit holds on its card all the same."""
    two = [QUARTER, GpuPart(1, 1, 8)]
    assert hold(two, GPUS, Has(mps=True)) == Hold("guard")
    found = hold(two, GPUS, Has(regions_in(CAPACITY), True))
    assert found == Hold("guard", {REGION: 20_000 << 20})
    assert hold([QUARTER, GpuPart(1, 8, 8)], GPUS, Has(mps=True)).way == "guard"


@pytest.mark.parametrize(
    ("way", "policy", "expected"),
    [
        ("guard", "kill-youngest", "VRAM: guard, kills the youngest"),
        ("MPS", "kill-after=30", "VRAM: MPS and guard, kills after 30 s"),
        ("guard", "warn", "VRAM: guard, warns"),
        ("dmem limit", "warn", "VRAM: dmem limit"),
        ("MIG", "warn", "VRAM: MIG"),
        ("whole", "warn", ""),
        ("none", "warn", ""),
    ],
)
def test_its_name(way: str, policy: str, expected: str) -> None:
    assert words(way, parse_policy(policy)) == expected  # type: ignore[arg-type]


def test_a_recipe_names_what_is_left_when_the_kernel_refuses() -> None:
    found = held_to([QUARTER], GPUS.values(), Has(regions_in(CAPACITY)), parse_policy("warn"))
    assert found == {
        "vram": "VRAM: dmem limit", "vram_otherwise": "VRAM: guard, warns", "dmem": {REGION: 20_000 << 20},
    }  # fmt: skip
    found = held_to([QUARTER], GPUS.values(), Has(mps=True), parse_policy("warn"))
    assert found["mps"]["gpu"] == 0 and found["mps"]["uuid"] == "GPU-0"


def test_dmem_files(tmp_path: Path) -> None:
    """Plain files in place of the kernel's: what would be written, and where."""
    for folder in (tmp_path, tmp_path / "flagplot-n"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text("dmem\n")
    bases = {"": (tmp_path, True), "dmem": (tmp_path, True)}
    group = Groups("n", bases).create("41.1", 0, [], [], dmem={REGION: 20_000 << 20})
    assert (tmp_path / "flagplot-n/41.1/dmem.max").read_text() == f"{REGION} {20_000 << 20}"
    assert group.enforced == ["dmem"] and group.notes == []
    without = Groups("n", {"": (tmp_path, True)}).create("42.1", 0, [], [], dmem={REGION: 1})
    assert without.enforced == [] and without.notes == ["GPU memory is not limited by the kernel"]


def config(**more: str) -> Config:
    path = Path("/nowhere")
    settings = Settings(gpus=Gpus(idle="warn-after=60"), health=HealthSettings())
    return Config(path, "n1", "localhost", 1, path, path, settings=settings, **more)  # type: ignore[arg-type]


def test_whose_policy_is_in_force() -> None:
    """The option, then the node's file, then the controller's word, then the default."""
    alone = Policies(config())
    assert alone.guard == parse_policy("kill-youngest") and alone.idle.after_s == 60 and not alone.resume
    theirs = AgentWelcome(Epoch(1), vram_guard="kill-after=9", idle_gpus="end-after=5", health_resume="auto")
    alone.told(theirs)
    assert alone.guard == parse_policy("kill-after=9") and alone.idle.act == "warn" and alone.resume
    alone.told(AgentWelcome(Epoch(1), vram_guard="kill-softly"))
    assert alone.guard == parse_policy("kill-youngest") and not alone.resume
    given = Policies(config(vram_guard="warn", idle_gpus="off"))
    given.told(theirs)
    assert given.guard == parse_policy("warn") and given.idle.act == "off"
