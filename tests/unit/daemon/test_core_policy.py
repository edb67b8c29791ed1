"""Accounts, users, QoS and partitions changed by people: what is done, what is refused and why."""

from __future__ import annotations

from typing import Any

import pytest
from support.core_kit import ALICE, BOB, OPERATOR, Driver, fingerprint

from flagplot_wire.policy import Account, Association, Limits, Qos
from flagplotd.core import keys
from flagplotd.core.state import Who

CARL = Who("carl", 1004, 1004)


def tree() -> Driver:
    drive = Driver()
    assert drive.change("add", "qos", "high", "low", priority="10") == ["added", "added"]
    drive.change("modify", "qos", "high", preempts="low", preempt_mode="requeue", grace="2m", user_max_gpus="4")
    drive.change("add", "account", "science", shares="3", coordinators="carl", max_gpus="16", qos="high,low")
    drive.change("add", "account", "physics", "optics", parent="science")
    drive.change("modify", "account", "optics", parent="physics")
    assert (
        drive.change("add", "user", "alice", "bob", account="physics") == ["added to physics, the default account"] * 2
    )
    return drive


def test_records_are_made_of_the_keys() -> None:
    drive = tree()
    assert drive.state.qos["high"] == Qos("high", 10, ("low",), "requeue", 120, user_limits=Limits(gpus=4))
    assert drive.state.accounts["science"] == Account(
        "science", shares=3, limits=Limits(gpus=16), qos=("high", "low"), coordinators=("carl",)
    )
    assert drive.state.accounts["optics"].parent == "physics"
    assert drive.state.associations["alice@physics"] == Association("alice", "physics", default=True)
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)


def test_a_right_over_jobs_that_nobody_preempts_is_told() -> None:
    drive = Driver()
    drive.change("add", "qos", "low")
    words = "; jobs of low are not preempted yet: give that QoS a preempt-mode"
    assert drive.change("add", "qos", "high", preempts="low") == ["added" + words]
    assert drive.change("modify", "qos", "high", priority="5") == ["changed priority" + words]
    assert drive.change("modify", "qos", "low", preempt_mode="cancel") == ["changed preempt-mode"]
    assert drive.change("modify", "qos", "high", priority="6") == ["changed priority"]


def test_every_key_reads_a_value_and_gives_its_default_back() -> None:
    samples = {
        "max-wall": "1-0", "max-time": "2:00:00", "default-time": "60", "duration": "60", "start": "2030-01-01T10:00",
        "end": "1900000000", "nodes": "n[1-2]", "state": "down", "default": "yes", "grace": "5m", "exempt": "1h",
        "preempt-mode": "cancel", "licenses": "matlab:2", "flags": "daily,flex", "max-mem": "64G",
        "user-max-mem": "1T", "account-max-mem": "0", "user-max-wall": "5", "account-max-wall": "5",
    }  # fmt: skip
    from flagplot_wire.node import Partition
    from flagplot_wire.policy import Reservation

    records: dict[Any, Any] = {
        "account": Account("a"), "user": Association("u", "a"), "qos": Qos("q"), "partition": Partition("p"),
        "reservation": Reservation("r", 5, 9),
    }  # fmt: skip
    for kind, table in keys.KEYS.items():
        for name, key in table.items():
            assert key.help and name == key.name
            if name == "duration":
                continue
            text = samples.get(name, "7")
            made = keys.changed(records[kind], kind, {name.upper().replace("-", "_"): text}, 100)
            assert made != records[kind], (kind, name)
            if name not in ("start", "end", "account"):
                assert keys.changed(made, kind, {name: ""}, 100) == records[kind], (kind, name)


def test_lists_grow_and_shrink() -> None:
    drive = tree()
    drive.change("modify", "account", "science", coordinators="+dora,carl")
    assert drive.state.accounts["science"].coordinators == ("dora", "carl")
    drive.change("modify", "account", "science", coordinators="-dora")
    assert drive.state.accounts["science"].coordinators == ("carl",)
    drive.change("modify", "account", "science", max_gpus="", coordinators="")
    assert drive.state.accounts["science"] == Account("science", shares=3, qos=("high", "low"))


