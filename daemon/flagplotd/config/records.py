"""Partitions, accounts, users, QoS and reservations of the file, through the same keys that people use."""

from __future__ import annotations

from datetime import date
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from flagplot_wire.node import Partition
from flagplot_wire.policy import ROOT, Account, Association, Qos, Record, Reservation
from flagplotd.config.tables import Tables
from flagplotd.core import values
from flagplotd.core.keys import KEYS, Kinds, with_fields

R = TypeVar("R", bound=Struct)
_OTHER_NAMES = {"priority-tier": "tier", "up": "state"}
"""Keys of `[[partition]]` that have another name among people's."""


def read_partitions(tables: Tables, data: dict[str, Any]) -> tuple[Partition, ...]:
    """Every `[[partition]]`; without nodes it has them all."""
    found: list[Partition] = []
    for entry in tables.entries(data, "partition"):
        kept = {key: value for key, value in entry.items() if key != "name"}
        name = _name(tables, "partition", entry)
        found.append(_fields(tables, "partition", Partition(name, all_nodes="nodes" not in entry), kept))
    names = [partition.name for partition in found]
    for name in names:
        if names.count(name) > 1:
            raise tables.bad("partition.name", f"two partitions are called {name!r}")
    if sum(partition.default for partition in found) > 1:
        raise tables.bad("partition.default", "more than one partition is the default")
    return tuple(found)


def read_records(tables: Tables, data: dict[str, Any]) -> tuple[Record, ...]:
    """Every `[[account]]`, `[[user]]`, `[[qos]]` and `[[reservation]]`."""
    records: list[Record] = []
    for entry in tables.entries(data, "qos"):
        records.append(_fields(tables, "qos", Qos(_name(tables, "qos", entry)), _rest(entry)))
    for entry in tables.entries(data, "account"):
        name = _name(tables, "account", entry)
        parent = "" if name == ROOT else ROOT
        records.append(_fields(tables, "account", Account(name, parent), _rest(entry)))
    records += _users(tables, data)
    records += [_reservation(tables, entry) for entry in tables.entries(data, "reservation")]
    seen: set[tuple[str, str]] = set()
    for record in records:
        kind = str(record.__struct_config__.tag)
        if (kind, record.key) in seen:
            raise tables.bad(f"{kind}.name", f"{record.key!r} stands there twice")
        seen.add((kind, record.key))
    return tuple(records)


def _users(tables: Tables, data: dict[str, Any]) -> list[Association]:
    """`name` may list several users; the first account of a user is the default where none says that it is."""
    found: list[Association] = []
    for entry in tables.entries(data, "user"):
        if not entry.get("account"):
            raise tables.bad("user.account", "every user needs an account")
        account = tables.read("user.account", values.name, _text(tables, "user.account", entry["account"]))
        rest = {key: value for key, value in _rest(entry).items() if key != "account"}
        text = _text(tables, "user.name", entry.get("name", ""))
        if not text:
            raise tables.bad("user.name", "every user needs a name")
        names = tables.read("user.name", values.names, text)
        found += [_fields(tables, "user", Association(name, account), rest) for name in names]
    said = {one.user for one in found if one.default}
    for position, one in enumerate(found):
        if one.user not in said:
            said.add(one.user)
            found[position] = msgspec.structs.replace(one, default=True)
    for user in said:
        if sum(one.default for one in found if one.user == user) > 1:
            raise tables.bad("user.default", f"{user} has more than one default account")
    return found


def _reservation(tables: Tables, entry: dict[str, Any]) -> Reservation:
    rest, where = _rest(entry), "reservation"
    duration = rest.pop("duration", None)
    if "start" not in rest or ("end" in rest) == (duration is not None):
        raise tables.bad(where, "a reservation needs a start, and an end or a duration")
    for key in [key for key in ("start", "end") if key in rest]:
        text = _text(tables, f"{where}.{key}", rest[key])
        early, late = (tables.read(f"{where}.{key}", values.moment, text, now) for now in (0, 10**9))
        # A time that depends on the moment at which it is read would be another one at every start.
        if early != late:
            raise tables.bad(f"{where}.{key}", f"{text!r} is another time every day", "write a date, 2026-12-24T18:00")
    made = _fields(tables, "reservation", Reservation(_name(tables, where, entry), 0, 0), rest)
    if duration is not None:
        text = _text(tables, f"{where}.duration", duration)
        lasts = tables.read(f"{where}.duration", values.duration, text)
        made = msgspec.structs.replace(made, end=made.start + lasts)
    return made


def _name(tables: Tables, where: str, entry: dict[str, Any]) -> str:
    text = tables.text(where, entry, "name", "")
    if not text:
        raise tables.bad(f"{where}.name", f"every {where} needs a name")
    return tables.read(f"{where}.name", values.name, text)


def _rest(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "name"}


def _fields(tables: Tables, kind: Kinds, record: R, entry: dict[str, Any]) -> R:
    """The record with the values of the entry; keys may be written with underscores."""
    fields: dict[str, Any] = {}
    for written, value in entry.items():
        where = f"{kind}.{written}"
        name = written.lower().replace("_", "-")
        if kind == "partition":
            name = _OTHER_NAMES.get(name, name)
        if name not in KEYS[kind]:
            raise tables.unknown(kind, written, ["name", *KEYS[kind]])
        text = _text(tables, where, value)
        if name == "state" and isinstance(value, bool):
            text = "up" if value else "down"
        key = KEYS[kind][name]
        found = tables.read(where, key.read, text, 0)
        if fields.keys() & found.keys():
            raise tables.bad(where, "is given twice")
        fields |= found
    return with_fields(record, fields)


def _text(tables: Tables, key: str, value: Any) -> str:
    """A value as people write it: text, a number, true or false, a time, or a list of such."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, date)):
        return value.isoformat() if isinstance(value, date) else str(value)
    if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
        return ",".join(_text(tables, key, item) for item in value)
    if not isinstance(value, str) or not value.isprintable():
        raise tables.bad(key, f"must be text in quotes, a whole number, true or false, or a list, not {value!r}")
    return value
