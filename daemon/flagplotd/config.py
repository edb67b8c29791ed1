"""`flagplotd.toml`: what a site decides about its controller. `flagplotd.toml(5)` describes every key."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts
from flagplot_wire.node import Partition
from flagplot_wire.policy import Record
from flagplot_wire.units import parse_time_limit
from flagplotd import config_tables
from flagplotd.core.state import Settings
from flagplotd.sched.plan import Policy

T = TypeVar("T")


class Config(Struct, frozen=True):
    """The controller's configuration. `heartbeat_s` is what agents are told; port 0 takes a free one."""

    settings: Settings = Settings()
    policy: Policy = Policy()
    host: str = "127.0.0.1"
    port: int = 0
    heartbeat_s: int = 5
    sample_s: int = 2
    partitions: tuple[Partition, ...] = (Partition("main", all_nodes=True, default=True),)
    nodes: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    names_partitions: bool = False
    """Whether the file has partitions; else the controller keeps those it knows."""


_SETTINGS = (
    "max_array_size",
    "max_jobs",
    "max_launch_failures",
    "launch_retry_s",
    "kill_wait_s",
    "lease_s",
    "keep_ended_s",
    "keep_ended",
    "usage_half_life_s",
    "usage_every_s",
    "weight_cpu",
    "weight_memory_gib",
    "weight_gpu",
)
_MAX_WEIGHT = 2**32 - 1
_ENFORCE = ("off", "limits", "associations")
_CONTROLLER = ("host", "port", "heartbeat_s", "sample_s", "enforce", "refuse_impossible", *_SETTINGS)
_PARTITION = (
    "name",
    "nodes",
    "default",
    "up",
    "max_time",
    "default_time",
    "max_nodes",
    "priority_tier",
    "allow_users",
    "allow_accounts",
    "allow_qos",
    "qos",
    "comment",
)
_TOP = (
    "cluster",
    "controller",
    "partition",
    "node",
    "scheduler",
    "roles",
    *config_tables.RECORDS,
    "licenses",
    "switch",
    "block",
)


