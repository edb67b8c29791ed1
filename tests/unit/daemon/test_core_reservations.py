"""Reservations: contradictions with each other and with jobs, and their passing."""

from __future__ import annotations

from random import Random

import pytest
from support.core_kit import ALICE, BOB, OPERATOR, Driver, fingerprint, part

from flagplot_wire.policy import Reservation
from flagplotd.core import reservations
from flagplotd.core import stimuli as st
from flagplotd.core.orders import Replan

HOUR, DAY, WEEK = 3_600, 86_400, 7 * 86_400


class Booked(Driver):
    """A driver whose operator reserves."""

    def reserve(self, name: str, verb: str = "add", **values: str) -> str:
        return self.change(verb, "reservation", name, who=OPERATOR, **values)[0]


@pytest.fixture
def drive() -> Booked:
    return Booked(licenses=(("matlab", 4),))


def test_a_reservation_in_slurms_words(drive: Booked) -> None:
    drive.change("add", "account", "physics")
    told = drive.reserve(
        "class", start="now+1hour", duration="2:00:00", nodes="n[1-2]", gpus="1", users="alice,bob",
        accounts="physics", licenses="matlab:2", flags="FLEX,daily", comment="course",
    )  # fmt: skip
    assert told == "added"
    start = drive.now + HOUR
    assert drive.state.reservations["class"] == Reservation(
        "class", start, start + 2 * HOUR, ("n1", "n2"), gpus=1, licenses=(("matlab", 2),), users=("alice", "bob"),
        accounts=("physics",), flex=True, repeat_s=DAY, comment="course",
    )  # fmt: skip
    assert drive.reserve("class", "modify", end="1970-01-12T20:00:00+01:00", users="-bob") == "changed end, users"
    assert drive.state.reservations["class"].end == 11 * DAY + 19 * HOUR
    assert drive.state.reservations["class"].users == ("alice",)
    assert "changed duration" in drive.reserve("class", "modify", duration="1:00:00")
    assert drive.state.reservations["class"].end == start + HOUR
    assert drive.reserve("class", "remove") == "removed" and drive.orders(Replan)
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nodes": "n1"}, "has no end"),
        ({"nodes": "n1", "end": "now"}, "ends before it starts"),
        ({"nodes": "n1", "start": "now+2hours", "end": "now+1hour"}, "ends before it starts"),
        ({"nodes": "n1", "start": "999000", "end": "999999"}, "would be over already"),
        ({"nodes": "n1", "end": "now+1hour", "duration": "5"}, "not both"),
        ({"nodes": "n1", "duration": "2-0", "flags": "daily"}, "before it ends"),
        ({"nodes": "n1", "duration": "1:00", "flags": "daily,weekly"}, "not both"),
        ({"nodes": "n1", "duration": "1:00", "flags": "often"}, "there are: flex, ignore_jobs, maint"),
        ({"nodes": "n1", "duration": "soon"}, "duration: 'soon' is no time limit"),
        ({"nodes": "n1", "start": "whenever", "duration": "5"}, "start: 'whenever' is no time"),
        ({"nodes": "n1", "end": "99999999999999"}, "the most is 2147483647"),
        ({"nodes": "n[1-7]", "duration": "5"}, "'n4'"),
        ({"duration": "5"}, "reserves nothing"),
        ({"duration": "5", "licenses": "ansys"}, "'ansys'"),
        ({"duration": "5", "licenses": "matlab:5"}, "5 of the 4"),
        ({"duration": "5", "licenses": "matlab", "cores": "2"}, "it has none"),
        ({"duration": "5", "partition": "lost"}, "'lost'"),
        ({"duration": "5", "nodes": "n1", "accounts": "lost"}, "names account 'lost'"),
        ({"duration": "5", "nodes": "n1", "cores": "5"}, "n1 has 4 cores, 5 are wanted"),
        ({"duration": "5", "nodes": "n1", "gpus": "3"}, "n1 has 2 GPUs, 3 are wanted"),
    ],
)
def test_refusals(drive: Booked, values: dict[str, str], words: str) -> None:
    told = drive.reserve("r", **values)
    assert words in told, told
    assert drive.last.events == ()


def test_overlaps(drive: Booked) -> None:
    drive.reserve("one", start="now+1hour", duration="60", nodes="n[1-2]")
    assert "n2 is reserved by one then" in drive.reserve("two", start="now+30", duration="60", nodes="n[2-3]")
    assert drive.reserve("two", start="now+2hours", duration="60", nodes="n[2-3]") == "added"
    assert drive.reserve("three", start="now+1hour", duration="60", nodes="n3") == "added"
    assert "n[1-2] is reserved by one" in drive.reserve("four", start="now+1hour", duration="5", partition="main")[:80]
    assert drive.reserve("fix", start="now+1hour", duration="9:00:00", nodes="ALL", flags="maint") == "added"
    assert "is reserved by two" in drive.reserve("one", "modify", duration="3:00:00")
    assert drive.reserve("one", "modify", comment="still") == "changed comment"


