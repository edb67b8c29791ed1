"""Starts, ends, requeues and arrays, one step at a time."""

from __future__ import annotations

import pytest
from support.core_kit import ALICE, BOB, Driver, alloc, fingerprint, part

from flagplot_wire.events import JobChanged, StepChanged
from flagplot_wire.job import Dependency, DependencyTerm, Job, JobSpec
from flagplot_wire.job import State as JobState
from flagplotd.core import stimuli as st
from flagplotd.core.dependency import check
from flagplotd.core.moves import LEGAL, IllegalMove, check_move
from flagplotd.core.orders import AckOn, LaunchOn, Replan, StopOn


def test_a_job_runs_and_completes_in_one_move() -> None:
    drive = Driver()
    number = drive.submit()
    assert drive.orders(Replan)
    assert drive.start(number, part(gpus={0: 8})) == number
    assert drive.orders(LaunchOn) == [LaunchOn("n1", number, 1, 0)]
    assert drive.state.use["n1"].gpu_shards == [8]
    drive.now += 50
    drive.end(number)
    script, ended = drive.last.events
    assert isinstance(script, StepChanged) and script.step.id == f"{number}.batch"
    assert isinstance(ended, JobChanged) and ended.status.state == JobState.COMPLETED
    assert drive.orders(AckOn)[0].node == "n1"
    assert drive.orders(Replan)
    status = drive.job(number).status
    assert (status.end_time - status.start_time, status.exit_code) == (50, 0)
    assert status.allocation is not None
    assert drive.state.use["n1"].jobs == set()
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)


@pytest.mark.parametrize(
    ("cause", "fields", "state"),
    [
        ("exited", {"exit_code": 3}, JobState.FAILED),
        ("exited", {"signal": 11}, JobState.FAILED),
        ("timeout", {}, JobState.TIMEOUT),
        ("stopped", {}, JobState.CANCELLED),
        ("oom", {}, JobState.OUT_OF_MEMORY),
        ("launch_failed", {"message": "user: the folder /x does not exist"}, JobState.FAILED),
    ],
)
def test_how_an_attempt_ends(cause: str, fields: dict[str, object], state: JobState) -> None:
    drive = Driver()
    number = drive.submit()
    drive.start(number)
    drive.end(number, cause=cause, **fields)
    assert drive.job(number).status.state is state
    assert not drive.job(number).status.message.startswith("user: ")


def test_repeated_old_and_unknown_ends_are_acknowledged_and_change_nothing() -> None:
    drive = Driver()
    number = drive.submit()
    drive.start(number)
    drive.end(number)
    for attempt in (0, 1, 7):
        drive.end(number, attempt=attempt, exit_code=9)
        assert drive.orders(AckOn)
        assert drive.last.events == ()
    drive.act("requeue", number)
    drive.start(number)
    drive.end(number, attempt=1, exit_code=9)
    assert drive.job(number).status.state is JobState.RUNNING
    drive.end(number, node="n3")
    assert drive.job(number).status.state is JobState.RUNNING


@pytest.mark.parametrize(
    ("change", "skipped"),
    [
        (lambda drive, number: drive.drain("n1"), True),
        (lambda drive, number: drive.do(st.AgentLost("n1")), True),
        (lambda drive, number: drive.act("hold", number), True),
        (lambda drive, number: drive.act("cancel", number), True),
        (lambda drive, number: drive.start(drive.submit(), part(cpu_ids="0-1", cpus=2)), True),
        (lambda drive, number: drive.start(drive.submit(), part(cpu_ids="1", memory_mib=7950)), True),
        (lambda drive, number: drive.start(drive.submit(), part(cpu_ids="1", gpus={0: 7})), True),
        (lambda drive, number: drive.start(drive.submit(), part(cpu_ids="1", gpus={0: 6})), False),
        (lambda drive, number: drive.update(number, begin="now+1hour"), True),
        (lambda drive, number: drive.update(number, name="other"), False),
    ],
)
def test_a_planned_start_is_checked_again(change: object, skipped: bool) -> None:
    drive = Driver()
    number = drive.submit()
    change(drive, number)  # type: ignore[operator]
    assert (drive.start(number, part(gpus={0: 2})) == 0) is skipped


def test_one_plan_never_gives_the_same_thing_twice() -> None:
    drive = Driver()
    first, second = drive.submit(), drive.submit()
    drive.do(st.Planned((st.Start(first, alloc(part())), st.Start(second, alloc(part())))))
    assert drive.state.active == {first}


