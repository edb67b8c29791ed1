"""`GetUsage` over a real socket, of jobs that a node ran."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.controller_rig import Client, FakeAgent, spec, start_inside

from flagplot_wire import replies, requests
from flagplot_wire.job import State
from flagplotd.config import Config
from flagplotd.controller import Controller
from flagplotd.service.handlers import usage

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
async def controller() -> AsyncIterator[Controller]:
    folder = Path(tempfile.mkdtemp(prefix="fp-u-"))
    made = await start_inside(folder / "d", Config())
    yield made
    await made.close()
    shutil.rmtree(folder)


async def test_usage_of_ended_and_running_jobs(
    controller: Controller, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = int(time.time()) - 60
    await client.ask(requests.ChangePolicy("add", "account", ("lab",), {"max-gpus": "8"}))
    await client.ask(requests.ChangePolicy("add", "user", (ME,), {"account": "lab", "default": "yes"}))
    agent = await FakeAgent("n1").connect(controller.server.port, controller.server.folder)
    ended = (await client.submit(spec("ended", 1))).number
    await agent.launched(ended)
    agent.end(ended)
    await client.wait_state(ended, State.COMPLETED)
    running = (await client.submit(spec("running", 1))).number
    await agent.launched(running)
    report = await client.ask(requests.GetUsage(since))
    assert isinstance(report, replies.UsageReport)
    assert [(one.user, one.account, one.jobs) for one in report.used] == [(ME, "lab", 2)]
    assert (report.user, [one.number for one in report.ended]) == (ME, [ended])
    assert [(one.whose, one.limit, one.used, one.most) for one in report.quotas] == [("account lab", "gpus", 1, 8)]
    assert not report.more

    monkeypatch.setattr(usage, "PAGE", 1)
    rest = await client.ask(requests.GetUsage(since, skip=1))
    assert (rest.used, rest.ended, rest.quotas) == ((), (), ())
    refused = await client.ask(requests.GetUsage(int(time.time()) + 900))
    assert isinstance(refused, replies.Failure) and refused.code == "usage"
    await agent.leave()
