"""The keys of the views: each that a view binds reaches the view, whatever in it has the focus."""

from __future__ import annotations

import pytest
from support import sample_cluster as sample
from textual.pilot import Pilot

from flagplot.tui.app import FlagplotApp

WAYS = {
    "queue": (),
    "nodes": ("2",),
    "nodes-table": ("2", "t"),
    "gpus": ("3",),
    "timeline": ("4",),
    "events": ("5",),
    "job-detail": ("enter",),
    "job-why": ("p",),
    "job-output": ("l",),
    "job-script": ("y",),
    "job-usage": ("enter", "i"),
    "node-jobs": ("2", "slash", *"gpu04", "enter", "enter"),
    "node-wiring": ("2", "enter", "w"),
    "node-text": ("2", "enter", "tab"),
}
"""The keys that lead to each view, and to each widget of it that can have the focus."""


async def settle(app: FlagplotApp, pilot: Pilot[int]) -> None:
    for _ in range(100):
        await pilot.pause()
        if not any(worker.is_running for worker in app.workers) and app.active_view is not None:
            return
    raise AssertionError("the view never came")


@pytest.mark.parametrize("name", WAYS)
async def test_no_key_of_a_view_is_shadowed(name: str) -> None:
    mirror = sample.sample_mirror()
    calls, _ = sample.sample_calls(mirror)
    app = FlagplotApp(mirror=mirror, calls=calls, clock=lambda: int(sample.NOW))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        for key in WAYS[name]:
            await pilot.press(key)
            await settle(app, pilot)
        view, focused = app.active_view, app.focused
        assert view is not None and focused is not None and view in focused.ancestors_with_self
        assert name.startswith(view.id.removeprefix("view-").split("-")[0] if view.id else "?")
        acting = app.screen.active_bindings
        wrong = {
            key: f"{acting[key].node}: {acting[key].binding.action}"
            for key in view._bindings.key_to_bindings
            if key in acting and acting[key].node is not view
        }
        twice = [key for key, bound in view._bindings.key_to_bindings.items() if len(bound) > 1]
        assert view._bindings.key_to_bindings and wrong == {} and twice == []
