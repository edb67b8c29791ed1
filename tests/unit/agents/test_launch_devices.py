"""Device files of GPUs: what a job may not open."""

from __future__ import annotations

from flagplot_agent.launch.devices import denied_devices, mig_capabilities
from flagplot_wire.node import Gpu

MAJORS = "Character devices:\n  1 mem\n195 nvidia\n236 nvidia-caps\n507 nvidia-uvm\n\nBlock devices:\n259 blkext\n"
MINORS = "config 1\nmonitor 2\ngpu0/gi7/access 66\ngpu0/gi7/ci0/access 67\ngpu0/gi8/access 75\ngpu0/gi8/ci0/access 76\n"


def slice_of(index: int, instance: int) -> Gpu:
    capabilities = mig_capabilities(MAJORS, MINORS, 0, instance, 0)
    return Gpu(index, f"MIG-{index}", "a100_1g.5gb", minor=0, mig=True, capabilities=capabilities)


def test_whole_cards_of_others_are_closed() -> None:
    gpus = [Gpu(index, f"GPU-{index}", "h100", minor=index + 4) for index in range(3)]
    assert denied_devices(gpus, {1}) == ["c 195:4", "c 195:6"]
    assert denied_devices([Gpu(0, "a", "h100", minor=0, simulated=True), Gpu(1, "b", "h100")], ()) == []


def test_mig_devices_of_one_card_are_kept_apart_by_their_capabilities() -> None:
    gpus = [slice_of(0, 7), slice_of(1, 8), Gpu(2, "GPU-2", "a100", minor=1)]
    assert gpus[0].capabilities == ("c 236:66", "c 236:67")
    assert denied_devices(gpus, {0}) == ["c 236:75", "c 236:76", "c 195:1"]
    assert denied_devices(gpus, {2}) == ["c 195:0", "c 236:66", "c 236:67", "c 236:75", "c 236:76"]


def test_a_driver_that_lists_no_capabilities_gives_none() -> None:
    assert mig_capabilities("195 nvidia\n", MINORS, 0, 7, 0) == ()
    assert mig_capabilities(MAJORS, "", 0, 7, 0) == () == mig_capabilities(MAJORS, MINORS, 1, 7, 0)
