"""The cockpit's live connection against a real controller: follows, loses it, comes back and misses nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from support.cluster import Cluster

from flagplot.client.live import Live
from flagplot.client.target import resolve
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.05)


async def test_it_follows_and_comes_back_after_a_restart(cluster: Cluster) -> None:
    live = Live(resolve(data_dir=cluster.data_dir))
    task = asyncio.create_task(live.run())
    mirror = live.mirror
    try:
        await until(lambda: mirror.complete and mirror.connected)
        assert mirror.welcome is not None and mirror.welcome.cluster == "flagplot"
        first = JobNumber(await asyncio.to_thread(cluster.submit, "-o", "/dev/null", "--wrap", "true"))
        await until(lambda: first in mirror.jobs and mirror.jobs[first].status.state == "COMPLETED")
        await until(lambda: len(mirror.samples) == 1)
        await asyncio.to_thread(cluster.cli, "down")
        await until(lambda: not mirror.connected)
        assert mirror.problem and first in mirror.jobs
        with pytest.raises(Refused) as refused:
            await live.calls.status()
        assert refused.value.code == "no_controller"
        await asyncio.to_thread(cluster.cli, "up", "--detach")
        await until(lambda: mirror.connected and mirror.complete)
        second = JobNumber(await asyncio.to_thread(cluster.submit, "-o", "/dev/null", "--wrap", "true"))
        await until(lambda: second in mirror.jobs and mirror.jobs[second].status.state == "COMPLETED")
        assert mirror.jobs[first].status.state == "COMPLETED"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
