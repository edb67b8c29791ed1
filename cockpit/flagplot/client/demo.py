"""The demo fleet: what its nodes, partitions and sample jobs are."""

from __future__ import annotations

from pathlib import Path

CONFIG = """[cluster]
name = "demo"

[[partition]]
name = "main"
nodes = "ALL"
default = true
default_time = "1:00:00"

[[partition]]
name = "h100"
nodes = "{h100}"
max_time = "1-0"

[[partition]]
name = "l40s"
nodes = "{l40s}"
max_time = "2-0"

[[partition]]
name = "debug"
nodes = "ALL"
max_time = "30"
priority_tier = 2
"""

_NODE = """sockets = 2
cores = {cores}
memory_mib = {memory}
switch = "{switch}"
features = ["{feature}", "simulated"]
gpus = [{{type = "{kind}", count = 8, vram_mib = {vram}, name = "{name}"}}]
"""


def node_names(count: int) -> list[str]:
    """`gpu01`, `gpu02`, …"""
    return [f"gpu{index + 1:02}" for index in range(count)]


def write_fleet(data_dir: Path, count: int) -> list[tuple[str, Path]]:
    """Write the configuration and the simulated nodes' files; returns (node, file)."""
    names = node_names(count)
    half = (count + 1) // 2
    config = data_dir / "flagplotd.toml"
    if not config.exists():
        second = names[half:] or names
        config.write_text(CONFIG.format(h100=",".join(names[:half]), l40s=",".join(second)))
    found = []
    for index, name in enumerate(names):
        folder = data_dir / "agents" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        first = index < half
        spec = folder / "simulate.toml"
        spec.write_text(
            _NODE.format(
                cores=96 if first else 64,
                memory=1_031_000 if first else 515_000,
                switch="s1" if first else "s2",
                feature="nvlink" if first else "pcie",
                kind="h100" if first else "l40s",
                vram=81_559 if first else 46_068,
                name="NVIDIA H100 80GB HBM3" if first else "NVIDIA L40S",
            )
        )
        found.append((name, spec))
    return found