def test_parts_of_nodes_share_them(drive: Booked) -> None:
    for name in ("a", "b"):
        assert drive.reserve(name, duration="60", nodes="n1", gpus="1", cores="2") == "added"
    assert "n1 has 2 GPUs, 3 are wanted" in drive.reserve("c", duration="60", nodes="n1", gpus="1")
    assert "n1 has 4 cores, 5 are wanted" in drive.reserve("c", duration="60", nodes="n1", cores="1")
    assert "reserved by a" in drive.reserve("c", duration="60", nodes="n1")


def test_jobs_that_run_into_it(drive: Booked) -> None:
    number = drive.submit(time_limit_s=7_200)
    drive.start(number, part("n1", "0-1", 2, gpus={0: 8}))
    assert "job 1 on n1 may run longer" in drive.reserve("r", start="now+1hour", duration="60", nodes="n[1-2]")
    assert drive.reserve("r", start="now+2hours", duration="60", nodes="n[1-2]") == "added"
    assert "job 1 on n1" in drive.reserve("r", "modify", start="now+1hour")
    assert drive.reserve("r", "modify", start="now+1hour", flags="ignore_jobs") == "changed start, flags"
    assert "job 1 on n1" in drive.reserve("r", "modify", flags="")
    assert drive.reserve("r", "modify", nodes="n[2-3]", flags="") == "changed nodes, flags"
    assert drive.reserve("half", duration="60", nodes="n1", gpus="1", cores="2") == "added"
    drive.reserve("half", "remove")
    assert "n1 has 2 GPUs, 3 are wanted with those of running jobs" in drive.reserve(
        "all", duration="60", nodes="n1", gpus="2"
    )
    drive.reserve("r", "remove")
    endless = drive.submit()
    drive.start(endless, part("n2", "0"))
    assert "job 2 on n2" in drive.reserve("later", start="2027-01-01", duration="60", nodes="n2")


def test_only_operators_reserve_and_named_ones_stay(drive: Booked) -> None:
    assert "only operators" in drive.change("add", "reservation", "r", who=BOB, nodes="n1", duration="5")[0]
    drive.reserve("r", duration="60", nodes="n1", users="alice")
    assert "already" in drive.reserve("r", duration="60", nodes="n1")
    number = drive.submit(ALICE, reservation="r")
    assert f"reservation r is named by job {number}" in drive.reserve("r", "remove")
    drive.act("cancel", number)
    assert drive.reserve("r", "remove") == "removed"
    assert "no reservation 'r'" in drive.reserve("r", "remove")


def test_it_begins_ends_and_repeats(drive: Booked) -> None:
    drive.reserve("once", start="now+100", duration="5", nodes="n1")
    drive.reserve("daily", start="now+100", duration="5", nodes="n2", flags="daily")
    drive.do(st.Tick(), 99)
    assert (drive.last.events, drive.orders(Replan)) == ((), [])
    drive.do(st.Tick(), 1)
    assert (drive.last.events, len(drive.orders(Replan))) == ((), 1)
    drive.do(st.Tick(), 1)
    assert not drive.orders(Replan)
    drive.do(st.Tick(), 299)
    assert list(drive.state.reservations) == ["daily"] and drive.orders(Replan)
    moved = drive.state.reservations["daily"]
    assert (moved.start, moved.end) == (1_000_100 + DAY, 1_000_400 + DAY)
    drive.do(st.Tick(), 10 * DAY)
    assert drive.state.reservations["daily"].start == 1_000_100 + 11 * DAY
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)


@pytest.mark.parametrize("seed", range(3))
def test_meet_equals_trying_every_occurrence(seed: int) -> None:
    chance = Random(seed)
    periods = (0, 0, 12, 20, 30)

    def some() -> Reservation:
        repeat = chance.choice(periods)
        start = chance.randrange(60)
        return Reservation("r", start, start + chance.randrange(1, (repeat or 15) + 1), repeat_s=repeat)

    def times(one: Reservation) -> list[tuple[int, int]]:
        turns = range(60) if one.repeat_s else range(1)
        return [(one.start + turn * one.repeat_s, one.end + turn * one.repeat_s) for turn in turns]

    outcomes = set()
    for _ in range(400):
        one, other = some(), some()
        expected = any(a < d and c < b for a, b in times(one) for c, d in times(other))
        assert reservations.meet(one, other) is expected, (seed, one, other)
        outcomes.add(expected)
    assert outcomes == {True, False}
