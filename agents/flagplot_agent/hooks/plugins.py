"""The installed plugins: found by entry points when the agent starts, called in threads with a time limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

from flagplot_agent.hooks.plugin import GROUP, HookEnd, HookJob, Plugin
from flagplot_agent.hooks.words import changed

log = logging.getLogger("flagplot-agent")
Got = TypeVar("Got")


class PluginError(Exception):
    """A plugin failed; the text names it and says how."""


class Plugins:
    """The plugins in use. One that cannot be loaded is `broken`: no job starts without what the site wants there."""

    def __init__(self, wanted: Iterable[str] | None, limit_s: int) -> None:
        self._limit_s = limit_s
        self.broken = ""
        self._plugins: dict[str, Any] = {}
        found = {point.name: point for point in entry_points(group=GROUP)}
        for name in sorted(found) if wanted is None else wanted:
            try:
                self._plugins[name] = found[name].load()()
                log.info("plugin %s is in use", name)
            except KeyError:
                self.broken = f"plugin {name}: it is not installed for the agent"
            except Exception as wrong:
                log.exception("plugin %s cannot be loaded", name)
                self.broken = f"plugin {name}: cannot be loaded: {type(wrong).__name__}: {wrong}"
        if self.broken:
            log.error("%s; no job starts here until that is mended", self.broken)

    def __bool__(self) -> bool:
        return bool(self._plugins or self.broken)

    async def before_launch(self, job: HookJob) -> None:
        """Every plugin in turn; raises `PluginError` at the first that fails."""
        if self.broken:
            raise PluginError(self.broken)
        for name, plugin in self._plugins.items():
            await self._call(name, "before_launch", getattr(plugin, "before_launch", Plugin().before_launch), job)

    async def environment(self, job: HookJob, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment that the plugins make of this one; raises `PluginError`."""
        found = dict(environment)
        for name, plugin in self._plugins.items():
            method = getattr(plugin, "environment", Plugin().environment)
            found = await self._call(name, "environment", _environment, method, job, found)
        return found

    async def after_end(self, job: HookJob, end: HookEnd) -> list[str]:
        """Every plugin, the last first; returns what went wrong."""
        wrong = []
        for name, plugin in reversed(self._plugins.items()):
            try:
                await self._call(name, "after_end", getattr(plugin, "after_end", Plugin().after_end), job, end)
            except PluginError as failed:
                wrong.append(str(failed))
        return wrong

    async def _call(self, name: str, method: str, work: Callable[..., Got], *args: Any) -> Got:
        try:
            async with asyncio.timeout(self._limit_s):
                return await asyncio.to_thread(work, *args)
        except TimeoutError:
            raise PluginError(f"plugin {name}: {method} did not end within {self._limit_s} s") from None
        except Exception as wrong:
            log.exception("plugin %s failed in %s", name, method)
            raise PluginError(f"plugin {name}: {method}: {type(wrong).__name__}: {wrong}") from wrong


def _environment(method: Any, job: HookJob, environment: dict[str, str]) -> dict[str, str]:
    return changed(environment, method(job, dict(environment)))
