"""Around a job on this node: prolog and plugins, then the keeper's start; after its end plugins and epilog.

What was done stands in the attempt's folder, so that an agent that comes after this one goes on where it ended: a prolog
that was interrupted runs again, one that was done does not; an epilog is owed until it ran.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from flagplot_agent.background import Background
from flagplot_agent.hooks.plugin import HookEnd, HookJob
from flagplot_agent.hooks.plugins import PluginError, Plugins
from flagplot_agent.hooks.programs import kill_group, run_program
from flagplot_agent.hooks.words import hook_end, last_line, program_environment
from flagplot_agent.launch.journal import Journal
from flagplot_agent.launch.processes import read_process
from flagplot_agent.settings import HookSettings
from flagplot_wire.errors import Refused

log = logging.getLogger("flagplot-agent")
RETRY_S = 1.0


class HookError(Exception):
    """A start that must not be. `drain` (a reason): the node takes no more jobs."""

    def __init__(self, message: str, drain: str = "") -> None:
        super().__init__(message)
        self.drain = drain


class Hooks:
    """All hooks of one agent. `ended` is awaited where an attempt ends before the keeper knew of it."""

    def __init__(
        self,
        settings: HookSettings,
        journal: Journal,
        order: Callable[[str, dict[str, Any]], None],
        stopped: Callable[[str], str | None],
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        self.settings = settings
        self.plugins = Plugins(settings.plugins, settings.plugin_timeout_s)
        self.wanted = bool(settings.prolog or settings.epilog or self.plugins)
        self._journal = journal
        self._order = order
        self._stopped = stopped
        self._ended = ended
        self._busy: set[str] = set()
        self._background = Background()

    def start(self, name: str, start: dict[str, Any]) -> None:
        """Have the keeper start an attempt, after what comes before. Calling it again does no harm."""
        if "hook_job" not in start or self._journal.done(name, "prologued"):
            self._order(name, start["recipe"])
        elif name not in self._busy:
            self._busy.add(name)
            self._background.start(self._start(name, start))

    def task_prolog(self) -> list[Any]:
        """What a recipe carries of the task prolog."""
        own = self.settings
        return [own.task_prolog, own.task_prolog_timeout_s] if own.task_prolog else []

    async def before_step(self, name: str, recipe: dict[str, Any]) -> None:
        """Put into a step's recipe what the tasks of its job have; raises `Refused`."""
        recipe["task_prolog"] = self.task_prolog()
        if not self.plugins:
            return
        start = self._journal.start_of(name)
        if "hook_job" not in start:
            return
        job = msgspec.convert(start["hook_job"], HookJob)
        try:
            for task in recipe["tasks"]:
                task["environment"] = await self.plugins.environment(job, task["environment"])
        except PluginError as failed:
            raise Refused("unavailable", str(failed), "tell it to the cluster's operators") from failed

    def preparing(self, name: str) -> bool:
        """True while an attempt's prolog or plugins are at work."""
        return name in self._busy

    def owed(self, name: str, start: dict[str, Any]) -> bool:
        """True while what comes after an attempt's end has not been done."""
        return "hook_job" in start and not self._journal.done(name, "epilogued")

    async def _start(self, name: str, start: dict[str, Any]) -> None:
        end: dict[str, Any] = {}
        try:
            await self._before(name, start)
            reason = self._stopped(name)
            if reason is None:
                self._order(name, start["recipe"])
                return
            end |= {"cause": "stopped", "message": reason}
        except HookError as failed:
            end |= {"cause": "launch_failed", "message": str(failed), "drain": failed.drain}
        except Exception as wrong:
            # Whatever it is, the controller must hear that nothing started.
            log.exception("the hooks before %s failed", name)
            end |= {"cause": "launch_failed", "message": f"hooks: {type(wrong).__name__}: {wrong}"}
        finally:
            self._busy.discard(name)
        await self.write_end(name, {**end, "time": int(time.time())})
        await self._ended(name)

    async def write_end(self, name: str, end: dict[str, Any]) -> None:
        """Write down the end of an attempt that the keeper never knew of, however long the disk takes."""
        while True:
            try:
                self._journal.end(name, end)
            except OSError as wrong:
                log.error("job %s: cannot write its end down, trying again: %s", name, wrong)
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _before(self, name: str, start: dict[str, Any]) -> None:
        job = msgspec.convert(start["hook_job"], HookJob)
        folder = self._journal.hooks(name)
        for program in self.settings.prolog:
            wrong = await self._run(folder, "prolog", program, program_environment(job, "prolog"))
            if wrong:
                raise HookError(wrong, wrong)
        try:
            await self.plugins.before_launch(job)
            for task in start["recipe"]["tasks"]:
                task["environment"] = await self.plugins.environment(job, task["environment"])
        except PluginError as failed:
            raise HookError(str(failed)) from failed
        if self.plugins:
            # A keeper after this one reads the recipe from here.
            self._journal.change_start(name, start)
        self._journal.note_done(name, "prologued")

    async def after(self, name: str, start: dict[str, Any], found: dict[str, Any]) -> dict[str, Any] | None:
        """Do what comes after an end; returns the end with what went wrong, None where that is being done already."""
        if not self.owed(name, start):
            return found
        if name in self._busy:
            return None
        self._busy.add(name)
        try:
            end = hook_end(found)
            wrong, drain = await self._after(
                self._journal.hooks(name), msgspec.convert(start["hook_job"], HookJob), end
            )
            if wrong:
                message = "; ".join(filter(None, [found.get("message", ""), *wrong]))
                found = {**found, "message": message, "drain": found.get("drain") or drain}
                self._journal.end(name, found)
            self._journal.note_done(name, "epilogued")
        except OSError as failed:
            # The end itself is durable already: it must be told whatever the disk does now.
            log.error("the hooks after %s could not be noted: %s", name, failed)
        finally:
            self._busy.discard(name)
        return found

    async def _after(self, folder: Path, job: HookJob, end: HookEnd) -> tuple[list[str], str]:
        wrong, drain = await self.plugins.after_end(job, end), ""
        for program in self.settings.epilog:
            failed = await self._run(folder, "epilog", program, program_environment(job, "epilog", end))
            if failed:
                wrong.append(failed)
                drain = drain or failed
        return wrong, drain

    async def _run(self, folder: Path, what: str, program: str, environment: dict[str, str]) -> str:
        """Run one program; returns what went wrong in a sentence. One that an earlier agent left is ended first."""
        note = folder / "hook.json"
        _end_left(note)

        def started(pid: int) -> None:
            process = read_process(pid)
            if process is not None:
                note.write_text(json.dumps({"pid": pid, "started": process.started}))

        ran = await run_program(Path(program), environment, self.settings.timeout_s, folder / f"{what}.log", started)
        note.unlink(missing_ok=True)
        said = last_line(ran.output)
        return f"{what} {program} {ran.wrong}{': ' + said if said else ''}" if ran.wrong else ""


def _end_left(note: Path) -> None:
    try:
        left = json.loads(note.read_text())
    except (FileNotFoundError, ValueError):
        return
    process = read_process(left["pid"])
    if process is not None and process.started == left["started"]:
        kill_group(left["pid"])
