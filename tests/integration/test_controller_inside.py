"""The controller over real sockets and real SSH, with an agent that runs nothing."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import msgspec
import pytest
from support.controller_rig import Client, FakeAgent, dial, spec, start_inside, until, until_async

from flagplot.client.calls import Calls
from flagplot.client.mirror import Mirror
from flagplot_wire import replies, requests
from flagplot_wire.events import JobChanged
from flagplot_wire.job import ArraySpec, State
from flagplotd.config import Config
from flagplotd.controller import Controller
from flagplotd.core.invariants import check
from flagplotd.core.state import Settings
from flagplotd.service import loop as loop_module
from flagplotd.service import subscribers
from flagplotd.service.handlers import finding
from flagplotd.ssh.keys import add_agent_key, add_user_key, ensure_keypair
from flagplotd.ssh.server import MAX_FAILURES, MAX_STRANGERS_EACH, Guard


@pytest.fixture
async def controller() -> AsyncIterator[Controller]:
    folder = Path(tempfile.mkdtemp(prefix="fp-i-"))
    made = await start_inside(
        folder / "d", Config(settings=Settings(kill_wait_s=2), heartbeat_s=2, agents={"idle_gpus": "end-after=60"})
    )
    yield made
    assert check(made.server.state) == []
    await made.close()
    shutil.rmtree(folder)


@pytest.fixture
async def agent(controller: Controller) -> AsyncIterator[FakeAgent]:
    made = await FakeAgent("n1").connect(controller.server.port, controller.server.folder)
    yield made
    await made.leave()


async def test_agents_are_told_the_policies_of_all_nodes(agent: FakeAgent) -> None:
    assert agent.welcome is not None
    assert (agent.welcome.idle_gpus, agent.welcome.vram_guard) == ("end-after=60", "")


async def test_a_job_from_submission_to_its_end(controller: Controller, client: Client, agent: FakeAgent) -> None:
    assert client.welcome.roles == ("user", "admin")
    number = (await client.submit(spec("train", gpus=1), script="#!/bin/sh\necho hi\n")).number
    launch = await agent.launched(number)
    assert launch.payload.script == "#!/bin/sh\necho hi\n"
    assert (launch.attempt, launch.deadline_s, launch.epoch) == (1, 60, controller.server.state.epoch)
    assert launch.allocation.nodes[0].gpus[0].whole
    assert (await client.job(number)).status.state == State.RUNNING
    view = (await client.ask(requests.GetNodes())).nodes[0]
    assert (view.state, view.held[0].number, view.held[0].gpus) == ("MIXED", number, ((0, 8),))
    agent.end(number, exit_code=3)
    job = await client.wait_state(number, "FAILED")
    assert job.status.exit_code == 3
    await until(lambda: agent.acknowledged, what="the acknowledgement")
    stored = controller.store.load(Settings())
    assert stored.jobs[number] == job
    assert (await client.ask(requests.GetScript(str(number)))).script == "#!/bin/sh\necho hi\n"
    events = (await client.ask(requests.GetEvents(job=str(number)))).events[1:]
    causes = [event.body.cause for event in events if isinstance(event.body, JobChanged)]
    assert causes[0] == "started" and causes[-1] == "ended"


async def test_the_same_key_makes_one_job(client: Client) -> None:
    first, second = await client.submit(key="k"), await client.submit(key="k")
    assert first.number == second.number and second.again and not first.again
    assert (await client.submit(key="other")).number != first.number


async def test_many_requests_share_a_commit(controller: Controller, client: Client) -> None:
    commits = []
    commit = controller.store.commit

    async def counted(batch: object) -> None:
        commits.append(batch)
        await commit(batch)  # type: ignore[arg-type]

    controller.store.commit = counted  # type: ignore[method-assign,assignment]
    answers = await asyncio.gather(*(client.submit(spec(f"j{index}")) for index in range(300)))
    assert sorted(answer.number for answer in answers) == list(range(1, 301))
    assert len(commits) < 100


async def test_arrays_carry_their_script_and_bounds(client: Client, agent: FakeAgent) -> None:
    number = (await client.submit(spec("sweep", array=ArraySpec("2,4,6", 1)), script="#!/bin/sh\nx\n")).number
    first = (await until(lambda: agent.launches, what="the first element"))[0]
    assert (first.array_number, first.array_index) == (number, 2)
    assert (first.array_min, first.array_max, first.array_count) == (2, 6, 3)
    assert first.payload.script == "#!/bin/sh\nx\n"
    jobs = (await client.ask(requests.GetJob(str(number)))).jobs
    assert [job.display_id for job in jobs] == [f"{number}_[4,6%1]", f"{number}_2"]
    assert (await client.ask(requests.GetJob(f"{number}_2"))).jobs[0].number == first.number
    waiting = await client.ask(requests.ReadOutput(f"{number}_4"))
    assert (waiting.code, "has not started" in waiting.message) == ("no_output", True)


async def test_templates_of_the_site(controller: Controller, client: Client, tmp_path: Path) -> None:
    assert (await client.ask(requests.GetTemplates())).templates == ()
    controller.server.config = msgspec.structs.replace(controller.server.config, templates=tmp_path / "jobs")
    absent = await client.ask(requests.GetTemplates())
    assert absent.code == "unavailable" and "jobs" in absent.message
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "train.sh").write_text("#!/bin/sh\n# Train\ntrue\n")
    (tmp_path / "jobs" / "notes.txt").write_text("not a script")
    (tmp_path / "jobs" / ".hidden").write_text("#!/bin/sh")
    found = await client.ask(requests.GetTemplates())
    assert found.templates == (replies.Template("train.sh", "#!/bin/sh\n# Train\ntrue\n"),)
    assert found.problems == ("notes.txt: does not start with #!",)


async def test_a_follower_sees_reservations_and_where_nodes_stand(
    controller: Controller, client: Client, agent: FakeAgent
) -> None:
    settings = controller.server.state.settings
    controller.server.state.settings = msgspec.structs.replace(settings, racks=(("r1", ("n1", "n2")),))
    mirror, taken = Mirror(), 0

    async def caught_up(wanted: set[str]) -> bool:
        nonlocal taken
        for push in client.pushes[taken:]:
            mirror.take(push)
        taken = len(client.pushes)
        return mirror.complete and set(mirror.reservations) == wanted

    def change(verb: str, name: str, **values: str) -> requests.ChangePolicy:
        return requests.ChangePolicy(verb, "reservation", (name,), values)  # type: ignore[arg-type]

    acted = await client.ask(change("add", "early", duration="60", nodes="n1", users="ada"))
    assert [one.error for one in acted.results] == [""]
    client.send(requests.Subscribe())
    await until_async(lambda: caught_up({"early"}), what="the reservation in the snapshot")
    assert mirror.places == {"rack": {"n1": "r1", "n2": "r1"}} and mirror.reservations["early"].nodes == ("n1",)
    await client.ask(change("add", "late", start="now+2hours", duration="60", nodes="n1", flags="maint"))
    await until_async(lambda: caught_up({"early", "late"}), what="the new reservation")
    await client.ask(change("remove", "early"))
    await until_async(lambda: caught_up({"late"}), what="the end of a reservation")


async def test_output_in_pieces(client: Client, agent: FakeAgent, controller: Controller) -> None:
    number = (await client.submit()).number
    await agent.launched(number)
    piece = await client.ask(requests.ReadOutput(str(number), offset=10, limit=5))
    assert (piece.data, piece.size, piece.offset, piece.node) == (agent.output[10:15], 1024, 10, "n1")
    piece = await client.ask(requests.ReadOutput(str(number), offset=-1, limit=3, search="ABC"))
    assert (piece.found, piece.offset, piece.data) == (833, 833, b"ABC"), "the last of four"
    piece = await client.ask(requests.ReadOutput(str(number), offset=-1, search="nowhere"))
    assert (piece.found, piece.searched, piece.data) == (-1, 0, b"")
    assert (await client.ask(requests.ReadOutput(str(number), search="x" * 1_001))).code == "usage"
    piece = await client.ask(requests.ReadOutput(str(number), offset=-7))
    assert (piece.data, piece.offset) == (agent.output[-7:], 1017)
    await agent.leave()
    await until(lambda: "n1" not in controller.server.agents.links, what="the agent's leaving")
    assert (await client.ask(requests.ReadOutput(str(number)))).code == "unavailable"


async def test_others_see_jobs_but_not_inside(controller: Controller, client: Client, agent: FakeAgent) -> None:
    folder = controller.server.folder
    ensure_keypair(folder / "mary", "mary")
    add_user_key(folder, (folder / "mary.pub").read_text(), "mary")
    number = (await client.submit()).number
    await agent.launched(number)
    connection = await dial(controller.server.port, folder / "mary", folder)
    mary = await Client.ssh(connection)
    assert (mary.welcome.user, mary.welcome.roles) == ("mary", ("user",))
    assert (await mary.job(number)).number == number
    for request in (requests.GetScript(str(number)), requests.ReadOutput(str(number)), requests.Shutdown()):
        assert (await mary.ask(request)).code == "not_permitted"
    acted = await mary.ask(requests.Act("cancel", (str(number),)))
    assert acted.results[0].error == "not_permitted"
    assert (await mary.ask(requests.DrainNodes(("n1",), "mine"))).code == "not_permitted"
    await mary.close()
    connection.close()


async def test_keys_open_only_what_they_are_for(controller: Controller) -> None:
    folder, port = controller.server.folder, controller.server.port
    ensure_keypair(folder / "stranger", "")
    for login in ("agent", "root"):
        with pytest.raises(asyncssh.PermissionDenied):
            await dial(port, folder / "stranger", folder, login)
    with pytest.raises(asyncssh.PermissionDenied):
        await dial(port, folder / "keys" / "agent_ed25519", folder, "root")
    connection = await dial(port, folder / "keys" / "agent_ed25519", folder, "agent")
    done = await connection.run("flagplot queue", check=False)
    assert done.exit_status == 2 and "an agent's" in str(done.stderr)
    connection.close()
    add_agent_key(folder, (folder / "stranger.pub").read_text(), "n7")
    agent = await FakeAgent("n1").connect(port, folder, folder / "stranger")
    assert agent.welcome is not None and "may not speak for node n1" in agent.welcome.refused
    await agent.leave()
    agent = await FakeAgent("n7").connect(port, folder, folder / "stranger")
    assert agent.welcome is not None and agent.welcome.refused == ""
    await agent.leave()


async def test_one_agent_for_each_node(controller: Controller, agent: FakeAgent) -> None:
    twin = await FakeAgent("n1").connect(controller.server.port, controller.server.folder)
    assert twin.welcome is not None and "already" in twin.welcome.refused
    await twin.leave()
    later = FakeAgent("n2")
    later.epoch = 99
    await later.connect(controller.server.port, controller.server.folder)
    assert later.welcome is not None and "old copy" in later.welcome.refused
    await later.leave()


async def test_a_silent_agent_is_lost(controller: Controller, client: Client) -> None:
    agent = await FakeAgent("n3").connect(controller.server.port, controller.server.folder, beat=1_000)
    await until(lambda: "n3" in controller.server.state.nodes, what="n3")
    await asyncio.wait_for(agent.closed.wait(), 15)
    await until(lambda: not controller.server.state.nodes["n3"].responding, what="the loss")
    assert (await client.ask(requests.GetNodes(("n3",)))).nodes[0].state == "DOWN"
    await agent.leave()


async def test_other_commands_are_refused(controller: Controller) -> None:
    folder = controller.server.folder
    connection = await dial(controller.server.port, folder / "keys" / "user_ed25519", folder)
    for command in ("rm -rf /", "flagplotx", "sh -c 'flagplot'"):
        done = await connection.run(command, check=False)
        assert done.exit_status == 2 and "only flagplot's own" in str(done.stderr)
    connection.close()


async def test_subscription_gap_and_resume(controller: Controller, client: Client, agent: FakeAgent) -> None:
    await client.submit(spec("before"))
    watcher = await Client.local(controller.server.folder)
    watcher.writer.write(b"")
    watcher.send(requests.Subscribe())
    await until(lambda: any(getattr(push, "last", False) for push in watcher.pushes), what="a snapshot")
    parts = [push for push in watcher.pushes if isinstance(push, replies.SnapshotPart)]
    assert parts[0].first and [node.name for part in parts for node in part.nodes] == ["n1"]
    assert [job.spec.name for part in parts for job in part.jobs] == ["before"]
    start = parts[0].seq
    number = (await client.submit(spec("after"))).number
    await agent.launched(number)
    await until(lambda: len(watcher.events()) >= 2, what="events")
    assert [event.seq for event in watcher.events()] == list(range(start + 1, start + 1 + len(watcher.events())))
    seen = watcher.events()[0].seq
    await watcher.close()
    again = await Client.local(controller.server.folder)
    again.send(requests.Subscribe(after=seen, epoch=parts[0].epoch))
    await until(again.events, what="the missed events")
    assert isinstance(again.pushes[0], replies.SnapshotPart)
    assert not again.pushes[0].first and again.pushes[0].last and again.events()[0].seq == seen + 1
    await again.close()
    old = await Client.local(controller.server.folder)
    old.send(requests.Subscribe(after=seen, epoch=parts[0].epoch - 1))
    await until(lambda: old.pushes, what="a snapshot")
    assert old.pushes[0].first
    await old.close()


async def test_samples_reach_subscribers(controller: Controller, client: Client, agent: FakeAgent) -> None:
    from flagplot_wire import agentlink
    from flagplot_wire.telemetry import NodeSample

    client.send(requests.Subscribe())
    agent.send(agentlink.SampleReport(NodeSample("n1", 5, cpu_percent=40)))
    await until(lambda: [p for p in client.pushes if isinstance(p, replies.SamplesPushed)], what="samples")
    assert (await client.ask(requests.GetNodes())).nodes[0].sample.cpu_percent == 40


async def test_a_slow_subscriber_gets_a_fresh_snapshot(
    controller: Controller, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribers, "QUEUE_BYTES", 200_000)
    reader, writer = await asyncio.open_unix_connection(str(controller.server.folder / "controller.sock"), limit=1_024)
    slow = Client(reader, writer)
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    slow.send(requests.Hello(1, "0"))
    slow.send(requests.Subscribe())
    await until(lambda: controller.server.loop.hub.subscriptions, what="a subscription")
    (subscription,) = controller.server.loop.hub.subscriptions
    for _ in range(40):
        await asyncio.gather(*(client.submit(spec("x" * 200, comment="y" * 1_000)) for _ in range(50)))
        if subscription.stale:
            break
    assert subscription.stale
    last = (await client.submit(spec("last"))).number
    reader._transport.resume_reading()  # type: ignore[attr-defined]
    await slow._begin(False)

    def rebuilt() -> bool:
        firsts = [i for i, push in enumerate(slow.pushes) if getattr(push, "first", False)]
        tail = slow.pushes[firsts[-1] :] if len(firsts) > 1 else []
        return any(job.number == last for push in tail for job in getattr(push, "jobs", ()))

    await until(rebuilt, what="a fresh snapshot")
    await slow.close()


async def test_full_disk(
    controller: Controller, client: Client, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "RETRY_S", 0.1)
    running = (await client.submit(spec("running"))).number
    await agent.launched(running)
    connection = controller.store.writer.connection
    pages = await controller.store.write(lambda: connection.execute("PRAGMA page_count").fetchone()[0])
    await controller.store.write(lambda: connection.execute(f"PRAGMA max_page_count={pages + 40}").fetchall())
    accepted, refused = [running], None
    for index in range(100):
        reply = await client.submit(spec(f"fill{index}"), script="#" * 20_000)
        if isinstance(reply, replies.Failure):
            refused = reply
            break
        accepted.append(reply.number)
    assert refused is not None and refused.code == "disk_full"
    status = await client.ask(requests.GetStatus())
    assert not status.accepting and "full" in status.problem
    assert {job.number for job in (await client.ask(requests.GetQueue(ended=True))).jobs} == set(accepted)
    await controller.store.write(lambda: connection.execute("PRAGMA max_page_count=1000000").fetchall())
    await until(lambda: not controller.server.loop.problem, what="the repair")
    assert (await client.submit(spec("room again"))).number == max(accepted) + 1
    agent.end(running)
    await client.wait_state(running, "COMPLETED")
    for number in accepted:
        assert (await client.ask(requests.GetScript(str(number)))).script


async def test_a_defect_of_one_stimulus_harms_no_other(
    controller: Controller, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loop_module.step

    def broken(state: object, stimulus: object, now: int) -> object:
        outcome = real(state, stimulus, now)  # type: ignore[arg-type]
        if getattr(getattr(stimulus, "spec", None), "name", "") == "bad":
            raise RuntimeError("on purpose")
        return outcome

    monkeypatch.setattr(loop_module, "step", broken)
    answers = await asyncio.gather(client.submit(spec("a")), client.submit(spec("bad")), client.submit(spec("b")))
    assert [type(answer).__name__ for answer in answers] == ["Submitted", "Failure", "Submitted"]
    assert answers[1].code == "internal"
    jobs = (await client.ask(requests.GetQueue())).jobs
    assert sorted(job.spec.name for job in jobs) == ["a", "b"]
    assert controller.store.load(Settings()).jobs.keys() == controller.server.state.jobs.keys()


async def test_refusals_and_bad_frames(client: Client, controller: Controller, agent: FakeAgent) -> None:
    never = await client.submit(spec(gpus=64))
    assert never.code == "never_fits" and "n1" in never.message
    assert (await client.ask(requests.Estimate(spec(gpus=64)))).code == "never_fits"
    assert (await client.submit(spec(partition="nope"))).code == "no_partition"
    assert (await client.ask(requests.GetJob("999"))).code == "not_found"
    assert (await client.ask(requests.GetJob("x"))).code == "bad_job_id"
    assert (await client.ask(requests.GetQueue(states=("SLEEPING",)))).code == "usage"

    class Strange(msgspec.Struct, tag="strange"):
        pass

    unknown = await client.ask(Strange())
    assert unknown.code == "protocol" and "strange" in unknown.message
    early = await Client.local(controller.server.folder, hello=False)
    early.send(requests.GetStatus())
    await asyncio.wait_for(early.closed.wait(), 10)
    wrong = await Client.local(controller.server.folder, hello=False)
    assert (await wrong.ask(requests.Hello(99, "9"))).code == "wrong_version"
    await wrong.close()
    garbage = await Client.local(controller.server.folder, hello=False)
    garbage.writer.write(b"\xff" * 64)
    await asyncio.wait_for(garbage.closed.wait(), 10)
    assert (await client.ask(requests.GetStatus())).accepting


async def test_estimate_and_explain(client: Client, agent: FakeAgent) -> None:
    estimated = await client.ask(requests.Estimate(spec(gpus=1)))
    assert estimated.forecast.nodes == ("n1",) and estimated.forecast.start is not None
    first = (await client.submit(spec("first", gpus=2, limit=600))).number
    await agent.launched(first)
    second = (await client.submit(spec("second", gpus=2))).number
    explained = await client.ask(requests.Explain(str(second)))
    assert explained.forecast is not None and explained.forecast.reasons and "Waiting" in explained.text
    assert (await client.ask(requests.Explain(str(first)))).text.startswith(f"Job {first} is RUNNING on n1")
    dry = await client.ask(requests.Submit(spec("dry", gpus=2), msgspec.structs.replace(_payload()), "k", dry_run=True))
    assert dry.number == 0 and dry.forecast.start is not None


def _payload() -> object:
    from flagplot_wire.job import Payload

    return Payload("#!/bin/sh\n")


async def test_queue_filters(client: Client, agent: FakeAgent) -> None:
    running = (await client.submit(spec("r"))).number
    await agent.launched(running)
    held = (await client.submit(spec("h", hold="user"))).number

    async def numbers(**filters: object) -> list[int]:
        return [job.number for job in (await client.ask(requests.GetQueue(**filters))).jobs]  # type: ignore[arg-type]

    assert await numbers() == [running, held]
    assert await numbers(states=("PD",)) == [held]
    assert await numbers(nodes=("n[1-2]",)) == [running]
    assert await numbers(users=("nobody-here",)) == []
    assert await numbers(jobs=(str(held),)) == [held]
    agent.end(running)
    await client.wait_state(running, "COMPLETED")
    assert await numbers() == [held]
    assert await numbers(ended=True) == [running, held]
    assert await numbers(states=("completed",)) == [running]


async def test_drain_keeps_jobs_away(client: Client, agent: FakeAgent) -> None:
    acted = await client.ask(requests.DrainNodes(("n1",), "bad \x1b[31mfan"))
    assert acted.results[0].error == ""
    node = (await client.ask(requests.GetNodes())).nodes[0]
    assert node.state == "DRAINED" and "\x1b" not in node.node.drain.reason
    number = (await client.submit()).number
    assert (await client.job(number)).status.state == State.PENDING
    await client.ask(requests.ResumeNodes(("n1",)))
    await agent.launched(number)


async def test_shutdown_cancels_and_stops(controller: Controller, client: Client, agent: FakeAgent) -> None:
    number = (await client.submit()).number
    await agent.launched(number)
    acted = await client.ask(requests.Shutdown("cancel"))
    assert "1 job cancelled" in acted.results[0].message
    assert agent.stops[0].number == number
    assert (await client.job(number)).status.state == State.CANCELLED
    await asyncio.wait_for(controller.server.stopping.wait(), 5)


async def test_long_answers_come_in_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "PAGE", 7)
    await asyncio.gather(*(client.submit(spec(f"p{index}")) for index in range(20)))
    calls = Calls(_Channel(client))
    found = await calls.queue(requests.GetQueue())
    assert [job.number for job in found.jobs] == list(range(1, 21))
    first = await client.ask(requests.GetQueue())
    assert len(first.jobs) == 7 and first.more
    assert [job.number for job in (await calls.job("5")).jobs] == [5]


async def test_what_is_too_large_is_refused(client: Client) -> None:
    large = await client.submit(spec(command="x" * 100_000))
    assert (large.code, "64 KiB" in large.message) == ("bad_request", True)
    assert (await client.submit(script="#" * (4 * 1024 * 1024 + 1))).code == "bad_script"
    number = (await client.submit(script="#" * (4 * 1024 * 1024))).number
    assert len((await client.ask(requests.GetScript(str(number)))).script) == 4 * 1024 * 1024


async def test_strangers_are_held_off() -> None:
    guard = Guard()
    assert all(guard.admit("10.0.0.1") for _ in range(MAX_STRANGERS_EACH))
    assert not guard.admit("10.0.0.1") and guard.admit("10.0.0.2")
    guard.known("10.0.0.1")
    assert guard.admit("10.0.0.1")
    for _ in range(MAX_FAILURES):
        guard.failed("10.0.0.3")
    assert not guard.admit("10.0.0.3")
    for _ in range(MAX_FAILURES):
        guard.failed("127.0.0.1")
    assert guard.admit("127.0.0.1")


class _Channel:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, request: requests.AnyRequest) -> replies.Reply:
        reply: replies.Reply = await self._client.ask(request)  # type: ignore[arg-type]
        return reply
