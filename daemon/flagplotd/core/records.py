"""What an account, association, QoS, partition or reservation must be, whoever asks for it: people or the configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from flagplot_wire.errors import Refused
from flagplot_wire.node import Partition
from flagplot_wire.policy import ROOT, Account, Association, Qos, Record, Reservation
from flagplot_wire.text import clean
from flagplot_wire.units import format_duration, format_limit
from flagplotd.core.keys import near
from flagplotd.core.limits import account_of, allowed_qos, chain
from flagplotd.core.state import State

R = TypeVar("R")


def check_record(state: State, record: Record) -> None:
    """Refuse a record that contradicts itself or names something that is not there."""
    match record:
        case Account():
            _check_account(state, record)
        case Association():
            _check_association(state, record)
        case Qos():
            _check_qos(state, record)
        case Reservation():
            _check_reservation(state, record)


def known(what: str, names: Iterable[str], there: Collection[str], whose: str) -> None:
    """Refuse names that are not there; `what` is a word for them, `whose` says who names them."""
    for name in names:
        if name not in there:
            hint = near(name, there) if there else f"there is no {what} at all yet: add it first"
            raise Refused("not_found", f"{whose} names {what} {clean(name)!r}, which is not there", hint)


def find(what: str, name: str, there: Mapping[str, R]) -> R:
    """A record by name; raises `Refused` with the nearest one."""
    found = there.get(name)
    if found is None:
        hint = near(name, there) if there else f"there is no {what} at all"
        raise Refused("not_found", f"there is no {what} {clean(name)!r}", hint)
    return found


def _check_account(state: State, account: Account) -> None:
    whose = f"account {account.name}"
    if account.name == ROOT:
        if account.parent:
            raise Refused("bad_value", "the account root is above all others: it has no parent")
    else:
        known("account", (account.parent,), (ROOT, *state.accounts), whose)
        way = chain(state, account.parent)
        if account.name in way:
            circle = " → ".join([account.name, *way[: way.index(account.name) + 1]])
            raise Refused("account_loop", f"{whose} would be below itself: {circle}", "choose another parent")
    known("QoS", (*account.qos, *((account.default_qos,) if account.default_qos else ())), state.qos, whose)


def _check_association(state: State, association: Association) -> None:
    whose = f"user {association.user} in account {association.account}"
    if account_of(state, association.account) is None:
        known("account", (association.account,), state.accounts, whose)
    default = (association.default_qos,) if association.default_qos else ()
    known("QoS", (*association.qos, *default), state.qos, whose)


def check_default_qos(state: State, record: Account | Association) -> None:
    """Refuse a default QoS that is not allowed. For people alone: where the accounts above change later it is passed
    over (`limits.default_qos`)."""
    if isinstance(record, Account):
        whose, above = f"account {record.name}", record.parent
    else:
        whose, above = f"user {record.user} in account {record.account}", record.account
    allowed = record.qos or allowed_qos(state, "", above)
    if record.default_qos and allowed and record.default_qos not in allowed:
        raise Refused(
            "bad_value",
            f"{whose}: the default QoS {record.default_qos} is not among those allowed, {', '.join(allowed)}",
            "allow it, or choose another default-qos",
        )


def _check_qos(state: State, qos: Qos) -> None:
    known("QoS", qos.preempts, (*state.qos, qos.name), f"QoS {qos.name}")
    seen, left = set[str](), list(qos.preempts)
    while left:
        name = left.pop()
        if name == qos.name:
            raise Refused("bad_value", f"QoS {name}: jobs of it would preempt each other", "take it out of preempts")
        if name not in seen:
            seen.add(name)
            left += state.qos[name].preempts if name in state.qos else ()


def check_partition(state: State, partition: Partition) -> None:
    """Refuse a partition that contradicts itself or names something that is not there."""
    whose = f"partition {partition.name}"
    known("QoS", (*partition.allow_qos, *((partition.qos,) if partition.qos else ())), state.qos, whose)
    known("account", partition.allow_accounts, (ROOT, *state.accounts), whose)
    if partition.max_time_s and partition.default_time_s > partition.max_time_s:
        raise Refused(
            "bad_value",
            f"{whose}: its default time {format_limit(partition.default_time_s)} is longer than its longest, "
            f"{format_limit(partition.max_time_s)}",
        )


def _check_reservation(state: State, reservation: Reservation) -> None:
    whose = f"reservation {reservation.name}"
    length = reservation.end - reservation.start
    if length <= 0:
        raise Refused("bad_value", f"{whose} ends before it starts", "give an end after its start, or a duration")
    if reservation.repeat_s and length > reservation.repeat_s:
        raise Refused(
            "bad_value",
            f"{whose} lasts {format_duration(length)}: it would begin again, after "
            f"{format_duration(reservation.repeat_s)}, before it ends",
            "make it shorter",
        )
    known("account", reservation.accounts, (ROOT, *state.accounts), whose)
    known("partition", (reservation.partition,) if reservation.partition else (), state.partitions, whose)
    there = dict(state.settings.licenses)
    known("license", (name for name, _ in reservation.licenses), there, whose)
    for name, count in reservation.licenses:
        if count > there[name]:
            raise Refused("bad_value", f"{whose} wants {count} of the {there[name]} licenses {name}")
    if not (reservation.nodes or reservation.all_nodes or reservation.partition or reservation.licenses):
        raise Refused("bad_value", f"{whose} reserves nothing", "give nodes, a partition or licenses")
    if not (reservation.nodes or reservation.all_nodes or reservation.partition) and (
        reservation.cores is not None or reservation.gpus is not None
    ):
        raise Refused("bad_value", f"{whose}: cores and gpus are of nodes, and it has none", "give nodes")
