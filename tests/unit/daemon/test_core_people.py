"""What people ask: submissions, changes, and who may."""

from __future__ import annotations

import pytest
from support.core_kit import ALICE, BOB, OPERATOR, Driver, part

from flagplot_wire.job import Dependency, DependencyTerm, GpuCount
from flagplot_wire.job import State as JobState
from flagplot_wire.replies import Failure, Submitted
from flagplot_wire.requests import Update
from flagplotd.core import stimuli as st
from flagplotd.core.orders import ExtendOn, SignalOn, StopOn


def test_submit_is_idempotent_and_fills_in() -> None:
    drive = Driver()
    number = drive.submit(key="k", partition="short")
    assert drive.try_submit(key="k") == Submitted(number, again=True)
    assert drive.last.events == ()
    job = drive.job(number)
    assert job.time_limit_s == 600
    assert drive.job(drive.submit()).spec.partition == "main"
    assert drive.job(drive.submit(time_limit_s=0)).time_limit_s == 0


def test_a_dry_run_leaves_nothing_behind() -> None:
    drive = Driver()
    assert drive.try_submit(dry_run=True) == Submitted(0)
    assert (drive.last.events, drive.last.orders, drive.state.by_key) == ((), (), {})
    assert drive.try_submit(dry_run=True, partition="none").code == "no_partition"


AFTER = Dependency((DependencyTerm("afterok", ("99",)),))


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"partition": "lost"}, "no_partition", "'lost'"),
        ({"partition": "vip"}, "not_permitted", "vip is not open to alice"),
        ({"partition": "short", "time_limit_s": 3601}, "partition_limit", "at most"),
        ({"partition": "short", "time_limit_s": 0}, "partition_limit", "at most"),
        ({"partition": "short", "nodes_min": 3, "nodes_max": 3}, "partition_limit", "at most 2"),
        ({"shards": 2, "gpus_per_node": (GpuCount(1),)}, "bad_gres", "one kind only"),
        ({"vram_mib": 2, "gpus": (GpuCount(1),)}, "bad_gres", "one kind only"),
        ({"cpus_per_task": 0}, "bad_request", "zero"),
        ({"cpus_per_task": -1}, "bad_request", "negative"),
        ({"time_limit_s": -1}, "bad_request", "negative"),
        ({"gpus": (GpuCount(-1),)}, "bad_request", "negative"),
        ({"mem_per_node_mib": 2**40}, "bad_request", "above"),
        ({"mem_per_cpu_mib": -1}, "bad_request", "negative"),
        ({"nodes_min": 2, "nodes_max": 1}, "bad_request", "fewer"),
        ({"nodelist": ("n1", "n8")}, "no_node", "'n8'"),
        ({"exclude": ("n8",)}, "no_node", "'n8'"),
        ({"array": "0-1000"}, "bad_array", "1000 is above the highest, 999"),
        ({"array": "0-5:2"}, "bad_array", "plain runs"),
        ({"array": "5-2"}, "bad_array", "order"),
        ({"array": "1-3,2"}, "bad_array", "order"),
        ({"array": ",".join(map(str, range(0, 20_000, 2)))}, "bad_array", "10000 separate ranges"),
        ({"array": "x"}, "bad_array", "plain runs"),
        ({"array": "1-2", "limit": -1}, "bad_array", "negative"),
        ({"dependency": AFTER}, "bad_dependency", "no job 99"),
        ({"dependency": Dependency((DependencyTerm("afterok", ("x\x1b",)),))}, "bad_job_id", "not a job"),
        ({"work_dir": "home"}, "bad_request", "no absolute path"),
        ({"nice": -1}, "not_permitted", "only operators"),
        ({"never": "8 GPUs: the largest node has 2"}, "never_fits", "the largest node has 2"),
    ],
)
def test_submissions_that_are_refused(fields: dict[str, object], code: str, words: str) -> None:
    drive = Driver(max_array_size=1000)
    reply = drive.try_submit(**fields)
    assert isinstance(reply, Failure)
    assert (reply.code, words in reply.message) == (code, True), reply
    assert drive.last.events == ()


def test_partitions_and_limits_that_let_in() -> None:
    drive = Driver(max_array_size=1000, max_jobs=4)
    drive.submit(BOB, partition="vip")
    drive.submit(OPERATOR, partition="vip", nice=-5)
    drive.submit(array="0-999")
    drive.submit(name="a\x1b[2Jb\u202e")
    assert "\x1b" not in drive.job(4).spec.name
    assert drive.try_submit().code == "too_many_jobs"


