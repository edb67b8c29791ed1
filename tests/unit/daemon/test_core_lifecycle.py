"""Jobs' lives through the pure core; every step checks every invariant."""

from __future__ import annotations

from support.states import ADA, ROOT, World, inventory

from flagplot_wire.job import ArraySpec, GpuCount, Request
from flagplot_wire.replies import Failure, Submitted
from flagplot_wire.requests import DrainNodes, Update
from flagplot_wire.values import parse_dependency
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.orders import AckOn, ExtendOn, LaunchOn, StopOn
from flagplotd.core.state import Settings, State

GPU = Request(mem_per_node_mib=100, gpus_per_node=(GpuCount(1),))


def test_a_job_runs_and_completes() -> None:
    world = World()
    number = world.submit()
    assert world.word(number) == "PENDING"
    assert world.cycle() == [number]
    assert world.word(number) == "RUNNING"
    assert any(isinstance(order, LaunchOn) and order.number == number for order in world.orders)
    outcome = world.end(number)
    assert world.word(number) == "COMPLETED"
    assert any(isinstance(order, AckOn) for order in outcome.orders)
    again = world.end(number)
    assert again.events == ()
    assert any(isinstance(order, AckOn) for order in again.orders)


def test_exit_codes_and_causes() -> None:
    world = World(nodes=4)
    for cause, code, word in (("exited", 3, "FAILED"), ("timeout", 0, "TIMEOUT"), ("oom", 0, "OUT_OF_MEMORY")):
        number = world.submit()
        world.cycle()
        world.end(number, code, cause)
        assert world.word(number) == word
        assert world.state.jobs[number].status.exit_code == code


def test_a_nodes_warning_stands_on_the_running_attempt_alone() -> None:
    world = World()
    number = world.submit()
    world.cycle()
    job = world.state.jobs[number]
    (node,) = job.status.allocation.names if job.status.allocation else ()
    for stranger, attempt in (("elsewhere", job.status.attempt), (node, job.status.attempt + 1)):
        assert world.do(st.AttemptNoted(stranger, number, attempt, "no")).events == ()
    world.do(st.AttemptNoted(node, number, job.status.attempt, "it used 95 % of its share"))
    assert world.state.jobs[number].status.message == "it used 95 % of its share"
    assert world.word(number) == "RUNNING"
    world.end(number)
    assert world.state.jobs[number].status.message == ""
    assert world.do(st.AttemptNoted(node, number, job.status.attempt, "late")).events == ()


def test_submit_is_idempotent() -> None:
    world = World()
    spec = world.state.jobs[world.submit()].spec
    stimulus = st.SubmitJob(ADA, spec, "same")
    first, second = world.do(stimulus).reply, world.do(stimulus).reply
    assert isinstance(first, Submitted) and isinstance(second, Submitted)
    assert first.number == second.number and second.again and not first.again


def test_bad_requests_are_refused_in_words() -> None:
    world = World()
    reply = world.try_submit(partition="nope")
    assert isinstance(reply, Failure) and "nope" in reply.message and "main" in reply.hint
    both = Request(gpus_per_node=(GpuCount(1),), shards=2)
    reply = world.try_submit(both)
    assert isinstance(reply, Failure) and reply.code == "bad_gres"
    reply = world.try_submit(dependency=parse_dependency("afterok:99"))
    assert isinstance(reply, Failure) and "99" in reply.message


def test_dependencies() -> None:
    world = World()
    first = world.submit()
    good = world.submit(dependency=parse_dependency(f"afterok:{first}"))
    bad = world.submit(dependency=parse_dependency(f"afternotok:{first}"))
    after = world.submit(dependency=parse_dependency(f"after:{first}"))
    assert world.cycle() == [first]
    assert world.cycle() == [after]
    world.end(first)
    assert world.cycle() == [good]
    assert world.word(bad) == "PENDING"
    assert world.state.forecasts[bad].reasons[0].why == "DependencyNeverSatisfied"


def test_singleton_runs_one_at_a_time() -> None:
    world = World()
    numbers = [world.submit(name="same", dependency=parse_dependency("singleton")) for _ in range(3)]
    for number in numbers:
        assert world.cycle() == [number]
        assert world.cycle() == []
        world.end(number)


