"""What a node has: the machine's hardware, or what a simulation file describes."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterable
from pathlib import Path

from flagplot_agent.telemetry import host
from flagplot_agent.telemetry.libraries import find_libraries
from flagplot_agent.telemetry.simulated import inventory_of, read_simulation
from flagplot_wire.indices import compress_indices
from flagplot_wire.node import Gpu, Inventory

log = logging.getLogger("flagplot-agent")


def discover(node: str, simulate: Path | None, extra: Iterable[str] = ()) -> Inventory:
    """The inventory of this machine, or of the simulation; `extra` are libraries to tell beside the usual ones."""
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
        libraries=libraries(extra),
    )


def libraries(extra: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The versions of this machine's libraries; none where they cannot be found out."""
    try:
        return find_libraries(extra)
    except OSError as wrong:
        log.warning("the versions of libraries are unknown: %s", wrong)
        return ()


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
