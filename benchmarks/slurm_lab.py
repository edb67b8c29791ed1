"""Slurm with real slurmds on loopback, brought up by `slurm/slurm_up.sh` of the shared folder, for the same jobs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from real_slurm import Unusable, folder_of_its_own, free_port


class Lab:
    """A running Slurm; `env` is what its clients need."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env

    def ask(self, *words: str) -> str:
        """What a client prints."""
        done = subprocess.run(words, check=False, env=self.env, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise Unusable(f"{' '.join(words[:4])}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(self, count: int) -> None:
        """Submit jobs of one CPU that do nothing, to a partition that is down meanwhile.

        One process submits them all, as an array whose elements are jobs of their own once they start."""
        self.ask("scontrol", "update", "partitionname=main", "state=down")
        words = ["-p", "main", "-n1", "-o", "/dev/null", f"--array=0-{count - 1}", "--wrap=:"]
        self.ask("sbatch", "--export=ALL", *words)

    def run_all(self, seconds: float) -> float:
        """Let the jobs start and wait until none is left; returns the seconds that took."""
        began = time.perf_counter()
        self.ask("scontrol", "update", "partitionname=main", "state=up")
        while self.ask("squeue", "-h", "-p", "main", "-o", "%i").strip():
            if time.perf_counter() - began > seconds:
                raise Unusable(f"jobs are left after {seconds:.0f} s")
            time.sleep(0.2)
        return time.perf_counter() - began


@contextlib.contextmanager
def lab(shared: Path, nodes: int, cpus: int) -> Iterator[Lab]:
    """Bring Slurm up and take it down again; raises `Unusable` where that is not possible."""
    up, down = shared / "slurm" / "slurm_up.sh", shared / "slurm" / "slurm_down.sh"
    if not up.is_file() or os.getuid() != 0:
        raise Unusable(f"it takes root and {up}")
    with folder_of_its_own() as folder:
        settings = {
            "SLURMLAB_NODES": str(nodes), "SLURMLAB_GHOSTS": "0", "SLURMLAB_REST": "0", "SLURMLAB_CPUS": str(cpus),
            "SLURMLAB_PORT": str(free_port()),
        }  # fmt: skip
        place = str(folder / "lab")
        try:
            done = subprocess.run(
                ["bash", str(up), place], env={**os.environ, **settings}, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise Unusable(f"slurm_up.sh: {done.stderr.strip()[-500:]}")
            # `--export=NONE` would have every job start a login shell to learn its environment.
            yield Lab({"PATH": os.environ["PATH"], "SLURM_CONF": f"{place}/etc/slurm.conf", "LC_ALL": "C.UTF-8"})
        finally:
            subprocess.run(["bash", str(down), place, "--wipe"], capture_output=True, check=False, timeout=120)
