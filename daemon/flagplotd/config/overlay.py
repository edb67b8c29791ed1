"""A file of other settings laid over a configuration, for what-if questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from flagplot_wire.policy import kind_of
from flagplotd.config import Config, config_of, read_file
from flagplotd.core.state import Settings
from flagplotd.sched.plan import Policy


def laid_over(base: Config, path: Path) -> Config:
    """The configuration with what the file says of scheduling. Single settings replace single settings; a partition,
    account, user, QoS or reservation replaces the one of its name. Raises `Refused` naming the file and the key."""
    data = read_file(path)
    over = config_of(path, data)
    tables = ("controller", "limits", "preemption")
    given = {key for table in tables for key in data.get(table, {}) if key in Settings.__struct_fields__}
    given |= {"licenses"} if "licenses" in data else set()
    given |= {"switches"} if {"switch", "block"} & data.keys() else set()
    records = {(kind_of(record), record.key): record for record in (*base.records, *over.records)}
    partitions = {one.name: one for one in base.partitions} if base.names_partitions else {}
    if over.names_partitions:
        partitions |= {one.name: one for one in over.partitions}
    return msgspec.structs.replace(
        base,
        settings=msgspec.structs.replace(base.settings, **_taken(over.settings, given)),
        policy=msgspec.structs.replace(base.policy, **_taken(over.policy, data.get("scheduler", {}))),
        partitions=tuple(partitions.values()) or base.partitions,
        records=tuple(records.values()),
        names_partitions=base.names_partitions or over.names_partitions,
    )


def _taken(record: Settings | Policy, names: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}
