"""Nodes that come, go, restart, forget and are given up."""

from __future__ import annotations

import msgspec
from support.core_kit import ALICE, Driver, fingerprint, inventory, part

from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.ids import Epoch
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Partition
from flagplotd.core import stimuli as st
from flagplotd.core.orders import AckOn, LaunchOn, Replan, StopOn


def running(drive: Driver, **fields: object) -> int:
    number = drive.submit(**fields)
    assert drive.start(number) == number
    drive.confirm(number)
    return number


def test_configured_nodes_are_unknown_until_they_report() -> None:
    drive = Driver(())
    drive.do(st.Boot(Epoch(2), "1.0", (), ("n7",)))
    assert drive.state.nodes["n7"].inventory is None
    drive.join("n7")
    assert drive.state.nodes["n7"].responding
    assert drive.orders(Replan)


def test_jobs_outlive_a_broken_connection() -> None:
    drive = Driver()
    number = running(drive)
    drive.do(st.AgentLost("n1"), 5)
    node = drive.state.nodes["n1"]
    assert (node.responding, node.since) == (False, drive.now)
    assert drive.last.events
    drive.do(st.AgentLost("n1"), 5)
    assert drive.last.events == ()
    drive.do(st.Tick(), 60)
    drive.join("n1", running=(Attempt(number, 1),))
    assert drive.job(number).status.state is JobState.RUNNING
    assert not drive.orders(LaunchOn) and not drive.orders(StopOn)
    drive.do(st.Tick(), 10_000)
    assert drive.job(number).status.state is JobState.RUNNING


def test_a_lease_that_is_over_requeues_or_fails() -> None:
    drive = Driver(lease_s=120)
    again, once = running(drive), drive.submit(requeue=False)
    drive.start(once, part(cpu_ids="1"))
    drive.do(st.AgentLost("n1"))
    drive.do(st.Tick(), 119)
    assert drive.job(again).status.state is JobState.RUNNING
    drive.do(st.Tick(), 1)
    assert (drive.job(again).status.state, drive.job(again).status.restarts) == (JobState.PENDING, 1)
    assert drive.job(once).status.state is JobState.NODE_FAIL
    assert "120 s" in drive.job(once).status.message
    assert drive.start(again) == 0
    assert drive.start(again, part("n2")) == again
    assert drive.job(again).status.attempt == 2
    drive.join("n1", running=(Attempt(again, 1),))
    assert drive.orders(StopOn) == [
        StopOn("n1", again, 1, 0, "the controller knows no such attempt"),
    ]


def test_survivors_of_a_gang_stop_before_it_starts_again() -> None:
    drive = Driver(lease_s=120)
    number = drive.submit(nodes_min=2, nodes_max=2)
    drive.start(number, part("n1"), part("n2"))
    drive.do(st.AgentLost("n1"))
    drive.do(st.Tick(), 200)
    status = drive.job(number).status
    assert (status.state, status.ending, status.parts_ended) == (JobState.COMPLETING, JobState.PENDING, ("n1",))
    assert [order.node for order in drive.orders(StopOn)] == ["n2"]
    assert drive.start(number, part("n3")) == 0
    drive.end(number, "n2", cause="stopped")
    assert drive.job(number).status.state is JobState.PENDING


def test_a_new_boot_id_means_all_attempts_there_are_dead() -> None:
    drive = Driver()
    number = running(drive)
    drive.join("n1", boot="boot-2")
    assert drive.job(number).status.state is JobState.PENDING
    assert drive.job(number).status.message == "node n1 was restarted"


def test_an_end_kept_through_a_reboot_counts() -> None:
    drive = Driver()
    number = running(drive)
    end = AttemptEnd(number, 1, "exited", 0, time=drive.now)
    drive.join("n1", boot="boot-2", ended=(end,))
    assert drive.job(number).status.state is JobState.COMPLETED
    assert drive.orders(AckOn) == [AckOn("n1", (Attempt(number, 1),))]


def test_an_unconfirmed_start_is_sent_again_a_confirmed_one_is_lost() -> None:
    drive = Driver()
    number = drive.submit()
    drive.start(number)
    drive.join("n1")
    assert drive.orders(LaunchOn) == [LaunchOn("n1", number, 1, 0)]
    drive.confirm(number)
    drive.join("n1")
    assert drive.job(number).status.state is JobState.PENDING
    assert not drive.orders(LaunchOn)


def test_heartbeats_are_given_time_before_something_counts_as_missing() -> None:
    drive = Driver()
    sent, seen = drive.submit(), drive.submit()
    drive.start(sent)
    drive.start(seen, part(cpu_ids="1"))
    drive.heartbeat("n1", seen)
    for _ in range(6):
        drive.heartbeat("n1")
        assert not drive.orders(LaunchOn)
    assert drive.job(seen).status.state is JobState.RUNNING
    drive.heartbeat("n1")
    assert [order.number for order in drive.orders(LaunchOn)] == [sent]
    drive.heartbeat("n1", sent)
    assert drive.job(seen).status.state is JobState.PENDING
    assert drive.job(sent).status.state is JobState.RUNNING