def test_a_batch_gang_ends_with_its_first_node_and_frees_all_together() -> None:
    drive = Driver()
    number = drive.submit(nodes_min=2, nodes_max=2)
    drive.start(number, part("n1"), part("n2"))
    assert [order.node for order in drive.orders(LaunchOn)] == ["n1", "n2"]
    drive.end(number, "n1")
    status = drive.job(number).status
    assert (status.state, status.ending) == (JobState.COMPLETING, JobState.COMPLETED)
    assert [order.node for order in drive.orders(StopOn)] == ["n2"]
    assert drive.state.use["n1"].jobs == {number}
    drive.end(number, "n1")
    assert drive.job(number).status.state is JobState.COMPLETING
    drive.end(number, "n2", cause="stopped")
    assert drive.job(number).status.state is JobState.COMPLETED


def test_tasks_end_with_the_first_failure_or_the_last_success() -> None:
    drive = Driver()
    number = drive.submit(nodes_min=3, nodes_max=3, launch="tasks")
    drive.start(number, part("n1"), part("n2"), part("n3"))
    drive.end(number, "n1")
    assert drive.job(number).status.state is JobState.RUNNING
    drive.end(number, "n3", exit_code=4)
    assert drive.job(number).status.ending is JobState.FAILED
    assert [order.node for order in drive.orders(StopOn)] == ["n2"]
    drive.end(number, "n2", cause="stopped")
    assert (drive.job(number).status.state, drive.job(number).status.exit_code) == (JobState.FAILED, 4)
    other = drive.submit(nodes_min=2, nodes_max=2, launch="tasks")
    drive.start(other, part("n1"), part("n2"))
    drive.end(other, "n2")
    drive.end(other, "n1")
    assert drive.job(other).status.state is JobState.COMPLETED


def test_launch_failures_wait_longer_each_time_then_hold() -> None:
    drive = Driver(max_launch_failures=3)
    number = drive.submit()
    waits = []
    for _ in range(3):
        drive.now += 100
        assert drive.start(number)
        drive.end(number, cause="launch_failed", message="cannot make the cgroup")
        waits.append(drive.job(number).status.retry_at - drive.now)
        assert drive.start(number) == 0
    assert waits == [10, 20, 40]
    job = drive.job(number)
    assert (job.status.state, job.spec.hold) == (JobState.PENDING, "admin")
    assert job.status.message == "could not start on n1: cannot make the cgroup"
    assert drive.act("release", number)[0][0] == "not_permitted"
    assert drive.state.nodes["n1"].drain is None


def test_launch_failures_are_counted_in_a_row() -> None:
    drive = Driver(max_launch_failures=2)
    number = drive.submit()
    for _ in range(4):
        drive.now += 1000
        drive.start(number)
        drive.end(number, cause="launch_failed", message="cannot make the cgroup")
        drive.now += 1000
        drive.start(number)
        drive.end(number, exit_code=1)
        drive.act("requeue", number)
    assert drive.job(number).spec.hold == ""


def test_a_node_that_cannot_write_drains_itself() -> None:
    drive = Driver()
    number = drive.submit()
    drive.start(number)
    drive.end(number, cause="launch_failed", message="spool: [Errno 28] No space left on device")
    drain = drive.state.nodes["n1"].drain
    assert drain is not None and "No space left" in drain.reason and drain.who == "flagplotd"


def test_retries_and_begin_times_wake_the_scheduler_once() -> None:
    drive = Driver()
    number = drive.submit(begin=drive.now + 100)
    drive.do(st.Tick())
    drive.do(st.Tick(), 1)
    assert not drive.orders(Replan)
    drive.do(st.Tick(), 25)
    assert not drive.orders(Replan)
    drive.do(st.Tick(), 73)
    drive.do(st.Tick(), 1)
    assert drive.orders(Replan)
    assert drive.start(number) == number
    drive.do(st.Tick(), 100)
    assert not drive.orders(Replan)


