"""`GetPriority` and `GetFairshare` over a real socket."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.controller_rig import Client, spec, start_inside

from flagplot_wire import events as ev
from flagplot_wire import replies, requests
from flagplot_wire.job import ArraySpec
from flagplot_wire.policy import ROOT, Account, Association, Usage
from flagplotd.config import Config
from flagplotd.controller import Controller
from flagplotd.core.apply import apply
from flagplotd.sched.plan import Policy
from flagplotd.service.handlers import fairshare, priority


@pytest.fixture
async def controller() -> AsyncIterator[Controller]:
    folder = Path(tempfile.mkdtemp(prefix="fp-p-"))
    made = await start_inside(folder / "d", Config())
    for record in (Account("lab"), Account("sub", "lab"), Association("ada", "lab"), Association("bob", "sub")):
        apply(made.server.state, ev.PolicyChanged(record))
    apply(made.server.state, ev.UsageUpdated(1, (Usage("ada@lab", 5_000, 0),)))
    yield made
    await made.close()
    shutil.rmtree(folder)


async def test_priorities_highest_first(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = (await client.submit(spec("plain"))).number
    nice = (await client.submit(spec("nice", nice=300))).number
    array = (await client.submit(spec("many", nice=100, array=ArraySpec("0-2")))).number
    found = await client.ask(requests.GetPriority())
    assert isinstance(found, replies.Priorities) and not found.more
    assert [(one.number, one.total) for one in found.rows] == [(plain, 1_000), (array, 900), (nice, 700)]
    assert (found.rows[0].partition_part, found.rows[1].job, found.rows[2].nice) == (1_000, f"{array}_[0-2]", 300)
    some = await client.ask(requests.GetPriority((str(nice), f"{array}_1")))
    assert [one.number for one in some.rows] == [array, nice]
    monkeypatch.setattr(priority, "PAGE", 2)
    first = await client.ask(requests.GetPriority())
    rest = await client.ask(requests.GetPriority(skip=2))
    assert (first.more, rest.more, first.rows + rest.rows) == (True, False, found.rows)


async def test_only_pending_jobs_have_a_priority(client: Client) -> None:
    number = (await client.submit()).number
    await client.ask(requests.Act("cancel", (str(number),)))
    refused = await client.ask(requests.GetPriority((str(number),)))
    assert (refused.code, refused.message) == (
        "not_pending", f"job {number} is CANCELLED: only pending jobs have a priority",
    )  # fmt: skip
    assert (await client.ask(requests.GetPriority(("999",)))).code == "not_found"
    assert (await client.ask(requests.GetPriority())).rows == ()


async def test_new_weights_count_at_once(controller: Controller, client: Client) -> None:
    first = (await client.submit(spec("wide", ask={"nodes_min": 2, "nodes_max": 2}))).number
    controller.server.cycle.policy = Policy(weight_partition=5, weight_age=0)
    found = await client.ask(requests.GetPriority())
    assert [(one.number, one.total) for one in found.rows] == [(first, 5)]


async def test_the_fair_tree(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await client.ask(requests.GetFairshare())
    assert isinstance(found, replies.Fairshares)
    assert [(one.account, one.user, one.depth, one.usage, one.factor) for one in found.rows] == [
        (ROOT, "", 0, 5, None), ("lab", "", 1, 5, None), ("lab", "ada", 2, 5, 500_000), ("sub", "", 2, 0, None),
        ("sub", "bob", 3, 0, 1_000_000),
    ]  # fmt: skip
    of_sub = await client.ask(requests.GetFairshare(accounts=("sub",)))
    assert [(one.account, one.user) for one in of_sub.rows] == [("sub", ""), ("sub", "bob")]
    of_ada = await client.ask(requests.GetFairshare(users=("ada",)))
    assert [(one.account, one.user) for one in of_ada.rows] == [("lab", ""), ("lab", "ada")]
    monkeypatch.setattr(fairshare, "PAGE", 3)
    first, rest = await client.ask(requests.GetFairshare()), await client.ask(requests.GetFairshare(skip=3))
    assert (first.more, rest.more, first.rows + rest.rows) == (True, False, found.rows)
    assert (await client.ask(requests.GetFairshare(accounts=("nope",)))).message == "there is no account 'nope'"
    assert "'eve' is in none" in (await client.ask(requests.GetFairshare(users=("eve",)))).message
