"""A cockpit on the sample cluster, driven by keys."""

from __future__ import annotations

from typing import Any

from support import sample_cluster as sample
from textual.pilot import Pilot

from flagplot.tui.app import FlagplotApp


def app_of(**options: Any) -> FlagplotApp:
    mirror = sample.sample_mirror()
    calls, _ = sample.sample_calls(mirror)
    return FlagplotApp(mirror=mirror, calls=calls, clock=lambda: sample.NOW, theme="dark", **options)


async def settle(app: FlagplotApp, pilot: Pilot[int]) -> None:
    for _ in range(400):
        await pilot.pause()
        if not any(worker.is_running for worker in app.workers) and app.active_view is not None:
            return
    raise AssertionError("it never came to rest")


async def press(app: FlagplotApp, pilot: Pilot[int], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(app, pilot)


def toasts(app: FlagplotApp) -> list[str]:
    return [one.message for one in app._notifications]
