"""A shared library that the real NVML binding loads, built with gcc."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")


def build(folder: Path) -> Path:
    """Put libnvidia-ml.so.1 into a folder; skips where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed, so no library can be built")
    argv = ["gcc", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)]
    subprocess.run(argv, check=True)
    return folder


def put_processes(path: Path, lines: list[tuple[int, int, int]]) -> None:
    """Say who is on which card from now on: (card, pid, MiB; -1: not measured). Dead pids leave by themselves."""
    new = path.with_suffix(".new")
    new.write_text("".join(f"{card} {pid} {mib}\n" for card, pid, mib in lines))
    os.replace(new, path)
