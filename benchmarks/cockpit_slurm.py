"""What a person at a Slurm has instead of the cockpit: `squeue`, and the terminal interface `turm`, over as many jobs."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pty_driver import Program
from real_slurm import Unusable
from slurm_lab import Lab, lab

SHARED = Path(__file__).resolve().parents[2] / "shared"
Row = Callable[[str, str, str], None]
NAME = "train"
MOVES = 10
"""Presses of a key in turm; each may take seconds."""


def fill(slurm: Lab, jobs: int) -> None:
    """Submit jobs that stay pending, each with a record of its own: an array whose elements but one are changed apart."""
    slurm.ask("scontrol", "update", "partitionname=main", "state=down")
    words = ["-p", "main", "-n1", "-J", NAME, "-o", "/dev/null", f"--array=0-{jobs - 1}", "--wrap=:"]
    slurm.ask("sbatch", "--export=ALL", *words)
    number = slurm.ask("squeue", "-h", "-o", "%F").split()[0]
    slurm.ask("scontrol", "update", f"jobid={number}_[0-{jobs - 2}]", "nice=5")
    shown = len(slurm.ask("squeue", "-h").splitlines())
    if shown != jobs:
        raise Unusable(f"squeue lists {shown} jobs instead of {jobs}")


def measure_slurm(jobs: int, row: Row, turm: str) -> None:
    """Both, or why not, as rows of the table."""
    try:
        with lab(SHARED, 4, 16) as slurm:
            fill(slurm, jobs)
            squeue(slurm, jobs, row)
            measure_turm(slurm, row, turm)
    except Unusable as why:
        row("squeue and turm", "", f"not run: {why}")


def squeue(slurm: Lab, jobs: int, row: Row) -> None:
    """Seconds for the whole list, and for a filter that leaves nothing: squeue is run anew for each."""
    for what, words in ((f"all {jobs} jobs", ()), ("a filter without a match", ("-n", "train-7"))):
        taken = []
        for _ in range(3):
            began = time.perf_counter()
            slurm.ask("squeue", *words)
            taken.append(time.perf_counter() - began)
        row(f"squeue: {what} (best of 3)", "", f"{min(taken):.2f} s")


def measure_turm(slurm: Lab, row: Row, turm: str) -> None:
    """First rows, key to paint and memory. A key counts as painted with the first output that draws a job's row."""
    found = shutil.which(turm)
    if found is None:
        row("turm", "", "not run: it is not installed (pip install turm)")
        return
    program = Program([found], {**os.environ, **slurm.env, "TERM": "xterm-256color"})
    try:
        first = program.drawn(NAME.encode(), 120)
        if first is None:
            row("turm: first rows", "", "none within 120 s")
            return
        row("turm: first rows", "", f"{first - program.began:.1f} s")
        taken = []
        for index in range(MOVES):
            program.quiet_for(0.5 + index % 7 * 0.13)
            pressed = program.press(b"j")
            taken.append((program.drawn(NAME.encode(), 20) or pressed + 20) - pressed)
        row(
            f"turm: key to paint, median / slowest of {MOVES}",
            "",
            f"{statistics.median(taken) * 1000:.0f} / {max(taken) * 1000:.0f} ms",
        )
        row("turm: memory", "", f"{program.memory_mib()} MiB")
    finally:
        program.kill()


if __name__ == "__main__":
    measure_slurm(int(sys.argv[1]), lambda *words: print("|", " | ".join(words), "|", flush=True), sys.argv[2])
