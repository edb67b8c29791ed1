"""A controller that falls silent: told within 3 s, the last data kept, nothing sent unseen, and back without loss."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

import pytest
from support.cluster import Cluster

from flagplot.client.live import Live
from flagplot.client.local import Processes
from flagplot.client.target import resolve
from flagplot.tui import commands
from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.confirm import Popup
from flagplot.tui.widgets.topline import TopLine
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)


async def test_silence_is_told_and_survived(cluster: Cluster) -> None:
    live = Live(resolve(data_dir=cluster.data_dir))
    mirror = live.mirror
    controller = Processes(cluster.data_dir).pid("controller")
    assert controller is not None
    app = FlagplotApp(mirror=mirror, calls=live.calls, live=live)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(lambda: mirror.connected and mirror.complete)
        first = JobNumber(await asyncio.to_thread(cluster.submit, "-o", "/dev/null", "--wrap", "true"))
        await until(lambda: first in mirror.jobs)
        before = live.connection
        os.kill(controller, signal.SIGSTOP)
        try:
            stopped = time.monotonic()
            await until(lambda: "reconnecting" in app.screen_stack[0].query_one(TopLine).first().plain)
            assert time.monotonic() - stopped < 3.0
            assert first in mirror.jobs and not mirror.connected
            assert " s old" in app.screen_stack[0].query_one(TopLine).first().plain
            commands.resume_nodes(app, ["n1"])
            await pilot.pause()
            assert isinstance(app.screen, Popup)
            assert app.command_log[-1][1:] == ("flagplot resume n1", "not sent: no connection")
            with pytest.raises(Refused, match="does not answer"):
                await live.calls.status()
        finally:
            os.kill(controller, signal.SIGCONT)
        await until(lambda: mirror.connected)
        assert live.connection is before, "a pause is no reason to connect anew"
        second = JobNumber(await asyncio.to_thread(cluster.submit, "-o", "/dev/null", "--wrap", "true"))
        await until(lambda: second in mirror.jobs)


async def test_a_long_silence_connects_anew(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flagplot.client.live.GONE_S", 2.0)
    live = Live(resolve(data_dir=cluster.data_dir))
    task = asyncio.create_task(live.run())
    controller = Processes(cluster.data_dir).pid("controller")
    assert controller is not None
    try:
        await until(lambda: live.mirror.connected and live.mirror.complete)
        before = live.connection
        os.kill(controller, signal.SIGSTOP)
        try:
            await until(lambda: live.connection is None)
            assert not task.done() and not live.mirror.connected
        finally:
            os.kill(controller, signal.SIGCONT)
        await until(lambda: live.mirror.connected)
        assert live.connection is not before
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