def test_cancel() -> None:
    drive = Driver()
    pending, running = drive.submit(), drive.submit()
    drive.start(running)
    assert drive.act("cancel", pending, running, 77, "x", who=BOB) == [
        ("not_permitted", f"job {pending} belongs to alice"),
        ("not_permitted", f"job {running} belongs to alice"),
        ("not_found", "there is no job 77 in the queue (flagplot queue --all lists them)"),
        ("bad_job_id", "'x' is not a job: write a number such as 41, 41_3 or 41_[1-3]"),
    ]
    drive.act("cancel", pending, running, who=OPERATOR)
    assert drive.job(pending).status.state is JobState.CANCELLED
    status = drive.job(running).status
    assert (status.state, status.ending, status.message) == (
        JobState.COMPLETING,
        JobState.CANCELLED,
        "cancelled by olga",
    )
    assert [order.kill_wait_s for order in drive.orders(StopOn)] == [30]
    assert drive.act("cancel", running) == [("", "cancelled by alice")]
    assert drive.last.events == ()
    drive.end(running, cause="exited", exit_code=0, signal=15)
    assert drive.job(running).status.state is JobState.CANCELLED
    error, message = drive.act("cancel", running)[0]
    assert error == "already_ended" and "already ended as CANCELLED" in message


def test_signals_only_signal() -> None:
    drive = Driver()
    array = drive.submit(array="0-3")
    one = drive.start(array)
    assert drive.act("cancel", array, signal="SIGUSR1") == [("", "sent SIGUSR1")]
    assert drive.orders(SignalOn) == [SignalOn("n1", one, 1, "USR1")]
    assert drive.act("cancel", f"{array}_3", signal="USR1")[0][0] == "not_running"
    assert drive.act("cancel", array, signal="U;rm")[0][0] == "bad_request"
    assert drive.job(one).status.state is JobState.RUNNING


def test_hold_and_release() -> None:
    drive = Driver()
    number = drive.submit()
    assert drive.act("hold", number) == [("", "held")]
    assert drive.job(number).spec.hold == "user"
    drive.act("hold", number, who=OPERATOR)
    assert drive.job(number).spec.hold == "admin", "an operator's hold is the stronger"
    assert drive.act("release", number)[0][0] == "not_permitted"
    assert drive.act("release", number, who=OPERATOR) == [("", "released")]
    assert drive.start(number) == number
    assert drive.act("hold", number)[0][0] == "not_pending"


def test_holding_an_array_holds_what_of_it_waits() -> None:
    drive = Driver()
    array = drive.submit(array="0-3")
    one = drive.start(array)
    drive.end(one)
    drive.act("requeue", f"{array}_0")
    drive.act("hold", array)
    assert drive.start(one) == 0 and drive.start(array) == 0
    drive.act("release", array)
    assert drive.start(one) == one and drive.start(array, part(cpu_ids="1"))


def test_requeue() -> None:
    drive = Driver()
    number = drive.submit()
    assert drive.act("requeue", number)[0][0] == "not_running"
    drive.start(number)
    drive.act("requeue", number)
    assert drive.job(number).status.ending is JobState.PENDING
    drive.end(number, cause="stopped")
    status = drive.job(number).status
    assert (status.state, status.restarts, status.allocation) == (JobState.PENDING, 1, None)
    drive.start(number)
    drive.act("requeue", number)
    drive.act("cancel", number)
    drive.end(number, cause="stopped")
    assert drive.job(number).status.state is JobState.CANCELLED
    drive.act("requeue", number)
    drive.start(number)
    assert drive.job(number).status.attempt == 3


def test_update_a_pending_job() -> None:
    drive = Driver()
    other, number = drive.submit(), drive.submit()
    changes = {
        "time_limit": "2:00:00",
        "name": "new\x1b",
        "partition": "short",
        "comment": "c",
        "dependency": f"afterany:{other}",
        "begin": "now+60",
        "cpus_per_task": 2,
        "memory": "2G",
        "gpus_per_node": "h100:2",
        "nodes": "1-2",
        "requeue": False,
        "nice": 5,
    }
    assert drive.update(number, **changes)[0][0] == "partition_limit"
    assert drive.last.events == ()
    changes["time_limit"] = "30"
    error, message = drive.update(number, **changes)[0]
    assert error == "" and "time limit" in message
    spec = drive.job(number).spec
    assert (spec.partition, spec.comment, spec.begin, spec.requeue, spec.nice) == (
        "short",
        "c",
        drive.now + 60,
        False,
        5,
    )
    assert "\x1b" not in spec.name
    request = spec.request
    assert (request.time_limit_s, request.cpus_per_task, request.mem_per_node_mib) == (1800, 2, 2048)
    assert (request.gpus_per_node, request.nodes_min, request.nodes_max) == ((GpuCount(2, "h100"),), 1, 2)
    assert drive.update(number, dependency="")[0][0] == ""
    assert drive.job(number).spec.dependency is None


