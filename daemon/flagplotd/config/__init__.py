"""`flagplotd.toml`: what a site decides about its controller. `flagplotd.toml(5)` describes every key."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts
from flagplot_wire.node import Partition
from flagplot_wire.node_policy import NODE_POLICIES, check_node_policy
from flagplot_wire.policy import Record
from flagplotd.config.notices import NoticeSettings, read_notices
from flagplotd.config.records import read_partitions, read_records
from flagplotd.config.switches import read_licenses, read_racks, read_switches
from flagplotd.config.tables import Tables
from flagplotd.core.keys import KEYS
from flagplotd.core.state import Settings
from flagplotd.sched.plan import Policy


class Config(Struct, frozen=True):
    """The controller's configuration. `heartbeat_s` is what agents are told; port 0 takes a free one.

    `names_partitions` is False where the file has none, so that `partitions` is only what a new cluster begins with.
    `templates` is the folder of the site's job scripts to start from (None: there is none).
    `agents` are policies of nodes by name, in the words of `node_policy`.
    """

    settings: Settings = Settings()
    policy: Policy = Policy()
    host: str = "127.0.0.1"
    port: int = 0
    heartbeat_s: int = 5
    sample_s: int = 2
    stage_max_gib: int = 20
    partitions: tuple[Partition, ...] = (Partition("main", all_nodes=True, default=True),)
    nodes: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    names_partitions: bool = False
    notices: NoticeSettings = NoticeSettings()
    templates: Path | None = None
    agents: dict[str, str] = {}


_SETTINGS = (
    "max_array_size",
    "max_jobs",
    "max_launch_failures",
    "launch_retry_s",
    "kill_wait_s",
    "lease_s",
    "keep_ended_s",
    "keep_ended",
)
_CONTROLLER = ("host", "port", "heartbeat_s", "sample_s", "templates", "stage_max_gib", *_SETTINGS)
_LIMITS = (
    "enforce",
    "refuse_impossible",
    "usage_half_life_s",
    "usage_every_s",
    "weight_cpu",
    "weight_memory_gib",
    "weight_gpu",
)
_PREEMPTION = ("preempt_mode", "preempt_by", "preempt_exempt_s")
_CHOICES = {
    "enforce": ("off", "limits", "associations"),
    "preempt_mode": ("off", "cancel", "requeue", "suspend"),
    "preempt_by": ("qos", "partition"),
    "backfill": ("easy", "conservative"),
}
_PARTITION = ("name", *(key.replace("-", "_") for key in KEYS["partition"]), "up", "priority_tier")
_TOP = (
    "cluster",
    "agents",
    "controller",
    "partition",
    "node",
    "scheduler",
    "roles",
    "limits",
    "preemption",
    "licenses",
    "qos",
    "account",
    "user",
    "reservation",
    "switch",
    "block",
    "notices",
    "rack",
)


def load_config(path: Path) -> Config:
    """Read the file; without one the defaults hold. Raises `Refused` naming the file and the key."""
    return config_of(path, read_file(path)) if path.exists() else Config()


def read_file(path: Path) -> dict[str, Any]:
    """The tables of a file, not looked at yet. Raises `Refused` where it is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as wrong:
        raise Refused("usage", f"{path} cannot be read: {wrong}") from wrong
    except tomllib.TOMLDecodeError as wrong:
        raise Refused("usage", f"{path} is not TOML: {wrong}") from wrong


def config_of(path: Path, data: dict[str, Any]) -> Config:
    """The configuration that the tables of a file make. Raises `Refused` naming the file and the key."""
    return _config(Tables(path), data)


