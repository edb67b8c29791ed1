"""Work beside other work is heard of when it fails, at once."""

from __future__ import annotations

import asyncio

import pytest

from flagplot_agent.background import Background


async def test_what_fails_is_told_and_what_is_cancelled_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def bad_luck() -> None:
        raise KeyError("missing")

    async def line_lost() -> None:
        raise ConnectionResetError("away")

    ended = asyncio.Event()

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    background = Background()
    background.start(bad_luck(), line_lost(), for_ever())
    async with asyncio.timeout(10):
        while len(caplog.records) < 2:
            await asyncio.sleep(0)
        background.cancel()
        await ended.wait()
    failed, lost = caplog.records
    assert "bad_luck failed" in failed.message and failed.exc_info is not None
    assert "line_lost ended: away" in lost.message and lost.exc_info is None