def test_array_with_limit_splits_and_ends() -> None:
    world = World()
    number = world.submit(array=ArraySpec("0-4", 2))
    assert world.state.jobs[number].display_id == "1_[0-4%2]"
    world.cycle()
    world.cycle()
    array = world.state.jobs[number]
    assert array.status.elements_running == 2 and array.status.waiting == "2-4"
    for _ in range(5):
        running = sorted(world.state.active)
        world.end(running[0], exit_code=int(_ == 3))
        world.cycle()
    assert world.word(number) == "FAILED"
    array = world.state.jobs[number]
    assert (array.status.elements_ended, array.status.elements_failed) == (5, 1)


def test_cancel_an_array_and_one_element() -> None:
    world = World()
    number = world.submit(array=ArraySpec("0-9", 3))
    world.cycle()
    assert not world.act("cancel", f"{number}_7").results[0].error
    assert world.state.jobs[number].status.waiting == "3-6,8-9"
    assert world.act("cancel", f"{number}_7").results[0].error == "not_found"
    world.act("cancel", str(number))
    for element in sorted(world.state.active):
        assert world.word(element) == "COMPLETING"
        world.end(element, cause="stopped")
        assert world.word(element) == "CANCELLED"
    assert world.word(number) == "CANCELLED"
    assert world.act("cancel", str(number)).results[0].error == "already_ended"


def test_only_the_owner_and_operators_act() -> None:
    world = World()
    number = world.submit()
    stranger = st.Who("eve", 2000)
    assert world.act("cancel", str(number), who=stranger).results[0].error == "not_permitted"
    assert not world.act("hold", str(number), who=ROOT).results[0].error
    assert world.act("release", str(number)).results[0].error == "not_permitted"
    assert not world.act("release", str(number), who=ROOT).results[0].error
    assert world.cycle() == [number]


def test_requeue_keeps_the_number_and_starts_a_new_attempt() -> None:
    world = World()
    number = world.submit()
    world.cycle()
    world.act("requeue", str(number))
    assert world.word(number) == "COMPLETING"
    world.end(number, cause="stopped")
    assert world.word(number) == "PENDING"
    assert world.state.jobs[number].status.restarts == 1
    world.cycle()
    assert world.state.jobs[number].status.attempt == 2
    world.end(number)
    world.act("requeue", str(number))
    assert world.word(number) == "PENDING"


def test_a_gang_ends_everywhere_with_its_first_failure() -> None:
    world = World(nodes=3)
    number = world.submit(Request(nodes_min=2, nodes_max=2, mem_per_node_mib=10, launch="tasks"))
    world.cycle()
    names = world.state.jobs[number].status.allocation.names  # type: ignore[union-attr]
    assert len(names) == 2
    outcome = world.end(number, 1, node=names[1])
    assert world.word(number) == "COMPLETING"
    assert [order.node for order in outcome.orders if isinstance(order, StopOn)] == [names[0]]
    world.end(number, cause="stopped", node=names[0])
    assert world.word(number) == "FAILED"


def test_launch_failures_wait_longer_each_time_then_hold() -> None:
    world = World(settings=Settings(max_launch_failures=3))
    number = world.submit()
    for failure in (1, 2, 3):
        assert world.cycle() == [number]
        world.end(number, cause="launch_failed", message="fork: Resource temporarily unavailable")
        status = world.state.jobs[number].status
        assert status.retry_at == world.now + 10 * 2 ** (failure - 1)
        assert world.cycle() == []
        world.now = status.retry_at
    assert world.state.jobs[number].spec.hold == "admin"


def test_a_broken_disk_drains_the_node() -> None:
    world = World(nodes=2)
    number = world.submit()
    world.cycle()
    node = world.state.jobs[number].status.allocation.names[0]  # type: ignore[union-attr]
    world.end(number, cause="launch_failed", message="cannot write the attempt: No space left on device")
    assert world.state.nodes[node].drain is not None
    world.now += 10
    world.cycle()
    assert world.state.jobs[number].status.allocation.names[0] != node  # type: ignore[union-attr]


