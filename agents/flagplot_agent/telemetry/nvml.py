"""GPUs by NVML: the only place that imports pynvml (the nvidia-ml-py distribution)."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from flagplot_agent.launch.devices import mig_capabilities
from flagplot_agent.telemetry import host
from flagplot_agent.telemetry.cardwatch import CardWatch
from flagplot_agent.telemetry.host import numa_of_pci, process_owner
from flagplot_agent.telemetry.names import type_word
from flagplot_wire.node import Gpu
from flagplot_wire.telemetry import GpuProcess, GpuSample

T = TypeVar("T")
MIG_MINORS = "/proc/driver/nvidia-caps/mig-minors"


class NoNvml(Exception):
    """NVML cannot be used; the text says why and what to do."""


@dataclass(slots=True)
class Device:
    """One GPU or MIG device: where its handle comes from, and what was found of it."""

    gpu: Gpu
    parent: int
    mig: int | None


class Nvml:
    """A connection to the driver. Raises `NoNvml` where there is none."""

    def __init__(self) -> None:
        self.lib = load()
        try:
            self.lib.nvmlInit()
        except self.lib.NVMLError as wrong:
            raise NoNvml(init_failure(self.lib, wrong)) from wrong
        names = ("ComputeRunningProcesses", "GraphicsRunningProcesses", "MPSComputeRunningProcesses_v3")
        self._listers = [one for name in names if (one := getattr(self.lib, f"nvmlDeviceGet{name}", None)) is not None]
        self.cards = CardWatch(self.lib, self.ask)
        self.driver = text_of(self.ask(self.lib.nvmlSystemGetDriverVersion) or "")

    def close(self) -> None:
        """Let go of the driver."""
        self.ask(self.lib.nvmlShutdown)

    def ask(self, call: Callable[[], T]) -> T | None:
        """A value, or None where the driver does not support it or lost the device."""
        try:
            return call()
        except self.lib.NVMLError:
            return None

    def devices(self) -> list[Device]:
        """Every GPU, MIG devices in the place of their parent; lost cards stay, with their fault."""
        found: list[Device] = []
        for parent in range(self.lib.nvmlDeviceGetCount()):
            try:
                handle = self.lib.nvmlDeviceGetHandleByIndex(parent)
                instances = self._mig(handle)
                if instances is None:
                    found.append(Device(self._gpu(handle, len(found), parent), parent, None))
                for mig, instance in instances or ():
                    found.append(Device(self._gpu(instance, len(found), parent, handle), parent, mig))
            except self.lib.NVMLError as wrong:
                lost = Gpu(len(found), f"unknown-{parent}", "unknown", fault=text_of(str(wrong)))
                found.append(Device(lost, parent, None))
        self._join(found)
        return found

    def _join(self, found: list[Device]) -> None:
        """Tell of each GPU with which others NVLink joins it."""
        whole = [one for one in found if one.mig is None and not one.gpu.fault]
        links: dict[int, list[int]] = {one.gpu.index: [] for one in whole}
        for first, second in combinations(whole, 2):
            if self._linked(first, second):
                links[first.gpu.index].append(second.gpu.index)
                links[second.gpu.index].append(first.gpu.index)
        for one in whole:
            one.gpu = msgspec.structs.replace(one.gpu, links=tuple(links[one.gpu.index]))

    def _linked(self, first: Device, second: Device) -> bool:
        handles = [self.ask(lambda device=device: self._handle(device)) for device in (first, second)]  # type: ignore[misc]
        status = self.ask(lambda: self.lib.nvmlDeviceGetP2PStatus(*handles, self.lib.NVML_P2P_CAPS_INDEX_NVLINK))
        return bool(status == self.lib.NVML_P2P_STATUS_OK)

    def _mig(self, handle: Any) -> list[tuple[int, Any]] | None:
        mode = self.ask(lambda: self.lib.nvmlDeviceGetMigMode(handle))
        if mode is None or mode[0] != self.lib.NVML_DEVICE_MIG_ENABLE:
            return None
        found = []
        for index in range(self.ask(lambda: self.lib.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
            instance = self.ask(lambda index=index: self.lib.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))  # type: ignore[misc]
            if instance is not None:
                found.append((index, instance))
        return found

    def _gpu(self, handle: Any, index: int, minor: int, parent: Any = None) -> Gpu:
        name = text_of(self.lib.nvmlDeviceGetName(handle))
        uuid = text_of(self.lib.nvmlDeviceGetUUID(handle))
        pci = self.ask(lambda: self.lib.nvmlDeviceGetPciInfo(parent if parent is not None else handle))
        address = text_of(pci.busId).lower() if pci is not None else ""
        real_minor = self.ask(lambda: self.lib.nvmlDeviceGetMinorNumber(parent if parent is not None else handle))
        memory = self._memory(handle)
        return Gpu(
            index,
            uuid,
            type_word(name),
            name,
            memory[1] if memory else None,
            numa_of_pci(address) if address else None,
            address,
            minor if real_minor is None else real_minor,
            mig=parent is not None,
            capabilities=self._capabilities(handle, real_minor) if parent is not None else (),
        )

    def _capabilities(self, handle: Any, minor: int | None) -> tuple[str, ...]:
        instance = self.ask(lambda: self.lib.nvmlDeviceGetGpuInstanceId(handle))
        compute = self.ask(lambda: self.lib.nvmlDeviceGetComputeInstanceId(handle))
        if minor is None or instance is None or compute is None:
            return ()
        return mig_capabilities(host.text_at("/proc/devices"), host.text_at(MIG_MINORS), minor, instance, compute)

    def _memory(self, handle: Any) -> tuple[int, int] | None:
        """(used without the driver's reserve, total without it), MiB."""
        version = getattr(self.lib, "nvmlMemory_v2", None)
        found = self.ask(lambda: self.lib.nvmlDeviceGetMemoryInfo(handle, version)) if version else None
        if found is not None:
            return found.used // 2**20, (found.total - found.reserved) // 2**20
        found = self.ask(lambda: self.lib.nvmlDeviceGetMemoryInfo(handle))
        return (found.used // 2**20, found.total // 2**20) if found is not None else None

    def sample(self, device: Device, jobs: dict[int, int]) -> GpuSample:
        """One device now; `jobs` maps pids to job numbers. A lost or unfit card gives its fault."""
        index = device.gpu.index
        try:
            handle = self._handle(device)
            self.lib.nvmlDeviceGetUUID(handle)
        except self.lib.NVMLError as wrong:
            return GpuSample(index, fault=text_of(str(wrong)))
        use = None if device.mig is not None else self.ask(lambda: self.lib.nvmlDeviceGetUtilizationRates(handle))
        memory = self._memory(handle)
        processes = self._processes(handle, jobs)
        used = memory[0] if memory else None
        if memory is None and processes and all(one.memory_mib is not None for one in processes):
            used = sum(one.memory_mib or 0 for one in processes)
        power = self.ask(lambda: self.lib.nvmlDeviceGetPowerUsage(handle))
        limit = self.ask(lambda: self.lib.nvmlDeviceGetEnforcedPowerLimit(handle))
        return GpuSample(
            index,
            use.gpu if use is not None else None,
            used,
            memory[1] if memory else None,
            self.ask(lambda: self.lib.nvmlDeviceGetTemperature(handle, self.lib.NVML_TEMPERATURE_GPU)),
            power // 1000 if power is not None else None,
            limit // 1000 if limit is not None else None,
            processes,
            self.cards.fault(device.parent, self.lib.nvmlDeviceGetHandleByIndex(device.parent)),
        )

    def processes(self, device: Device, jobs: dict[int, int]) -> tuple[GpuProcess, ...] | None:
        """Who is on a device now; None where it was lost."""
        handle = self.ask(lambda: self._handle(device))
        return None if handle is None else self._processes(handle, jobs)

    def _handle(self, device: Device) -> Any:
        handle = self.lib.nvmlDeviceGetHandleByIndex(device.parent)
        return handle if device.mig is None else self.lib.nvmlDeviceGetMigDeviceHandleByIndex(handle, device.mig)

    def _processes(self, handle: Any, jobs: dict[int, int]) -> tuple[GpuProcess, ...]:
        found: dict[int, int | None] = {}
        for lister in self._listers:
            for process in self.ask(lambda lister=lister: lister(handle)) or ():  # type: ignore[misc]
                used = process.usedGpuMemory
                mib = used // 2**20 if used is not None else None
                before = found.get(process.pid)
                found[process.pid] = mib if before is None else max(before, mib or 0)
        return tuple(
            GpuProcess(pid, mib, *process_owner(pid), job=jobs.get(pid, 0))  # type: ignore[arg-type]
            for pid, mib in sorted(found.items())
        )


def load() -> Any:
    """The pynvml module, after a look at which distribution it is; raises `NoNvml`."""
    try:
        import pynvml
    except ImportError as wrong:
        raise NoNvml("no GPUs: the nvidia-ml-py package is not installed") from wrong
    if not hasattr(pynvml, "nvmlDeviceGetMemoryInfo") or not hasattr(pynvml, "NVMLError"):
        raise NoNvml("no GPUs: the module pynvml is not NVIDIA's; install nvidia-ml-py")
    return pynvml


def distribution(lib: Any) -> str:
    """Which distribution the loaded pynvml module belongs to, with its version; else where the module lies."""
    loaded = Path(lib.__file__ or "").resolve()
    for name in ("nvidia-ml-py", "pynvml"):
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if any(Path(str(found.locate_file(file))).resolve() == loaded for file in found.files or ()):
            return f"{name} {found.version}"
    return f"of no known distribution, {loaded}"


def binding_words() -> str:
    """The NVML binding in use, for the log: its distribution and version, or why there is none."""
    try:
        return distribution(load())
    except NoNvml as why:
        return str(why)


def init_failure(lib: Any, wrong: Any) -> str:
    """Why nvmlInit failed, and what to do."""
    value = getattr(wrong, "value", None)
    known = {
        lib.NVML_ERROR_LIBRARY_NOT_FOUND: "no GPUs: there is no NVIDIA driver (libnvidia-ml.so.1 was not found)",
        lib.NVML_ERROR_DRIVER_NOT_LOADED: "no GPUs: the NVIDIA driver is not loaded (try: modprobe nvidia)",
        lib.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "the NVIDIA driver and its library have different versions: reboot, or reload the driver"
        ),
        lib.NVML_ERROR_NO_PERMISSION: "no GPUs: no permission to talk to the NVIDIA driver",
    }
    return known.get(value, f"no GPUs: NVML says {text_of(str(wrong))}")


def text_of(value: bytes | str) -> str:
    """Text, whether the binding gives bytes or str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
