"""Reboots: asked for, ordered when the node holds no jobs, done with another boot, told when they fail."""

from __future__ import annotations

from support.core_kit import ALICE, OPERATOR, Driver

from flagplot_wire.node import Drain
from flagplot_wire.requests import RebootNodes
from flagplotd.core import stimuli as st
from flagplotd.core.orders import RebootOn, StopOn
from flagplotd.core.reboots import AGAIN_S
from flagplotd.core.state import Who


def ask(drive: Driver, *nodes: str, who: Who = OPERATOR, reason: str = "new kernel") -> object:
    return drive.do(st.Reboot(who, RebootNodes(nodes, reason))).reply


def drain_of(drive: Driver, name: str = "n1") -> Drain | None:
    return drive.state.nodes[name].drain


def test_a_node_reboots_when_its_last_job_has_ended_and_comes_back_into_service() -> None:
    drive = Driver()
    number = drive.submit()
    drive.start(number)
    drive.confirm(number)
    told = ask(drive, "n[1-2]")
    assert [(one.target, one.message) for one in told.results] == [  # type: ignore[attr-defined]
        ("n1", "reboots when its 1 job ended"), ("n2", "reboots now"),
    ]  # fmt: skip
    drive.heartbeat("n1", number)
    assert drive.orders(RebootOn) == [] and drain_of(drive).reboot == "asked"  # type: ignore[union-attr]
    drive.heartbeat("n2")
    assert drive.orders(RebootOn) == [RebootOn("n2", "new kernel")]
    drive.end(number)
    drive.heartbeat("n1")
    assert drive.orders(RebootOn) == [RebootOn("n1", "new kernel")] and not drive.orders(StopOn)
    assert drain_of(drive) == Drain(
        "new kernel", OPERATOR.user, drain_of(drive).since, reboot="ordered", ordered=drive.now
    )  # type: ignore[union-attr]
    drive.do(st.AgentLost("n1"))
    drive.join("n1", boot="boot-1")
    assert drain_of(drive) is not None
    drive.do(st.AgentLost("n1"))
    drive.join("n1", boot="boot-2")
    assert drain_of(drive) is None and drive.last.events[0].cause == "rebooted"  # type: ignore[union-attr]
    assert drive.replayed().nodes == drive.state.nodes


def test_an_order_without_an_answer_is_sent_again() -> None:
    drive = Driver()
    ask(drive, "n1")
    drive.heartbeat("n1")
    drive.heartbeat("n1")
    assert drive.orders(RebootOn) == []
    drive.heartbeat("n1", after=AGAIN_S)
    assert drive.orders(RebootOn) == [RebootOn("n1", "new kernel")] and drive.last.events == ()


def test_a_drained_node_stays_drained_after_it() -> None:
    drive = Driver()
    drive.drain("n1", reason="bad riser")
    ask(drive, "n1")
    before = drain_of(drive)
    assert before is not None and (before.reason, before.reboot, before.stays) == ("bad riser", "asked", True)
    drive.heartbeat("n1")
    drive.join("n1", boot="boot-2")
    assert drain_of(drive) == Drain("bad riser", before.who, before.since)


def test_a_failed_reboot_leaves_the_node_drained_and_says_why() -> None:
    drive = Driver()
    ask(drive, "n1")
    drive.do(st.RebootFailed("n1", "too early"))
    assert drain_of(drive).reboot == "asked"  # type: ignore[union-attr]
    drive.heartbeat("n1")
    drive.do(st.RebootFailed("n1", "/sbin/reboot ended with exit code 1"))
    found = drain_of(drive)
    assert found is not None and not found.reboot
    assert found.reason == "new kernel; did not reboot: /sbin/reboot ended with exit code 1"
    drive.heartbeat("n1")
    assert drive.orders(RebootOn) == []


def test_it_is_given_up_before_the_order_and_not_after() -> None:
    drive = Driver()
    ask(drive, "n1")
    assert drive.resume("n1").results[0].message == "resumed" and drain_of(drive) is None
    drive.heartbeat("n1")
    assert drive.orders(RebootOn) == []
    ask(drive, "n1")
    drive.heartbeat("n1")
    refused = drive.resume("n1").results[0]
    assert refused.error == "in_use" and "drain it anew" in refused.message
    drive.drain("n1", reason="it hangs")
    assert drive.resume("n1").results[0].message == "resumed"


def test_who_may_and_what_is_wrong() -> None:
    drive = Driver()
    drive.do(st.Boot(drive.state.epoch, "1.0", (), ("n9",)))
    assert ask(drive, "n1", who=ALICE).code == "not_permitted"  # type: ignore[attr-defined]
    assert ask(drive, "n1", reason=" ").code == "bad_request"  # type: ignore[attr-defined]
    results = ask(drive, "n1,n9,nowhere").results  # type: ignore[attr-defined]
    assert [one.error for one in results] == ["", "not_found", "not_found"]
    assert ask(drive, "n1").results[0].message == "is to reboot already"  # type: ignore[attr-defined]