@pytest.mark.parametrize(
    "changes",
    [
        {"time_limit": "soon"},
        {"memory": "lots"},
        {"gpus_per_node": "h100:x"},
        {"nodes": "0"},
        {"dependency": "afterok:9999"},
        {"dependency": "never:1"},
        {"begin": "yesterdayish"},
        {"cpus_per_task": 0},
        {"partition": "lost"},
        {"nice": -1},
        {"priority": 5},
        {"site_factor": 5},
        {"array_limit": 2},
    ],
)
def test_updates_that_are_refused(changes: dict[str, object]) -> None:
    drive = Driver()
    number = drive.submit()
    assert drive.update(number, **changes)[0][0]
    assert drive.last.events == ()


def test_operators_set_a_site_factor() -> None:
    drive = Driver()
    number, array = drive.submit(), drive.submit(array="0-3")
    assert drive.update(number, array, who=OPERATOR, site_factor=-7) == [("", "changed site factor")] * 2
    assert drive.state.site == {number: -7, array: -7}
    element = drive.start(array)
    assert drive.job(element).status.site_factor == -7
    error, message = drive.update(number, who=OPERATOR, site_factor=2**31 - 2)[0]
    assert error == "bad_request" and "-2147483645 to 2147483645" in message
    drive.update(number, who=OPERATOR, site_factor=0)
    assert number not in drive.state.site and drive.replayed().site == drive.state.site


def test_jobs_never_wait_for_themselves() -> None:
    drive = Driver()
    one = drive.submit()
    two = drive.submit(dependency=Dependency((DependencyTerm("afterok", (str(one),)),)))
    three = drive.submit(dependency=Dependency((DependencyTerm("afterok", (str(two),)),)))
    assert drive.update(one, dependency=f"afterok:{one}")[0][0] == "bad_dependency"
    error, message = drive.update(one, dependency=f"afterok:{three}")[0]
    assert error == "bad_dependency" and message.endswith("1 → 3 → 2 → 1")
    assert drive.update(three, dependency=f"afterok:{one}")[0][0] == ""


def test_update_a_running_job() -> None:
    drive = Driver()
    number = drive.submit(time_limit_s=3600)
    drive.start(number)
    assert drive.update(number, time_limit="30")[0][0] == ""
    assert drive.orders(ExtendOn) == [ExtendOn("n1", number, 1, 1800)]
    assert drive.update(number, time_limit="31")[0][0] == "not_permitted"
    assert drive.update(number, time_limit="UNLIMITED")[0][0] == "not_permitted"
    assert drive.update(number, time_limit="2:00:00", who=OPERATOR)[0][0] == ""
    assert drive.update(number, name="n", comment="c", requeue=False)[0][0] == ""
    assert drive.update(number, memory="1G")[0] == (
        "not_pending",
        f"job {number} runs: its memory cannot change any more",
    )
    assert drive.update(number, name="x", who=BOB)[0][0] == "not_permitted"
    drive.end(number)
    assert drive.update(number, name="x")[0][0] == "already_ended"


def test_update_an_array_and_its_elements() -> None:
    drive = Driver()
    array = drive.submit(array="0-9", limit=1, time_limit_s=3600)
    one = drive.start(array)
    assert drive.start(array, part(cpu_ids="1")) == 0
    assert drive.update(array, array_limit=2)[0][0] == ""
    assert drive.start(array, part(cpu_ids="1"))
    assert drive.update(array, time_limit="10")[0][0] == ""
    assert drive.job(one).time_limit_s == drive.job(array).time_limit_s == 600
    error, message = drive.update(array, time_limit="20")[0]
    assert error == "" and f"{array}_0 stays" in message
    assert drive.job(one).time_limit_s == 600
    assert drive.update(f"{array}_5", time_limit="10")[0][0] == "bad_request"
    assert drive.update(f"{array}_0", comment="c")[0][0] == ""
    assert drive.update(array, memory="1G")[0][0] == ""
    assert drive.job(one).spec.request.mem_per_node_mib is None


def test_priority_is_the_operators_alone() -> None:
    drive = Driver()
    number = drive.submit()
    assert drive.update(number, priority=7, who=OPERATOR)[0][0] == ""
    assert drive.job(number).status.priority == 7
    reply = drive.do(st.UpdateJobs(ALICE, Update((str(number),)))).reply
    assert isinstance(reply, Failure) and reply.message == "nothing to change"


def test_alice_is_no_operator() -> None:
    assert not ALICE.operator and OPERATOR.operator and not OPERATOR.admin
