"""Accounts, QoS, partitions and reservations over a real controller, before and after a restart."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.controller_rig import Client, FakeAgent, dial, spec, start_inside

from flagplot_wire import events as ev
from flagplot_wire import replies, requests
from flagplot_wire.errors import Refused
from flagplot_wire.policy import Account, Association, Limits, Qos
from flagplotd.config import Config, load_config
from flagplotd.controller import Controller
from flagplotd.core.apply import put_record
from flagplotd.core.invariants import check
from flagplotd.ssh.keys import add_user_key, ensure_keypair, prepare

CONFIG = """
[limits]
enforce = "associations"
[licenses]
matlab = 2
[[qos]]
name = "high"
priority = 5
[[account]]
name = "physics"
max_gpus = 4
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="fp-p-"))
    yield made / "d"
    shutil.rmtree(made)


async def started(folder: Path, text: str = CONFIG) -> tuple[Controller, Client]:
    (folder.parent / "flagplotd.toml").write_text(text)
    controller = await start_inside(folder, load_config(folder.parent / "flagplotd.toml"))
    return controller, await Client.local(folder)


async def stopped(controller: Controller, client: Client) -> None:
    assert check(controller.server.state) == []
    await client.close()
    await controller.close()


async def change(client: Client, verb: str, kind: str, *names: str, **values: str) -> list[str]:
    """Error, or the words of what was done, of each name."""
    settings = {key.replace("_", "-"): value for key, value in values.items()}
    reply = await client.ask(requests.ChangePolicy(verb, kind, names, settings))  # type: ignore[arg-type]
    if isinstance(reply, replies.Failure):
        return [f"{reply.code}: {reply.message}"]
    return [f"{one.error}: {one.message}" if one.error else one.message for one in reply.results]


async def test_policy_is_changed_asked_for_obeyed_and_kept(folder: Path) -> None:
    controller, client = await started(folder)
    agent = await FakeAgent("n1").connect(controller.server.port, folder)
    client.send(requests.Subscribe())
    me = client.welcome.user
    refused = await client.submit()
    assert (refused.code, "in no account" in refused.message) == ("no_account", True)
    assert await change(client, "modify", "account", "physics", shares="7", max_gpus="1") == [
        "changed shares, max-gpus"
    ]
    assert await change(client, "add", "account", "optics", parent="physics") == ["added"]
    assert await change(client, "add", "user", me, account="optics", default_qos="high") == [
        "added to optics, the default account"
    ]
    assert await change(
        client,
        "add",
        "reservation",
        "mine",
        nodes="n1",
        start="now+1hour",
        duration="60",
        users=me,
        flags="ignore-jobs",
    ) == ["added"]
    assert await change(client, "add", "partition", "night", nodes="n1", max_time="8:00:00", allow_qos="high") == [
        "added"
    ]
    assert await change(client, "modify", "partition", "main", max_time="1-0", comment="by hand") == [
        "changed max-time, comment"
    ]
    assert (await change(client, "remove", "qos", "high"))[0].startswith("in_use: QoS high cannot be removed")

    number = (await client.submit(spec(gpus=1, partition="night"))).number
    job = await client.job(number)
    assert (job.spec.account, job.spec.qos) == ("optics", "high")
    over = await client.submit(spec(gpus=2))
    assert (over.code, "account physics may use at most 1" in over.message) == ("over_limit", True)
    assert (await client.ask(requests.Update((str(number),), account="physic"))).results[0].error
    agent.end((await agent.launched(number)).number)
    await client.wait_state(number, "COMPLETED")

    found = await client.ask(requests.GetPolicy())
    assert [record.key for record in found.records] == ["optics", "physics", f"{me}@optics", "high", "mine"]
    users = (await client.ask(requests.GetPolicy("user", (me,)))).records
    assert users == (Association(me, "optics", default=True, default_qos="high"),)
    pushed = [event.body.record for event in client.events() if isinstance(event.body, ev.PolicyChanged)]
    assert users[0] in pushed and Account("physics", shares=7, limits=Limits(gpus=1)) in pushed
    await agent.leave()
    await stopped(controller, client)

    controller, client = await started(folder)
    again = (await client.ask(requests.GetPolicy())).records
    assert [record.key for record in again] == [record.key for record in found.records]
    assert again[1] == Account("physics", limits=Limits(gpus=4)), "what the file names is as the file says"
    assert again[2:] == found.records[2:]
    partitions = {one.name: one for one in (await client.ask(requests.GetPartitions())).partitions}
    assert partitions["night"].up and partitions["night"].added_by == me
    assert partitions["main"].max_time_s == 86_400, "without partitions in the file those that are stay"
    assert await change(client, "remove", "partition", "night") == ["removed"]
    await stopped(controller, client)
    controller, client = await started(folder, CONFIG)
    assert [one.name for one in (await client.ask(requests.GetPartitions())).partitions] == ["main"]
    await stopped(controller, client)


async def test_plain_users_change_nothing_and_wrong_requests_are_told(folder: Path) -> None:
    prepare(folder)
    ensure_keypair(folder.parent / "mallory", "mallory")
    add_user_key(folder, (folder.parent / "mallory.pub").read_text(), "mallory")
    controller, client = await started(folder)
    connection = await dial(controller.server.port, folder.parent / "mallory", folder)
    mallory = await Client.ssh(connection)
    for kind in ("account", "user", "qos", "partition", "reservation"):
        values = {"account": "physics"} if kind == "user" else {}
        assert (await change(mallory, "add", kind, "x", **values))[0].startswith("not_permitted")
    assert (await mallory.ask(requests.GetPolicy("qos"))).records == (Qos("high", 5),)
    await mallory.close()
    connection.close()
    await connection.wait_closed()
    assert "bad_key" in (await change(client, "modify", "qos", "high", pirority="1"))[0]
    many = tuple(f"a{index}" for index in range(1_001))
    assert "at most 1000" in (await change(client, "add", "account", *many))[0]
    assert "65536" in (await change(client, "modify", "qos", "high", description="x" * 70_000))[0]
    await stopped(controller, client)


async def test_records_come_in_pages(folder: Path) -> None:
    controller, client = await started(folder)
    people = [Association(f"u{index:05}", "physics") for index in range(45_000)]
    for one in people:
        put_record(controller.server.state, one)
    found: list[object] = []
    pages = 0
    while True:
        page = await client.ask(requests.GetPolicy("user", skip=len(found)))
        found, pages = [*found, *page.records], pages + 1
        if not page.more:
            break
    assert found == people and pages == 3
    await client.close()
    await controller.close()


async def test_a_file_whose_records_fit_nothing_stops_the_start(folder: Path) -> None:
    text = "[[account]]\nname = 'a'\nparent = 'lost'\n"
    with pytest.raises(Refused) as refused:
        await asyncio.wait_for(started(folder, text), 60)
    assert "account a names account 'lost'" in refused.value.message and refused.value.code == "usage"


def test_the_default_configuration_names_no_partition() -> None:
    assert not Config().names_partitions and msgspec.structs.asdict(Config())["records"] == ()
