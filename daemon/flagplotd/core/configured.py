"""Accounts, users, QoS and reservations of the configuration, brought into the state when the controller starts."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from flagplot_wire.policy import Association, Record, Reservation, kind_of
from flagplotd.core.apply import put_record, records_of
from flagplotd.core.records import check_partition, check_record
from flagplotd.core.reservations import check_apart, occurrence
from flagplotd.core.state import State
from flagplotd.core.stimuli import Boot


def wanted(state: State, boot: Boot, now: int) -> list[Record]:
    """The records that change with this configuration; raises `Refused` for one that fits nothing.

    They are checked together, so that their order does not matter. Reservations that ended are left out, and
    those that repeat are moved on. A configured default account takes the place of the one a user had.
    """
    records: list[Record] = []
    for record in boot.records:
        current = occurrence(record, now) if isinstance(record, Reservation) else record
        if current is not None:
            records.append(current)
    records += _no_longer_default(state, records)
    together = replace(
        state,
        accounts=dict(state.accounts),
        associations=dict(state.associations),
        qos=dict(state.qos),
        reservations=dict(state.reservations),
        partitions=state.partitions | {partition.name: partition for partition in boot.partitions},
        default_accounts=dict(state.default_accounts),
        jobs={},
        submitted={},
    )
    for record in records:
        put_record(together, record)
    for record in records:
        check_record(together, record)
        if isinstance(record, Reservation):
            check_apart(together, record)
    for partition in boot.partitions:
        check_partition(together, partition)
    return [record for record in records if records_of(state, kind_of(record)).get(record.key) != record]


def _no_longer_default(state: State, records: list[Record]) -> list[Record]:
    users = {record.user for record in records if isinstance(record, Association) and record.default}
    keys = {record.key for record in records if isinstance(record, Association)}
    return [
        msgspec.structs.replace(one, default=False)
        for one in state.associations.values()
        if one.default and one.user in users and one.key not in keys
    ]