def test_strangers_are_stopped_at_once() -> None:
    drive = Driver()
    number = running(drive)
    strangers = (Attempt(number, 1), Attempt(number, 0), Attempt(number + 70, 1))
    drive.do(st.Reported("n1", strangers))
    assert [(order.number, order.attempt, order.kill_wait_s) for order in drive.orders(StopOn)] == [
        (number, 0, 0),
        (number + 70, 1, 0),
    ]
    drive.do(st.Reported("n2", (Attempt(number, 1),)))
    assert [order.node for order in drive.orders(StopOn)] == ["n2"]


def test_a_stop_that_the_node_missed_is_sent_again() -> None:
    drive = Driver()
    number = running(drive)
    drive.do(st.AgentLost("n1"))
    drive.act("cancel", number)
    drive.join("n1", running=(Attempt(number, 1),))
    assert [order.number for order in drive.orders(StopOn)] == [number]
    drive.do(st.AgentLost("n1"))
    drive.join("n1")
    assert drive.job(number).status.state is JobState.CANCELLED


def test_a_restarted_controller_knows_which_parts_of_a_gang_ended() -> None:
    drive = Driver()
    number = drive.submit(nodes_min=2, nodes_max=2, launch="tasks")
    drive.start(number, part("n1"), part("n2"))
    drive.end(number, "n2")
    assert drive.orders(AckOn)
    state = drive.replayed()
    assert fingerprint(state) == fingerprint(drive.state)
    drive.state = state
    drive.do(st.Boot(Epoch(2), "1.0", (), ()))
    assert not any(node.responding for node in drive.state.nodes.values())
    drive.join("n2")
    assert not drive.orders(LaunchOn)
    drive.join("n1", running=(Attempt(number, 1),))
    assert not drive.orders(LaunchOn)
    drive.end(number, "n1")
    assert drive.job(number).status.state is JobState.COMPLETED


def test_leases_start_anew_with_the_controller() -> None:
    drive = Driver(lease_s=100)
    number = running(drive)
    drive.do(st.AgentLost("n1"), 50)
    drive.do(st.Boot(Epoch(2), "1.0", (), ()), 10_000)
    drive.do(st.Tick(), 99)
    assert drive.job(number).status.state is JobState.RUNNING
    drive.do(st.Tick(), 1)
    assert drive.job(number).status.state is JobState.PENDING


def test_partitions_follow_the_configuration() -> None:
    drive = Driver()
    kept = drive.state.partitions["main"]
    new = Partition("new", all_nodes=True)
    drive.do(st.Boot(Epoch(2), "1.0", (kept, new), ()))
    assert drive.state.partitions["new"] == new
    assert not drive.state.partitions["short"].up
    number = drive.submit(partition="short")
    assert drive.start(number) == 0


def test_hardware_that_changes() -> None:
    drive = Driver()
    broken = inventory()
    gpus = (broken.gpus[0], msgspec.structs.replace(broken.gpus[1], fault="fell off the bus"))
    broken = msgspec.structs.replace(broken, gpus=gpus)
    drive.do(st.InventoryChanged("n1", broken))
    assert drive.orders(Replan)
    drive.do(st.InventoryChanged("n1", broken))
    assert drive.last.events == ()
    number = drive.submit()
    assert drive.start(number, part(gpus={1: 8})) == 0
    assert drive.start(number, part(gpus={0: 8})) == number


def test_drain_resume_and_remove() -> None:
    drive = Driver()
    number = running(drive)
    assert drive.drain("n1", who=ALICE).code == "not_permitted"
    assert drive.drain("n1", reason=" ").code == "bad_request"
    assert drive.drain("n[1-2", reason="x").code
    reply = drive.drain("n[1-2],n9", reason="dust\x1b[2J")
    assert [(result.target, result.error) for result in reply.results] == [("n1", ""), ("n2", ""), ("n9", "not_found")]
    drain = drive.state.nodes["n1"].drain
    assert drain is not None and "\x1b" not in drain.reason and (drain.who, drain.since) == ("olga", drive.now)
    assert drive.job(number).status.state is JobState.RUNNING
    assert [result.message for result in drive.resume("n[1-3]").results] == ["resumed", "resumed", "was not drained"]
    assert drive.remove("n1").results[0].error == "in_use"
    drive.do(st.AgentLost("n3"))
    assert drive.remove("n3").results[0].error == ""
    assert "n3" not in drive.state.nodes
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)