def test_an_array_splits_counts_and_ends() -> None:
    drive = Driver()
    array = drive.submit(array="1-3", limit=2)
    first = drive.start(array, part(cpu_ids="0"), index=2)
    job = drive.job(first)
    assert (job.display_id, job.array_number, job.spec.array) == (f"{array}_2", array, None)
    assert drive.job(array).status.waiting == "1,3"
    second = drive.start(array, part(cpu_ids="1"))
    assert drive.job(second).array_index == 1
    assert drive.start(array, part(cpu_ids="2")) == 0
    assert drive.job(array).status.state is JobState.PENDING
    drive.end(first)
    third = drive.start(array, part(cpu_ids="2"))
    assert drive.job(array).status.state is JobState.RUNNING
    drive.end(second, exit_code=5)
    drive.end(third)
    status = drive.job(array).status
    assert (status.state, status.exit_code) == (JobState.FAILED, 5)
    assert (status.elements_running, status.elements_ended, status.elements_failed) == (0, 3, 1)
    drive.act("requeue", f"{array}_1")
    assert drive.job(array).status.state is JobState.RUNNING
    drive.start(second)
    drive.end(second)
    assert drive.job(array).status.state is JobState.COMPLETED
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)


def test_starting_an_element_costs_three_events() -> None:
    drive = Driver()
    array = drive.submit(array="0-9")
    drive.start(array)
    assert len(drive.last.events) == 3


def test_an_array_of_many_can_be_cancelled_at_every_stage() -> None:
    drive = Driver()
    array = drive.submit(array="0-99999")
    one = drive.start(array)
    done = drive.start(array, part(cpu_ids="1"))
    drive.end(done)
    assert drive.act("cancel", f"{array}_[50-8000:2]")[0][0] == ""
    error, message = drive.act("cancel", f"{array}_[10001-99999:2]")[0]
    assert error == "bad_array" and "separate ranges" in message
    assert drive.act("cancel", f"{array}_50")[0][0] == "not_found"
    assert drive.act("cancel", f"{array}_[1]")[0][0] == "already_ended"
    assert drive.act("cancel", array)[0][0] == ""
    assert [order.number for order in drive.orders(StopOn)] == [one]
    assert drive.job(array).status.state is JobState.RUNNING
    drive.end(one, cause="stopped")
    assert drive.job(array).status.state is JobState.CANCELLED
    assert drive.act("cancel", array)[0][0] == "already_ended"


@pytest.mark.parametrize("text", ["{}", "{}_[0-4]"])
def test_an_array_that_never_started_is_cancelled_at_once(text: str) -> None:
    drive = Driver()
    array = drive.submit(array="0-4")
    drive.act("cancel", text.format(array))
    assert drive.job(array).status.state is JobState.CANCELLED


def test_an_array_with_a_cancelled_element_did_not_complete() -> None:
    drive = Driver()
    array = drive.submit(array="0-1")
    drive.act("cancel", f"{array}_0")
    one = drive.start(array)
    drive.end(one)
    assert drive.job(array).status.state is JobState.CANCELLED


OK, WAIT, NEVER = "ok", "wait", "never"


@pytest.mark.parametrize(
    ("kind", "running", "completed", "failed", "forgotten"),
    [
        ("after", OK, OK, OK, OK),
        ("afterany", WAIT, OK, OK, OK),
        ("afterok", WAIT, OK, NEVER, NEVER),
        ("afternotok", WAIT, NEVER, OK, NEVER),
    ],
)
def test_dependencies(kind: str, running: str, completed: str, failed: str, forgotten: str) -> None:
    for code, want in ((0, completed), (1, failed)):
        drive = Driver(keep_ended_s=100)
        target = drive.submit()
        term = DependencyTerm(kind, (str(target),))  # type: ignore[arg-type]
        number = drive.submit(dependency=Dependency((term,)))
        assert check(drive.state, drive.job(number), drive.now)[0] == WAIT
        assert drive.start(number, part(cpu_ids="1")) == 0
        drive.start(target)
        assert check(drive.state, drive.job(number), drive.now)[0] == running
        drive.end(target, exit_code=code)
        verdict, jobs = check(drive.state, drive.job(number), drive.now)
        assert verdict == want
        assert jobs == (() if want == OK else (target,))
        drive.do(st.Tick(), 1000)
        assert target in drive.state.jobs, "a job that is waited for is not forgotten"
        del drive.state.jobs[target]
        assert check(drive.state, drive.job(number), drive.now)[0] == forgotten


def test_after_waits_its_delay_from_the_start() -> None:
    drive = Driver()
    target = drive.submit()
    number = drive.submit(dependency=Dependency((DependencyTerm("after", (str(target),), 60),)))
    drive.start(target)
    assert check(drive.state, drive.job(number), drive.now + 59)[0] == WAIT
    assert check(drive.state, drive.job(number), drive.now + 60)[0] == OK