@pytest.mark.parametrize(
    ("verb", "kind", "names", "values", "code", "words"),
    [
        ("modify", "account", ("physics",), {"max-gpu": "3"}, "bad_key", "'max-gpu' (did you mean 'max-gpus'?)"),
        ("modify", "account", ("physics",), {"max-gpus": "x"}, "bad_value", "max-gpus: 'x' is no whole number"),
        ("modify", "account", ("physics",), {"max-gpus": "2147483648"}, "bad_value", "the most is 2147483647"),
        ("modify", "account", ("physics",), {"max-mem": "4P"}, "bad_value", "too high"),
        ("modify", "account", ("physics",), {"shares": "0"}, "bad_value", "the least is 1"),
        ("modify", "account", ("physics",), {"max-gpus": "1", "MAX_GPUS": "2"}, "bad_key", "given twice"),
        ("modify", "account", ("physics",), {"parent": "scienc"}, "not_found", "did you mean 'science'?"),
        ("modify", "account", ("science",), {"parent": "optics"}, "account_loop", "science → optics → physics → science"),
        ("modify", "account", ("science",), {"parent": "science"}, "account_loop", "below itself"),
        ("modify", "account", ("root",), {"parent": "science"}, "bad_value", "no parent"),
        ("modify", "account", ("chemistry",), {"shares": "2"}, "not_found", "no account 'chemistry'"),
        ("modify", "account", ("physics",), {}, "bad_request", "nothing to change"),
        ("modify", "account", ("physics",), {"qos": "gold"}, "not_found", "'gold'"),
        ("modify", "account", ("physics",), {"qos": "low", "default-qos": "high"}, "bad_value", "not among those allowed"),
        ("add", "account", ("physics",), {}, "exists", "already"),
        ("add", "account", ("root",), {}, "exists", "already"),
        ("add", "account", ("a b",), {}, "bad_value", "is no name"),
        ("add", "account", (), {}, "bad_request", "no account is named"),
        ("remove", "account", ("science",), {}, "in_use", "physics is below it"),
        ("remove", "account", ("physics",), {}, "in_use", "optics is below it, and 2 more"),
        ("remove", "account", ("root",), {}, "in_use", "stays"),
        ("remove", "account", ("physics",), {"shares": "1"}, "bad_request", "no meaning"),
        ("modify", "qos", ("low",), {"preempts": "high"}, "bad_value", "preempt each other"),
        ("modify", "qos", ("low",), {"preempts": "low"}, "bad_value", "preempt each other"),
        ("modify", "qos", ("low",), {"preempt-mode": "kill"}, "bad_value", "there are: off, cancel"),
        ("modify", "qos", ("low",), {"grace": "soon"}, "bad_value", "grace: 'soon' is no time"),
        ("add", "qos", ("low",), {}, "exists", "already"),
        ("remove", "qos", ("low",), {}, "in_use", "account science names it, and 1 more"),
        ("remove", "qos", ("lo",), {}, "not_found", "did you mean 'low'?"),
        ("add", "user", ("dora",), {}, "bad_request", "which account"),
        ("add", "user", ("dora",), {"account": "fysics"}, "not_found", "did you mean 'physics'?"),
        ("add", "user", ("alice",), {"account": "physics"}, "exists", "already"),
        ("modify", "user", ("dora",), {"shares": "2"}, "not_found", "no user 'dora'"),
        ("modify", "user", ("alice",), {"account": "optics", "shares": "2"}, "not_found", "not in account optics"),
        ("modify", "user", ("alice@physics",), {"account": "optics", "shares": "2"}, "bad_request", "not in optics"),
        ("modify", "user", ("alice",), {"default": "no"}, "bad_value", "the default account"),
        ("modify", "user", ("alice",), {"default": "maybe"}, "bad_value", "neither yes nor no"),
        ("modify", "user", ("alice",), {"account": "physics"}, "bad_request", "nothing to change"),
        ("add", "partition", ("new",), {}, "bad_value", "has no nodes"),
        ("add", "partition", ("new",), {"nodes": "n[1-4]"}, "not_found", "'n4'"),
        ("add", "partition", ("new",), {"nodes": "n[1"}, "bad_value", "bracket"),
        ("add", "partition", ("main",), {"nodes": "ALL"}, "exists", "already"),
        ("modify", "partition", ("short",), {"default-time": "2:00:00"}, "bad_value", "longer than its longest"),
        ("modify", "partition", ("short",), {"state": "off"}, "bad_value", "up or down"),
        ("modify", "partition", ("short",), {"qos": "gold"}, "not_found", "'gold'"),
        ("modify", "partition", ("short",), {"allow-accounts": "gold"}, "not_found", "'gold'"),
        ("modify", "partition", ("shor",), {"tier": "3"}, "not_found", "did you mean 'short'?"),
    ],
)  # fmt: skip
def test_refusals(verb: str, kind: str, names: tuple[str, ...], values: dict[str, str], code: str, words: str) -> None:
    drive = tree()
    before = fingerprint(drive.state)
    told = drive.change(verb, kind, *names, **values)[0]
    assert told.startswith(f"{code}: ") and words in told, told
    assert drive.last.events == () and fingerprint(drive.state) == before


