"""The sample jobs of the demo."""

from __future__ import annotations

import re
import subprocess

from flagplot.cli.demo_jobs import SCRIPT


def test_the_loss_falls_with_every_step() -> None:
    script = SCRIPT.format(steps=200, end="").replace("sleep 1", ":")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=20)
    losses = [float(found) for found in re.findall(r"loss (0\.\d+)", done.stdout)]
    assert len(losses) == 200 and losses == sorted(losses, reverse=True)
