"""A controller that falls silent: told within 3 s, the last data kept, nothing sent unseen, and back without loss."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable

import asyncssh
import pytest
from support.cluster import Cluster

from flagplot.client.live import GONE_S, Live
from flagplot.client.local import Processes
from flagplot.client.target import Target, resolve
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


class Middle:
    """A line in between: hands bytes on, until the connections of the moment are cut without a word."""

    def __init__(self, port: int) -> None:
        self._port, self._tasks, self.port, self.taken = port, set[asyncio.Task[None]](), 0, 0
        self._server: asyncio.Server | None = None

    async def open(self) -> Middle:
        self._server = await asyncio.start_server(self._taken, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        there, away = await asyncio.open_connection("127.0.0.1", self._port)
        self._tasks |= {asyncio.create_task(self._carry(reader, away)), asyncio.create_task(self._carry(there, writer))}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

    def cut(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self.cut()
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_a_cut_line_is_left_for_a_new_one(cluster: Cluster) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    key_file = cluster.data_dir / "test_key"
    key.write_private_key(key_file)
    with (cluster.data_dir / "keys" / "users").open("a") as granted:
        granted.write(f'flagplot-user="root" {key.export_public_key().decode()}')
    ready = json.loads((cluster.data_dir / "controller.json").read_text())
    middle = await Middle(ready["port"]).open()
    host_key = (cluster.data_dir / "keys" / "host_ed25519.pub").read_text()
    target = Target(
        "ssh", "far", host="127.0.0.1", port=middle.port, user="root", host_key=host_key, key_file=str(key_file)
    )
    live = Live(target)
    task = asyncio.create_task(live.run())
    try:
        await until(lambda: live.mirror.connected and live.mirror.complete)
        before, seq = live.connection, live.mirror.seq
        middle.cut()
        lost = time.monotonic()
        first = JobNumber(await asyncio.to_thread(cluster.submit, "-o", "/dev/null", "--hold", "--wrap", "true"))
        asked = asyncio.ensure_future(live.calls.status())
        await until(lambda: not live.mirror.connected)
        await until(lambda: live.connection is not before and first in live.mirror.jobs)
        assert time.monotonic() - lost < GONE_S, "a new connection takes over before the old one is given up"
        assert live.mirror.connected and live.mirror.seq > seq and middle.taken == 2
        with pytest.raises(Refused, match=r"closed|lost"):
            await asked
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await middle.close()


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