def _config(tables: Tables, data: dict[str, Any]) -> Config:
    tables.known("", data, _TOP)
    cluster = tables.table(data, "cluster", ("name",))
    controller = tables.table(data, "controller", _CONTROLLER)
    scheduler = tables.table(data, "scheduler", Policy.__struct_fields__)
    roles = tables.table(data, "roles", ("admins", "operators"))
    partitions, weights = read_partitions(tables, data), _nodes(tables, data)
    nodes = tuple(weights)
    numbers: dict[str, Any] = {
        key: tables.integer("controller", controller, key) for key in _SETTINGS if key in controller
    }
    settings = Settings(
        cluster=tables.text("cluster", cluster, "name", "flagplot"),
        switches=read_switches(tables, data, nodes),
        racks=read_racks(tables, data),
        licenses=read_licenses(tables, data),
        node_weights=tuple((name, weight) for name, weight in weights.items() if weight != 1),
        **numbers,
        **_settings(tables, data, "limits", _LIMITS),
        **_settings(tables, data, "preemption", _PREEMPTION),
    )
    return Config(
        settings=settings,
        policy=_policy(tables, scheduler),
        host=tables.text("controller", controller, "host", "127.0.0.1"),
        port=_port(tables, controller),
        heartbeat_s=max(tables.integer("controller", controller, "heartbeat_s", 5), 1),
        stage_max_gib=tables.integer("controller", controller, "stage_max_gib", 20),
        sample_s=max(tables.integer("controller", controller, "sample_s", 2), 1),
        partitions=partitions or Config().partitions,
        nodes=nodes,
        admins=tables.names("roles", roles, "admins"),
        operators=tables.names("roles", roles, "operators"),
        records=read_records(tables, data),
        names_partitions=bool(partitions),
        notices=read_notices(tables, data),
        templates=_folder(tables, controller, "templates"),
        agents=_agents(tables, data),
    )


def _policy(tables: Tables, table: dict[str, Any]) -> Policy:
    where, defaults, found = "scheduler", Policy(), dict[str, Any]()
    for key in table:
        if isinstance(getattr(defaults, key), bool):
            found[key] = tables.flag(where, table, key, False)
        elif key.startswith("weight_"):
            found[key] = tables.weight(where, table, key)
        elif key in _CHOICES:
            found[key] = tables.choice(where, table, key, _CHOICES[key])
        else:
            found[key] = tables.integer(where, table, key)
    return Policy(**found)


def _settings(tables: Tables, data: dict[str, Any], where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    table = tables.table(data, where, keys)
    found: dict[str, Any] = {}
    for key in table:
        if key in _CHOICES:
            found[key] = tables.choice(where, table, key, _CHOICES[key])
        elif key == "refuse_impossible":
            found[key] = tables.flag(where, table, key, True)
        else:
            found[key] = tables.integer(where, table, key)
    if found.get("usage_every_s") == 0:
        raise tables.bad(f"{where}.usage_every_s", "must be 1 or more")
    return found


def _agents(tables: Tables, data: dict[str, Any]) -> dict[str, str]:
    table = tables.table(data, "agents", NODE_POLICIES)
    return {key: tables.parsed("agents", table, key, partial(check_node_policy, key), "") for key in table}


def _nodes(tables: Tables, data: dict[str, Any]) -> dict[str, int]:
    """The weight of each node; a later entry that names one again and gives a weight decides."""
    weights: dict[str, int] = {}
    for entry in tables.entries(data, "node"):
        tables.known("node", entry, ("names", "weight"))
        weight = tables.weight("node", entry, "weight") if "weight" in entry else None
        names: list[str] = tables.parsed("node", entry, "names", expand_hosts, [])
        for name in names:
            weights[name] = weights.get(name, 1) if weight is None else weight
    return weights


def _folder(tables: Tables, table: dict[str, Any], key: str) -> Path | None:
    """A folder, relative to that of the file; it may be made later."""
    text = tables.text("controller", table, key, "")
    return tables.path.parent / Path(text).expanduser() if text else None


def _port(tables: Tables, table: dict[str, Any]) -> int:
    port = tables.integer("controller", table, "port", 0)
    if port > 65_535:
        raise tables.bad("controller.port", f"must be below 65536, not {port}")
    return port
