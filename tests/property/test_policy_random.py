"""Accounts, users, QoS, partitions, reservations and jobs changed at random.

After every step the invariants hold (the driver checks them), what is refused changes nothing, every record fits
those around it, and the journal alone brings the state back.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from support.core_kit import ADMIN, ALICE, BOB, OPERATOR, Driver, fingerprint, part

from flagplot_wire.replies import Acted, Failure
from flagplot_wire.requests import ChangePolicy
from flagplotd.core import stimuli as st
from flagplotd.core.limits import chain, limit_chain, scopes
from flagplotd.core.records import check_partition, check_record
from flagplotd.core.state import Who

ACCOUNTS, USERS, QOS = ("a", "b", "c", "d", "root"), ("alice", "bob", "eve"), ("q1", "q2", "q3")
PARTITIONS, RESERVATIONS = ("main", "short", "p"), ("r1", "r2")


def some_change(chance: Random) -> ChangePolicy:
    """A change that is often right, and often not."""
    kind: Any = chance.choice(("account", "account", "user", "user", "qos", "partition", "reservation"))
    verb: Any = chance.choice(("add", "add", "modify", "modify", "remove"))
    names = {"account": ACCOUNTS, "user": USERS, "qos": QOS, "partition": PARTITIONS, "reservation": RESERVATIONS}
    texts: dict[str, tuple[str, ...]] = {
        "parent": ACCOUNTS, "account": ACCOUNTS, "qos": (*QOS, "", "q1,q2"), "default-qos": (*QOS, ""),
        "default": ("yes", "no"), "max-submit": ("3", "50", ""), "max-gpus": ("0", "2", ""), "max-wall": ("1", ""),
        "preempts": QOS, "user-max-submit": ("1", ""), "allow-accounts": (*ACCOUNTS, ""), "allow-qos": (*QOS, ""),
        "coordinators": ("eve", ""), "start": ("now+1hour", "now+1day"), "duration": ("1:00:00",), "cores": ("1", ""),
        "users": ("alice",), "partition": (*PARTITIONS, ""), "flags": ("daily", "maint", ""), "state": ("up", "down"),
    }  # fmt: skip
    of = {
        "account": ("parent", "qos", "default-qos", "max-submit", "max-gpus", "max-wall", "coordinators"),
        "user": ("account", "default", "qos", "default-qos", "max-submit"),
        "qos": ("preempts", "max-submit", "user-max-submit", "max-gpus"),
        "partition": ("qos", "allow-accounts", "allow-qos", "default", "state"),
        "reservation": ("start", "duration", "cores", "users", "partition", "flags"),
    }[kind]
    values = {key: chance.choice(texts[key]) for key in chance.sample(of, chance.randrange(3))}
    if kind == "user" and chance.random() < 0.9:
        values["account"] = chance.choice(ACCOUNTS)
    if kind in ("partition", "reservation") and verb == "add":
        values |= {"nodes": chance.choice(("n1", "n[1-2]", "ALL"))}
    if kind == "reservation" and verb == "add":
        values["duration"] = "1:00:00"
    if verb == "remove":
        values = {key: value for key, value in values.items() if kind == "user" and key == "account"}
    return ChangePolicy(verb, kind, (chance.choice(names[kind]),), values)


def check_fits(drive: Driver) -> None:
    """Every record fits the others, users have one default account, and accounts make a tree."""
    state = drive.state
    for account in state.accounts.values():
        check_record(state, account)
        assert chain(state, account.name)[-1] == "root"
    for record in (*state.qos.values(), *state.reservations.values()):
        check_record(state, record)
    for partition in state.partitions.values():
        check_partition(state, partition)
    users = {one.user for one in state.associations.values()}
    assert users == set(state.default_accounts)
    for association in state.associations.values():
        assert association.account in {*state.accounts, "root"}
    for number in (*state.pending, *state.active):
        job = state.jobs[number]
        keys = [key for _, key, _ in limit_chain(state, job.user, job.spec)]
        assert set(keys) <= set(scopes(state, job.user, job.spec)) and len(keys) == len(set(keys))


@pytest.mark.parametrize("seed", range(6))
def test_random_changes(seed: int) -> None:
    chance = Random(seed)
    drive = Driver(enforce=chance.choice(("limits", "associations")))
    outcomes: Counter[str] = Counter()
    for _ in range(500):
        before = fingerprint(drive.state)
        pick = chance.random()
        if pick < 0.5:
            who = chance.choice((ADMIN, ADMIN, ADMIN, OPERATOR, Who("eve", 1_009)))
            reply = drive.do(st.ChangeRecords(who, some_change(chance))).reply
            assert isinstance(reply, Acted | Failure)
            code = reply.code if isinstance(reply, Failure) else reply.results[0].error
            outcomes[code or "done"] += 1
            assert not code or (drive.last.events == () and fingerprint(drive.state) == before), (seed, code)
        elif pick < 0.8:
            reply = drive.try_submit(
                chance.choice((ALICE, BOB)), array=chance.choice(("", "", "0-2")),
                account=chance.choice(("", "", *ACCOUNTS)), qos=chance.choice(("", "", *QOS)),
                partition=chance.choice(("", "main", "p", "short")),
            )  # fmt: skip
            outcomes["refused" if isinstance(reply, Failure) else "submitted"] += 1
        elif pick < 0.9 and drive.state.pending:
            number = drive.start(chance.choice(sorted(drive.state.pending)), part("n1", str(chance.randrange(4))))
            if number and chance.random() < 0.7:
                drive.end(number)
        elif drive.state.pending:
            number = chance.choice(sorted(drive.state.pending))
            if chance.random() < 0.5:
                drive.update(number, who=OPERATOR, account=chance.choice(ACCOUNTS), partition=chance.choice(PARTITIONS))
            else:
                drive.act("cancel", number, who=OPERATOR)
        drive.do(st.Tick(), chance.choice((0, 1, 600)))
        check_fits(drive)
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)
    assert {"done", "in_use", "exists", "not_found", "refused", "submitted"} <= set(outcomes), (seed, outcomes)
