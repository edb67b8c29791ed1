"""What a node has: the machine's hardware, or what a simulation file describes."""

from __future__ import annotations

import platform
from pathlib import Path

from flagplot_agent.telemetry import host
from flagplot_agent.telemetry.simulated import inventory_of, read_simulation
from flagplot_wire.indices import compress_indices
from flagplot_wire.node import Gpu, Inventory


def discover(node: str, simulate: Path | None) -> Inventory:
    """The inventory of this machine, or of the simulation."""
    if simulate is not None:
        return inventory_of(node, read_simulation(simulate), host.boot_id(), platform.release(), host.os_name())
    sockets, cores, threads = host.topology()
    gpus, driver, notes = discover_gpus()
    return Inventory(
        host.boot_id(),
        sockets,
        cores,
        threads,
        compress_indices(host.cpus()),
        host.memory_total_mib(),
        host.numa_nodes(),
        gpus,
        (),
        "",
        "",
        platform.release(),
        host.os_name(),
        driver,
        host.cpu_model(),
        notes=notes,
    )


def discover_gpus() -> tuple[tuple[Gpu, ...], str, tuple[str, ...]]:
    """(GPUs, driver version, notes in plain words)."""
    from flagplot_agent.telemetry.nvml import NoNvml, Nvml

    try:
        nvml = Nvml()
    except NoNvml as why:
        return (), "", (str(why),)
    try:
        devices = nvml.devices()
    finally:
        nvml.close()
    return tuple(device.gpu for device in devices), nvml.driver, ()