def load_config(path: Path, now: int = 0) -> Config:
    """Read the file; `now` (epoch seconds) is what relative times of reservations count from. Without one the defaults hold. Raises `Refused` naming the file and the key."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as wrong:
        raise Refused("usage", f"{path} cannot be read: {wrong}") from wrong
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise Refused("usage", f"{path} is not TOML: {wrong}") from wrong
    return _Reader(path).config(data, now)


class _Reader:
    """Checks one file's tables; every refusal names the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def config(self, data: dict[str, Any], now: int) -> Config:
        """The whole file."""
        self._known("", data, _TOP)
        cluster = self._table(data, "cluster", ("name",))
        controller = self._table(data, "controller", _CONTROLLER)
        scheduler = self._table(data, "scheduler", Policy.__struct_fields__)
        roles = self._table(data, "roles", ("admins", "operators"))
        integers: dict[str, Any] = {
            key: self._integer("controller", controller, key) for key in _SETTINGS if key in controller
        }
        if not integers.get("usage_every_s", 1):
            raise self._bad("controller.usage_every_s", "must be 1 or more")
        name = self._text("cluster", cluster, "name", "flagplot")
        partitions = tuple(self._partition(entry) for entry in self._list(data, "partition"))
        return Config(
            settings=Settings(
                cluster=name,
                enforce=self._enforce(controller),
                refuse_impossible=self._flag("controller", controller, "refuse_impossible", True),
                switches=config_tables.switches(data, self._bad),
                licenses=config_tables.licenses(data, self._bad),
                **integers,
            ),
            policy=self._policy(scheduler),
            host=self._text("controller", controller, "host", "127.0.0.1"),
            port=self._port(controller),
            heartbeat_s=max(self._integer("controller", controller, "heartbeat_s", 5), 1),
            sample_s=max(self._integer("controller", controller, "sample_s", 2), 1),
            partitions=self._partitions(partitions),
            nodes=self._nodes(data),
            admins=self._names("roles", roles, "admins"),
            operators=self._names("roles", roles, "operators"),
            records=config_tables.records(data, now, self._bad),
            names_partitions=bool(partitions),
        )

    def _policy(self, scheduler: dict[str, Any]) -> Policy:
        where, defaults = "scheduler", Policy()
        found: dict[str, Any] = {}
        for key in scheduler:
            if isinstance(getattr(defaults, key), bool):
                found[key] = self._flag(where, scheduler, key, False)
            elif key.startswith("weight_"):
                found[key] = self._weight(where, scheduler, key)
            else:
                found[key] = self._integer(where, scheduler, key)
        return Policy(**found)

    def _enforce(self, table: dict[str, Any]) -> Any:
        word = self._text("controller", table, "enforce", "limits")
        if word not in _ENFORCE:
            raise self._bad("controller.enforce", f"must be one of {', '.join(_ENFORCE)}, not {word!r}")
        return word

    def _partitions(self, found: tuple[Partition, ...]) -> tuple[Partition, ...]:
        names = [partition.name for partition in found]
        for name in names:
            if names.count(name) > 1:
                raise self._bad("partition.name", f"two partitions are called {name!r}")
        if sum(partition.default for partition in found) > 1:
            raise self._bad("partition.default", "more than one partition is the default")
        return found or Config().partitions

    def _nodes(self, data: dict[str, Any]) -> tuple[str, ...]:
        names: list[str] = []
        for entry in self._list(data, "node"):
            self._known("node", entry, ("names",))
            names += self._hosts("node", entry, "names")
        return tuple(dict.fromkeys(names))

    def _partition(self, entry: dict[str, Any]) -> Partition:
        where = "partition"
        self._known(where, entry, _PARTITION)
        name = self._text(where, entry, "name", "")
        if not name:
            raise self._bad("partition.name", "every partition needs a name")
        every = str(entry.get("nodes", "ALL")).upper() == "ALL"
        return Partition(
            name=name,
            nodes=() if every else tuple(self._hosts(where, entry, "nodes")),
            all_nodes=every,
            default=self._flag(where, entry, "default", False),
            up=self._flag(where, entry, "up", True),
            max_time_s=self._time(where, entry, "max_time"),
            default_time_s=self._time(where, entry, "default_time"),
            max_nodes=self._integer(where, entry, "max_nodes", 0),
            priority_tier=self._integer(where, entry, "priority_tier", 1),
            allow_users=self._names(where, entry, "allow_users"),
            allow_accounts=self._names(where, entry, "allow_accounts"),
            allow_qos=self._names(where, entry, "allow_qos"),
            qos=self._text(where, entry, "qos", ""),
            comment=self._text(where, entry, "comment", ""),
        )

    def _known(self, where: str, table: dict[str, Any], keys: Iterable[str]) -> None:
        known = list(keys)
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
                raise Refused("usage", f"{self._path}: unknown key {f'{where}.{key}' if where else key!r}", hint)

    def _bad(self, key: str, why: str) -> Refused:
        return Refused("usage", f"{self._path}: {key}: {why}")

    def _table(self, data: dict[str, Any], key: str, keys: Iterable[str]) -> dict[str, Any]:
        table = data.get(key, {})
        if not isinstance(table, dict):
            raise self._bad(key, f"must be a table, written [{key}]")
        self._known(key, table, keys)
        return table

    def _list(self, data: dict[str, Any], key: str) -> list[dict[str, Any]]:
        entries = data.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._bad(key, f"must be a list of tables, each written [[{key}]]")
        return entries

    def _text(self, where: str, table: dict[str, Any], key: str, default: str) -> str:
        value = table.get(key, default)
        if not isinstance(value, str) or not value.isprintable():
            raise self._bad(f"{where}.{key}", f"must be text in quotes, not {value!r}")
        return value

    def _flag(self, where: str, table: dict[str, Any], key: str, default: bool) -> bool:
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise self._bad(f"{where}.{key}", f"must be true or false, not {value!r}")
        return value

    def _integer(self, where: str, table: dict[str, Any], key: str, default: int = 0) -> int:
        value = table.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
            raise self._bad(f"{where}.{key}", f"must be a whole number of 0 or more, not {value!r}")
        return value

    def _weight(self, where: str, table: dict[str, Any], key: str) -> int:
        value = table[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_WEIGHT:
            raise self._bad(f"{where}.{key}", f"must be a whole number from 0 to {_MAX_WEIGHT}, not {value!r}")
        return value

    def _port(self, table: dict[str, Any]) -> int:
        port = self._integer("controller", table, "port", 0)
        if port > 65_535:
            raise self._bad("controller.port", f"must be below 65536, not {port}")
        return port

    def _names(self, where: str, table: dict[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._bad(f"{where}.{key}", "must be a list of names in quotes")
        return tuple(value)

    def _hosts(self, where: str, table: dict[str, Any], key: str) -> list[str]:
        return self._parsed(where, table, key, expand_hosts, [])

    def _time(self, where: str, table: dict[str, Any], key: str) -> int:
        if isinstance(table.get(key), int) and not isinstance(table.get(key), bool):
            return self._integer(where, table, key) * 60
        return self._parsed(where, table, key, parse_time_limit, 0)

    def _parsed(self, where: str, table: dict[str, Any], key: str, parse: Callable[[str], T], default: T) -> T:
        if key not in table:
            return default
        try:
            return parse(self._text(where, table, key, ""))
        except Refused as wrong:
            raise Refused("usage", f"{self._path}: {where}.{key}: {wrong.message}", wrong.hint) from wrong
