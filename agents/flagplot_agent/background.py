"""Work beside other work: kept alive until it is done, and heard of when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import asyncssh

log = logging.getLogger("flagplot-agent")


class Background:
    """Tasks that nobody awaits."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, *works: Coroutine[Any, Any, Any]) -> None:
        """Run these until they end or `cancel`."""
        for work in works:
            task = asyncio.create_task(work, name=getattr(work, "__qualname__", None))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """End what still runs."""
        for task in list(self._tasks):
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        wrong = None if task.cancelled() else task.exception()
        if isinstance(wrong, (OSError, asyncssh.Error)):
            log.warning("%s ended: %s", task.get_name(), wrong)
        elif wrong is not None:
            log.error("%s failed", task.get_name(), exc_info=wrong)