def test_all_or_any_of_several() -> None:
    drive = Driver()
    good, bad, open_ = drive.submit(), drive.submit(), drive.submit()
    drive.start(good)
    drive.end(good)
    drive.start(bad)
    drive.end(bad, exit_code=1)

    def verdict(any_of: bool, *jobs: int) -> str:
        terms = tuple(DependencyTerm("afterok", (str(job),)) for job in jobs)
        number = drive.submit(dependency=Dependency(terms, any_of))
        return check(drive.state, drive.job(number), drive.now)[0]

    assert verdict(False, good, open_) == WAIT
    assert verdict(False, open_, bad) == NEVER
    assert verdict(True, bad, good) == OK
    assert verdict(True, bad, open_) == WAIT
    assert verdict(True, bad) == NEVER


def test_waiting_for_arrays_and_their_elements() -> None:
    drive = Driver()
    array = drive.submit(array="1-2")

    def on(kind: str, text: str) -> str:
        term = DependencyTerm(kind, (text,))  # type: ignore[arg-type]
        job = Job(0, "alice", 1001, JobSpec("job", "/", dependency=Dependency((term,))))
        return check(drive.state, job, drive.now)[0]

    assert on("afterok", str(array)) == on("afterok", f"{array}_1") == WAIT
    one = drive.start(array, index=1)
    drive.end(one)
    assert on("afterok", f"{array}_1") == OK
    assert on("afterok", str(array)) == WAIT
    assert on("afterok", f"{array}_9") == NEVER
    drive.act("cancel", f"{array}_2")
    assert (on("afterok", f"{array}_2"), on("afterany", f"{array}_2")) == (NEVER, OK)
    assert on("afterok", str(array)) == NEVER
    reply = drive.try_submit(dependency=Dependency((DependencyTerm("afterok", (f"{array}_7",)),)))
    assert reply.code == "bad_dependency"


def test_singletons_run_one_by_one_and_by_user() -> None:
    drive = Driver()
    one = drive.submit(dependency=Dependency((DependencyTerm("singleton"),)))
    two = drive.submit(dependency=Dependency((DependencyTerm("singleton"),)))
    other = drive.submit(BOB, dependency=Dependency((DependencyTerm("singleton"),)))
    assert drive.start(two, part(cpu_ids="1")) == 0
    assert drive.start(one) == one
    assert drive.start(two, part(cpu_ids="1")) == 0
    assert drive.start(other, part(cpu_ids="2")) == other
    drive.end(one)
    assert drive.start(two, part(cpu_ids="1")) == two


def test_moves_outside_the_table_tell_the_story() -> None:
    drive = Driver()
    number = drive.submit()
    with pytest.raises(IllegalMove, match=f"job {number} cannot go from PENDING to COMPLETING: attempt 0"):
        check_move(drive.job(number), JobState.COMPLETING)
    assert set(LEGAL) == set(JobState)
    check_move(drive.job(number), JobState.PENDING)


def test_ended_jobs_are_forgotten_by_age_and_by_number() -> None:
    drive = Driver(keep_ended_s=1000, keep_ended=2)
    numbers = [drive.submit(key=f"k{index}") for index in range(4)]
    for number in numbers:
        drive.now += 1
        drive.start(number)
        drive.end(number)
    drive.do(st.Tick(), 20)
    assert set(drive.state.jobs) == set(numbers[2:])
    assert ("alice", "k0") not in drive.state.by_key
    drive.do(st.Tick(), 1000)
    assert not drive.state.jobs
    assert drive.submit() == numbers[-1] + 1


def test_elements_are_forgotten_with_their_array_only() -> None:
    drive = Driver(keep_ended_s=10)
    array = drive.submit(array="0-1")
    one = drive.start(array)
    drive.end(one)
    drive.do(st.Tick(), 100)
    assert one in drive.state.jobs
    two = drive.start(array)
    drive.end(two)
    drive.do(st.Tick(), 100)
    assert not drive.state.jobs and not drive.state.elements
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)


def test_submit_of_alice_and_bob_with_one_key_are_two_jobs() -> None:
    drive = Driver()
    assert drive.submit(ALICE, key="same") != drive.submit(BOB, key="same")
