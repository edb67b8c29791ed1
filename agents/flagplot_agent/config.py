"""What an agent is told at its start."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from flagplot_agent.settings import Settings


class Config(Struct, frozen=True):
    """Where the agent keeps its things and how it reaches the controller.

    `controller_file` is a controller.json that is read again on each dial; it wins over `host` and `port`.
    `lease_s`: after so long without the controller the agent ends its jobs (0: never). Policies that are empty were
    not given as options (see `Policies`).
    """

    folder: Path
    node: str
    host: str
    port: int
    key: Path
    host_key: Path
    controller_file: Path | None = None
    simulate: Path | None = None
    lease_s: int = 0
    keep_attempts: int = 200
    settings: Settings = Settings()
    vram_guard: str = ""
    idle_gpus: str = ""
