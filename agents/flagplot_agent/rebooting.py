"""The reboot of a node by its site's program, once the controller says that no job is left."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from flagplot_agent.hooks.programs import run_program
from flagplot_agent.settings import RebootSettings

log = logging.getLogger("flagplot-agent")


class Rebooter:
    """Runs the program of `[reboot]` once at a time; `failed` hears why the machine is still there."""

    def __init__(self, settings: RebootSettings, folder: Path, failed: Callable[[str], Awaitable[None]]) -> None:
        self._settings, self._log, self._failed = settings, folder / "reboot.log", failed
        self._busy = False

    async def reboot(self, reason: str) -> None:
        """Run it and wait for the end of the machine; an order that comes again meanwhile changes nothing."""
        if self._busy:
            return
        self._busy = True
        try:
            await self._failed(await self._run(reason))
        finally:
            self._busy = False

    async def _run(self, reason: str) -> str:
        program = self._settings.program
        if not program:
            return "agent.toml names no program in [reboot]"
        log.warning("rebooting by %s: %s", program, reason)
        environment = {"PATH": os.defpath, "FLAGPLOT_REBOOT_REASON": reason}
        ran = await run_program(Path(program), environment, self._settings.timeout_s, self._log)
        if ran.wrong:
            return f"{program} {ran.wrong}"
        await asyncio.sleep(self._settings.timeout_s)
        return f"the node is still up {self._settings.timeout_s} s after {program} ended"