def test_the_submitters_mistake_fails_at_once() -> None:
    world = World()
    number = world.submit()
    world.cycle()
    world.end(number, cause="launch_failed", message="user: cannot open /nowhere/x: No such file or directory")
    assert world.word(number) == "FAILED"
    assert world.state.jobs[number].status.message.startswith("cannot open /nowhere")


def test_drain_keeps_jobs_away_and_resume_brings_them_back() -> None:
    world = World(nodes=1)
    world.do(st.Drain(ROOT, DrainNodes(("n1",), "fan")))
    number = world.submit()
    assert world.cycle() == []
    assert world.state.forecasts[number].reasons[0].why == "ReqNodeNotAvail"
    world.do(st.Resume(ROOT, st.ResumeNodes(("n1",))))
    assert world.cycle() == [number]
    reply = world.do(st.Drain(ADA, DrainNodes(("n1",), "x"))).reply
    assert isinstance(reply, Failure) and reply.code == "not_permitted"


def test_a_reboot_requeues_and_a_reconnect_does_not() -> None:
    world = World(nodes=1)
    number = world.submit()
    world.cycle()
    running = world.running_on("n1")
    world.do(st.AgentLost("n1"))
    assert world.word(number) == "RUNNING"
    world.do(st.AgentJoined("n1", inventory(), "0", running))
    assert world.word(number) == "RUNNING"
    world.do(st.AgentLost("n1"))
    world.do(st.AgentJoined("n1", inventory(boot="b2"), "0"))
    assert world.word(number) == "PENDING"
    assert world.state.jobs[number].status.restarts == 1


def test_a_lease_that_is_over_frees_the_job() -> None:
    world = World(nodes=2, settings=Settings(lease_s=100))
    number = world.submit()
    world.cycle()
    node = world.state.jobs[number].status.allocation.names[0]  # type: ignore[union-attr]
    world.do(st.AgentLost(node))
    world.now += 99
    world.do(st.Tick())
    assert world.word(number) == "RUNNING"
    world.now += 1
    world.do(st.Tick())
    assert world.word(number) == "PENDING"


def test_strangers_are_stopped() -> None:
    world = World(nodes=1)
    outcome = world.do(st.Reported("n1", (st.Attempt(77, 1),)))
    assert [order.number for order in outcome.orders if isinstance(order, StopOn)] == [77]


def test_update_pending_and_running() -> None:
    world = World(nodes=1)
    number = world.submit(Request(mem_per_node_mib=10, time_limit_s=3_600))
    world.do(st.UpdateJobs(ADA, Update((str(number),), time_limit="2:00:00", name="new")))
    job = world.state.jobs[number]
    assert (job.time_limit_s, job.spec.name) == (7_200, "new")
    world.cycle()
    outcome = world.do(st.UpdateJobs(ADA, Update((str(number),), time_limit="3:00:00")))
    assert outcome.reply.results[0].error == "not_permitted"  # type: ignore[union-attr]
    outcome = world.do(st.UpdateJobs(ADA, Update((str(number),), time_limit="30")))
    assert [order.deadline_s for order in outcome.orders if isinstance(order, ExtendOn)] == [1_800]
    outcome = world.do(st.UpdateJobs(ADA, Update((str(number),), memory="1G")))
    assert outcome.reply.results[0].error == "not_pending"  # type: ignore[union-attr]


def test_the_journal_replays_to_the_same_state() -> None:
    world = World(nodes=3)
    for index in range(6):
        world.submit(GPU)
        if index % 2:
            world.cycle()
    world.submit(array=ArraySpec("0-3"))
    world.cycle()
    for number in sorted(world.state.active)[:4]:
        world.end(number)
    world.act("cancel", str(max(world.state.active)))
    copy = State(world.state.settings)
    for body in world.journal:
        apply(copy, body)
        apply(copy, body)
    for field in ("jobs", "nodes", "use", "pending", "active", "elements", "partitions", "next_number", "epoch"):
        assert getattr(copy, field) == getattr(world.state, field), field


def test_ended_jobs_are_forgotten_in_time() -> None:
    world = World(settings=Settings(keep_ended_s=100))
    number = world.submit()
    world.cycle()
    world.end(number)
    world.now += 100
    world.do(st.Tick())
    assert number not in world.state.jobs
