"""The tables of `flagplotd.toml` about sharing: accounts, users, QoS, reservations, licenses, switches and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts
from flagplot_wire.policy import Account, Association, Qos, Record, Reservation
from flagplotd.core import keys
from flagplotd.core.state import Switch
from flagplotd.core.topology import topology

RECORDS = ("account", "user", "qos", "reservation")
"""The tables of records, each written [[account]] and so on, with the keys of `flagplot account` and so on."""

Bad = Callable[[str, str], Refused]
"""Makes the refusal of a key."""


def records(data: dict[str, Any], now: int, bad: Bad) -> tuple[Record, ...]:
    """All records that the tables describe; raises `Refused` for a key or value that cannot be."""
    found: list[Record] = []
    for kind in RECORDS:
        entries = data.get(kind, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise bad(kind, f"must be a list of tables, each written [[{kind}]]")
        names: set[str] = set()
        for entry in entries:
            record = _record(kind, entry, now, bad)
            if record.key in names:
                raise bad(f"{kind}.name", f"two of them are called {record.key!r}")
            names.add(record.key)
            found.append(record)
    return tuple(found)


def _record(kind: Any, entry: dict[str, Any], now: int, bad: Bad) -> Record:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise bad(f"{kind}.name", "every table of this kind needs a name in quotes")
    settings = {key: _text(kind, key, value, bad) for key, value in entry.items() if key != "name"}
    try:
        if kind == "account":
            return keys.changed(Account(name), kind, settings, now)
        if kind == "qos":
            return keys.changed(Qos(name), kind, settings, now)
        if kind == "user":
            if "account" not in settings:
                raise bad("user.account", f"user {name} needs an account")
            return keys.changed(Association(name, settings["account"]), kind, settings, now)
        return _reservation(name, settings, now)
    except Refused as wrong:
        if wrong.code == "usage":
            raise
        raise bad(kind, f"{name}: {wrong.message}") from wrong


def _reservation(name: str, settings: dict[str, str], now: int) -> Reservation:
    duration = settings.pop("duration", None)
    empty = Reservation(name, now, 0)
    record = keys.changed(empty, "reservation", settings, now)
    if duration is not None:
        from msgspec.structs import replace

        from flagplotd.core.values import duration as seconds

        record = replace(record, end=record.start + seconds(duration))
    if record.end <= record.start:
        raise Refused("bad_request", "it ends before it begins", "give an end after its start, or a duration")
    return record


def _text(kind: str, key: str, value: Any, bad: Bad) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, str)):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise bad(f"{kind}.{key}", f"must be text, a whole number, true, false or a list of names, not {value!r}")


def licenses(data: dict[str, Any], bad: Bad) -> tuple[tuple[str, int], ...]:
    """The cluster's licenses: `[licenses]` with a count for each name."""
    table = data.get("licenses", {})
    if not isinstance(table, dict):
        raise bad("licenses", "must be a table, written [licenses]")
    for name, count in table.items():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 2**31:
            raise bad(f"licenses.{name}", f"must be a whole number of 0 or more, not {count!r}")
    return tuple(table.items())


def switches(data: dict[str, Any], bad: Bad) -> tuple[Switch, ...]:
    """The network: `[[switch]]` with nodes or switches, `[[block]]` with nodes; refused where they make no tree."""
    found: list[Switch] = []
    for kind in ("switch", "block"):
        entries = data.get(kind, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise bad(kind, f"must be a list of tables, each written [[{kind}]]")
        for entry in entries:
            found.append(_switch(kind, entry, bad))
    try:
        topology(found)
    except Refused as wrong:
        raise bad("switch", wrong.message) from wrong
    return tuple(found)


def _switch(kind: str, entry: dict[str, Any], bad: Bad) -> Switch:
    allowed = ("name", "nodes", "switches") if kind == "switch" else ("name", "nodes")
    for key, value in entry.items():
        if key not in allowed:
            raise bad(f"{kind}.{key}", f"there are: {', '.join(allowed)}")
        if not isinstance(value, str):
            raise bad(f"{kind}.{key}", f"must be text in quotes, not {value!r}")
    if not entry.get("name"):
        raise bad(f"{kind}.name", f"every {kind} needs a name")
    try:
        nodes = tuple(expand_hosts(entry["nodes"])) if "nodes" in entry else ()
        below = tuple(expand_hosts(entry["switches"])) if "switches" in entry else ()
    except Refused as wrong:
        raise bad(kind, f"{entry['name']}: {wrong.message}") from wrong
    return Switch(entry["name"], nodes, below, kind == "block")