def test_who_may() -> None:
    drive = tree()
    assert "only admins change accounts" in drive.change("add", "account", "x", who=OPERATOR)[0]
    assert "only admins change QoS" in drive.change("add", "qos", "x", who=CARL)[0]
    assert "only operators change partitions" in drive.change("add", "partition", "x", who=ALICE, nodes="ALL")[0]
    assert drive.change("add", "partition", "x", who=OPERATOR, nodes="ALL") == ["added"]
    assert drive.state.partitions["x"].added_by == "olga"
    for who in (ALICE, OPERATOR):
        assert "only admins and the coordinators" in drive.change("modify", "user", "alice", who=who, shares="9")[0]


def test_coordinators_change_users_below_them() -> None:
    drive = tree()
    assert drive.change("add", "user", "dora", who=CARL, account="optics", max_gpus="2") == [
        "added to optics, the default account"
    ]
    assert drive.change("modify", "user", "dora@optics", who=CARL, qos="low") == ["changed qos"]
    assert "only admins give a user priority" in drive.change("modify", "user", "dora", who=CARL, priority="9")[0]
    drive.change("add", "qos", "gold")
    assert "may not use QoS gold" in drive.change("modify", "user", "dora", who=CARL, qos="gold")[0]
    assert drive.change("modify", "user", "dora", qos="gold") == ["changed qos"]
    assert drive.change("modify", "user", "dora", who=CARL, shares="2") == ["changed shares"], (
        "what an admin gave stays"
    )
    assert "bad_value" in drive.change("add", "user", "fred", account="optics", default="no")[0]
    assert (
        "not among those allowed, high, low"
        in drive.change("add", "user", "fred", account="optics", default_qos="gold")[0]
    )
    drive.change("add", "account", "art")
    assert "alice" in drive.state.default_accounts and "fred" not in drive.state.default_accounts
    assert "not_permitted" in drive.change("add", "user", "dora", who=CARL, account="art")[0]
    drive.change("add", "user", "eve", account="art")
    assert (
        "art is the default account of eve"
        in drive.change("add", "user", "eve", who=CARL, account="optics", default="yes")[0]
    )
    assert drive.change("remove", "user", "dora", who=CARL) == ["removed from optics"]


def test_a_user_has_one_default_account() -> None:
    drive = tree()
    assert drive.change("add", "user", "alice", account="optics") == ["added to optics"]
    assert drive.submit(ALICE) and drive.job(1).spec.account == "physics"
    assert "several accounts: physics, optics" in drive.change("modify", "user", "alice", shares="2")[0]
    assert drive.change("modify", "user", "alice@optics", default="yes") == ["changed default"]
    assert [one.default for one in drive.state.associations.values() if one.user == "alice"] == [False, True]
    assert drive.job(drive.submit(ALICE)).spec.account == "optics"
    assert "alice has 1 pending and running jobs in account optics" in drive.change("remove", "user", "alice@optics")[0]
    drive.act("cancel", 2)
    assert "optics is the default account of alice" in drive.change("remove", "user", "alice@optics")[0]
    drive.act("cancel", 1)
    assert drive.change("remove", "user", "alice") == ["removed from optics, physics"]
    assert drive.state.default_accounts == {"bob": "physics"}


def test_what_live_jobs_are_in_stays() -> None:
    drive = tree()
    drive.change("modify", "account", "root", max_jobs="100")
    number = drive.submit(BOB, qos="low", partition="short")
    drive.change("add", "account", "art")
    drive.change("modify", "account", "science", parent="art")
    assert drive.state.submitted["account:art"] == 1
    assert "1 pending and running jobs have it" in drive.change("remove", "qos", "low")[0]
    assert "in account physics" in drive.change("remove", "user", "bob")[0]
    assert "has 1 jobs, the first is 1" in drive.change("remove", "partition", "short", who=OPERATOR)[0]
    drive.act("cancel", number, who=BOB)
    assert drive.change("remove", "partition", "short", who=OPERATOR) == ["removed"]
    assert drive.change("remove", "user", "alice", "bob") == ["removed from physics"] * 2
    assert drive.change("remove", "account", "optics", "physics", "science", "art") == ["removed"] * 4
    assert "QoS high preempts it" in drive.change("remove", "qos", "low")[0]
    assert drive.change("remove", "qos", "high", "low") == ["removed"] * 2
    assert drive.state.submitted == {} and fingerprint(drive.replayed()) == fingerprint(drive.state)


def test_one_default_partition() -> None:
    drive = Driver()
    assert drive.change("modify", "partition", "short", who=OPERATOR, default="yes", max_nodes="1") == [
        "changed default, max-nodes"
    ]
    assert [one.name for one in drive.state.partitions.values() if one.default] == ["short"]
    assert drive.job(drive.submit()).spec.partition == "short"


def test_one_refusal_does_not_stop_the_rest() -> None:
    drive = tree()
    told = drive.change("add", "account", "art", "physics", "music")
    assert [one.split(":")[0] for one in told] == ["added", "exists", "added"]
