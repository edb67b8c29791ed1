"""The settings of accounts, users, QoS, partitions and reservations by the keys that people write.

One table for requests, for `flagplotd.toml` and for the tests of the manual pages.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts
from flagplot_wire.policy import Limits
from flagplot_wire.text import clean
from flagplot_wire.units import DAY, parse_time_limit
from flagplotd.core import values as read

Kinds = Literal["account", "user", "qos", "partition", "reservation"]
R = TypeVar("R", bound=Struct)
MAX_HINTS = 100
"""Words in a hint; every table of settings is shorter."""


class Key(Struct, frozen=True):
    """One setting. `read` makes a text (and the time of now) into the record's fields (`limits.gpus` is inside
    another); `many` marks lists of names, where `+a,b` adds and `-a` takes away."""

    name: str
    fields: tuple[str, ...]
    read: Callable[[str, int], dict[str, Any]]
    help: str
    many: bool = False


def _key(name: str, field: str, parse: Callable[[str], Any], help_text: str, many: bool = False) -> Key:
    return Key(name, (field,), lambda text, _now: {field: parse(text)}, help_text, many)


def _list(name: str, field: str, help_text: str) -> Key:
    return _key(name, field, read.names, help_text, True)


def _limits(field: str, prefix: str = "", whose: str = "") -> list[Key]:
    """The keys of a `Limits`; `whose` ends each help with whom it is for."""
    table = (
        ("max-jobs", "jobs", read.limit, "most running jobs"),
        ("max-submit", "submitted", read.limit, "most pending and running jobs"),
        ("max-nodes", "nodes", read.limit, "most nodes of all running jobs"),
        ("max-cpus", "cpus", read.limit, "most CPUs of all running jobs"),
        ("max-gpus", "gpus", read.limit, "most GPUs of all running jobs"),
        ("max-mem", "memory_mib", read.memory_limit, "most memory of all running jobs, as --mem takes it"),
        ("gpu-minutes", "gpu_minutes", read.limit, "most GPU minutes, used (decayed) and promised to running jobs"),
        ("max-nodes-per-job", "job_nodes", read.limit, "most nodes of one job"),
        ("max-cpus-per-job", "job_cpus", read.limit, "most CPUs of one job"),
        ("max-gpus-per-job", "job_gpus", read.limit, "most GPUs of one job"),
        ("max-wall", "job_wall_s", read.wall_limit, "longest time limit of one job, as -t takes it"),
    )
    return [_key(prefix + key, f"{field}.{name}", parse, text + whose) for key, name, parse, text in table]


def _nodes(text: str, _now: int) -> dict[str, Any]:
    every = text.strip().upper() == "ALL"
    return {"nodes": () if every or not text.strip() else tuple(expand_hosts(text)), "all_nodes": every}


def _up(text: str, _now: int) -> dict[str, Any]:
    word = text.strip().lower()
    if word not in ("up", "down"):
        raise read.bad(f"{clean(text)!r} is no state of a partition", "write up or down")
    return {"up": word == "up"}


def _mode(text: str) -> str:
    word = text.strip().lower()
    if word not in ("", "off", "cancel", "requeue", "suspend"):
        raise read.bad(f"{clean(text)!r} is no preempt mode", "there are: off, cancel, requeue, suspend")
    return word


_RESERVATION_FLAGS = {
    "flex": ("flex", True),
    "ignore_jobs": ("ignore_jobs", True),
    "maint": ("maintenance", True),
    "daily": ("repeat_s", DAY),
    "weekly": ("repeat_s", 7 * DAY),
}


def _flags(text: str, _now: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"flex": False, "ignore_jobs": False, "maintenance": False, "repeat_s": 0}
    for part in text.split(",") if text.strip() else ():
        word = part.strip().lower().replace("-", "_")
        if word not in _RESERVATION_FLAGS:
            raise read.bad(f"there is no flag {clean(part)!r}", f"there are: {', '.join(_RESERVATION_FLAGS)}")
        field, value = _RESERVATION_FLAGS[word]
        if field == "repeat_s" and fields[field]:
            raise read.bad("a reservation is daily or weekly, not both")
        fields[field] = value
    return fields


def _when(name: str, help_text: str) -> Key:
    return Key(name, (name,), lambda text, now: {name: read.moment(text, now)}, help_text)


_USER_SHARES = _key("shares", "shares", read.user_shares, "shares among its siblings (1), or parent")
_SHARES = _key("shares", "shares", lambda text: read.whole(text, 1), "shares among its siblings (1)")
_QOS = _list("qos", "qos", "QoS that may be used; empty: those of the account above")
_DEFAULT_QOS = _key("default-qos", "default_qos", read.name, "QoS of jobs that name none (the first allowed one)")
_PREEMPT_MODE = _key("preempt-mode", "preempt_mode", _mode, "what becomes of its preempted jobs: off, cancel, requeue, suspend")  # fmt: skip
_GRACE = _key("grace", "grace_s", read.span, "seconds between the warning and the end of a preempted job (0)")
_COMMENT = _key("comment", "comment", read.words, "text for people")
_DESCRIPTION = _key("description", "description", read.words, "text for people")
_ALLOW_QOS = _list("allow-qos", "allow_qos", "only jobs of these QoS")
_NODES = Key("nodes", ("nodes", "all_nodes"), _nodes, "a host list, or ALL")


def _count(name: str, field: str, help_text: str, least: int = 0) -> Key:
    return _key(name, field, lambda text: read.whole(text, least), help_text)


_TABLE: dict[Kinds, list[Key]] = {
    "account": [
        _key("parent", "parent", read.name, "the account above (root)"),
        _SHARES,
        _QOS,
        _DEFAULT_QOS,
        _list("coordinators", "coordinators", "users who may change the users below it"),
        _DESCRIPTION,
        *_limits("limits"),
    ],
    "user": [
        _key("account", "account", read.name, "the account; needed where the user is in several"),
        _key("default", "default", read.flag, "yes: jobs that name no account go here (the user's first account)"),
        _USER_SHARES,
        _count("priority", "priority", "added to the priority of jobs (0)"),
        _QOS,
        _DEFAULT_QOS,
        *_limits("limits"),
    ],
    "qos": [
        _count("priority", "priority", "priority of its jobs among the QoS (0)"),
        _list("preempts", "preempts", "QoS whose jobs its jobs may preempt"),
        _PREEMPT_MODE,
        _GRACE,
        _key("exempt", "exempt_s", read.span, "seconds after its start in which a job is not preempted (0)"),
        _count("usage-percent", "usage_percent", "how much of what its jobs use is counted as usage (100)"),
        _DESCRIPTION,
        *_limits("limits"),
        *_limits("user_limits", "user-", ", for each user"),
        *_limits("account_limits", "account-", ", for each account"),
    ],
    "partition": [
        _NODES,
        Key("state", ("up",), _up, "up, or down: its jobs wait (up)"),
        _key("default", "default", read.flag, "yes: used when a job names none"),
        _key("max-time", "max_time_s", parse_time_limit, "longest time limit (none)"),
        _key("default-time", "default_time_s", parse_time_limit, "time limit of jobs without one (the longest)"),
        _count("max-nodes", "max_nodes", "most nodes of one job (0: any number)"),
        _count("tier", "priority_tier", "higher tiers are looked at first (1)"),
        _list("allow-users", "allow_users", "only these users; empty: all"),
        _list("allow-accounts", "allow_accounts", "only these accounts and those below them; empty: all"),
        _ALLOW_QOS,
        _key("qos", "qos", read.name, "a QoS whose limits hold in it as well"),
        _PREEMPT_MODE,
        _GRACE,
        _COMMENT,
    ],
    "reservation": [
        _when("start", "when it begins: now, now+1hour, 2026-12-24T18:00, or epoch seconds (now)"),
        _when("end", "when it ends; or give a duration"),
        Key("duration", (), lambda text, _now: {"duration": read.duration(text)}, "how long it lasts, as -t takes it"),
        _NODES,
        _key("cores", "cores", read.limit, "cores of each node; with neither cores nor gpus: the whole node"),
        _key("gpus", "gpus", read.limit, "GPUs of each node"),
        _key("licenses", "licenses", read.license_counts, "licenses to keep, as matlab:4,ansys"),
        _list("users", "users", "users whose jobs may use it"),
        _list("accounts", "accounts", "accounts whose jobs may use it"),
        _key("partition", "partition", read.name, "with nodes ALL or none: the nodes of this partition"),
        Key(
            "flags",
            ("flex", "ignore_jobs", "maintenance", "repeat_s"),
            _flags,
            f"any of {', '.join(_RESERVATION_FLAGS)}",
        ),
        _COMMENT,
    ],
}

KEYS: dict[Kinds, dict[str, Key]] = {kind: {key.name: key for key in keys} for kind, keys in _TABLE.items()}
"""Key by kind of record and name."""


def find(kind: Kinds, text: str) -> Key:
    """A key as people write it; capitals and underscores do as well. Raises `Refused` with the nearest one."""
    found = KEYS[kind].get(text.strip().lower().replace("_", "-"))
    if found is None:
        article = "an" if kind == "account" else "a"
        raise Refused("bad_key", f"{article} {kind} has no setting {clean(text)!r}", near(text, KEYS[kind]))
    return found


def near(text: str, known: Iterable[str]) -> str:
    """A hint: the nearest of the known words, or the first of them."""
    words = list(known)
    close = difflib.get_close_matches(text.strip().lower().replace("_", "-"), words, 1, 0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(words) - MAX_HINTS} more" if len(words) > MAX_HINTS else ""
    return f"there are: {', '.join(words[:MAX_HINTS])}{more}"


def changed(record: R, kind: Kinds, values: Mapping[str, str], now: int) -> R:
    """The record with the values read; an empty text gives a setting its default back. Raises `Refused`."""
    fields: dict[str, Any] = {}
    for text, value in values.items():
        key = find(kind, text)
        if not value.strip():
            found = {field: _default(type(record), field) for field in key.fields}
        else:
            found = _read(record, key, value, now)
        twice = sorted(fields.keys() & found.keys())
        if twice:
            raise Refused("bad_key", f"{clean(text)} is given twice")
        fields |= found
    return with_fields(record, fields)


def with_fields(record: R, fields: Mapping[str, Any]) -> R:
    """The record with some fields replaced, where `limits.gpus` is a field inside another."""
    plain = {field: value for field, value in fields.items() if "." not in field}
    for name in dict.fromkeys(field.partition(".")[0] for field in fields if "." in field):
        inner = {field.partition(".")[2]: value for field, value in fields.items() if field.startswith(f"{name}.")}
        plain[name] = msgspec.structs.replace(getattr(record, name), **inner)
    return msgspec.structs.replace(record, **plain)


def read_value(key: Key, text: str, now: int) -> dict[str, Any]:
    """The fields that a text gives a setting; a refusal names the key."""
    try:
        return key.read(text, now)
    except Refused as wrong:
        raise Refused("bad_value", f"{key.name}: {wrong.message}", wrong.hint) from wrong


def _read(record: Struct, key: Key, value: str, now: int) -> dict[str, Any]:
    sign = value.strip()[0] if key.many else ""
    found = read_value(key, value.strip()[1:] if sign in ("+", "-") else value, now)
    if sign not in ("+", "-"):
        return found
    old = getattr(record, key.fields[0])
    given = found[key.fields[0]]
    kept = [item for item in old if item not in given]
    return {key.fields[0]: (*kept, *given) if sign == "+" else tuple(kept)}


def _default(kind: type[Struct], field: str) -> Any:
    outer, dot, inner = field.partition(".")
    if dot:
        return getattr(Limits(), inner)
    found = next(one for one in msgspec.structs.fields(kind) if one.name == outer)
    if found.default is msgspec.NODEFAULT:
        raise Refused("bad_value", f"{outer}: it cannot be empty")
    return found.default
