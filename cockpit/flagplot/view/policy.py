"""Accounts, users, QoS, partitions and reservations as tables, and who stands where in the queue. Pure.

A column is headed by the name of the option that sets it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from flagplot.view.words import short_span
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.node import Partition
from flagplot_wire.policy import USE_PARENT, Account, FairshareRow, PriorityRow, Reservation
from flagplot_wire.units import format_limit, format_memory

Kind = Literal["account", "user", "qos", "partition", "reservation"]
MILLION = 1_000_000

Column = tuple[str, Callable[[Any], str], bool]
"""Heading, the record's cell (empty: nothing to say), and whether it is a number."""

Table = tuple[list[str], list[list[str]], list[int]]
"""Headings, rows and which columns are aligned right, as `output.table` takes them. Cells are not cleaned."""


def _text(heading: str, field: str) -> Column:
    return heading, lambda record: getattr(record, field), False


def _list(heading: str, field: str) -> Column:
    return heading, lambda record: ",".join(getattr(record, field)), False


def _number(heading: str, field: str, silent: int | None = None) -> Column:
    """A number; `silent` is the value that goes without saying."""
    return heading, lambda record: _unless(getattr(record, field), silent, str), True


def _span(heading: str, field: str) -> Column:
    return heading, lambda record: _unless(getattr(record, field), 0, short_span), True


def _yes(heading: str, field: str) -> Column:
    return heading, lambda record: "yes" if getattr(record, field) else "", False


def _unless(value: int | None, silent: int | None, words: Callable[[int], str]) -> str:
    return "" if value is None or value == silent else words(value)


_LIMITS: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("MAX-JOBS", "jobs", str),
    ("MAX-SUBMIT", "submitted", str),
    ("MAX-NODES", "nodes", str),
    ("MAX-CPUS", "cpus", str),
    ("MAX-GPUS", "gpus", str),
    ("MAX-MEM", "memory_mib", format_memory),
    ("GPU-MINUTES", "gpu_minutes", str),
    ("MAX-NODES-PER-JOB", "job_nodes", str),
    ("MAX-CPUS-PER-JOB", "job_cpus", str),
    ("MAX-GPUS-PER-JOB", "job_gpus", str),
    ("MAX-WALL", "job_wall_s", format_limit),
)


def _limits(field: str = "limits", prefix: str = "") -> list[Column]:
    def column(heading: str, name: str, words: Callable[[int], str]) -> Column:
        return prefix + heading, lambda record: _unless(getattr(getattr(record, field), name), None, words), True

    return [column(*limit) for limit in _LIMITS]


def _moment(heading: str, field: str) -> Column:
    return heading, lambda record: local_time(getattr(record, field)), False


def local_time(at: int) -> str:
    """Epoch seconds as `--start` takes them, in the local zone."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%dT%H:%M:%S")


def nodes_words(record: Partition | Reservation) -> str:
    """Nodes as a host list, or ALL."""
    return "ALL" if record.all_nodes else compress_hosts(record.nodes)


def flags_words(reservation: Reservation) -> str:
    """A reservation's flags as `--flags` takes them."""
    repeats = {86_400: "daily", 604_800: "weekly"}
    every = repeats.get(reservation.repeat_s, f"every {short_span(reservation.repeat_s)}")
    flags = (("maint", reservation.maintenance), ("flex", reservation.flex),
             ("ignore_jobs", reservation.ignore_jobs), (every, bool(reservation.repeat_s)))  # fmt: skip
    return ",".join(name for name, wanted in flags if wanted)


def _licenses(reservation: Reservation) -> str:
    return ",".join(f"{name}:{count}" for name, count in reservation.licenses)


_PREEMPTION = (_text("PREEMPT-MODE", "preempt_mode"), _span("GRACE", "grace_s"))

COLUMNS: dict[Kind, tuple[Column, ...]] = {
    "account": (
        _text("ACCOUNT", "name"),
        _number("SHARES", "shares"),
        _list("QOS", "qos"),
        _text("DEFAULT-QOS", "default_qos"),
        _list("COORDINATORS", "coordinators"),
        *_limits(),
        _text("DESCRIPTION", "description"),
    ),
    "user": (
        _text("USER", "user"),
        _text("ACCOUNT", "account"),
        _yes("DEFAULT", "default"),
        ("SHARES", lambda record: shares_words(record.shares), True),
        _number("PRIORITY", "priority", 0),
        _list("QOS", "qos"),
        _text("DEFAULT-QOS", "default_qos"),
        *_limits(),
    ),
    "qos": (
        _text("QOS", "name"),
        _number("PRIORITY", "priority"),
        _list("PREEMPTS", "preempts"),
        *_PREEMPTION,
        _span("EXEMPT", "exempt_s"),
        _number("USAGE-PERCENT", "usage_percent", 100),
        *_limits(),
        *_limits("user_limits", "USER-"),
        *_limits("account_limits", "ACCOUNT-"),
        _text("DESCRIPTION", "description"),
    ),
    "partition": (
        _text("PARTITION", "name"),
        _yes("DEFAULT", "default"),
        ("STATE", lambda record: "up" if record.up else "down", False),
        ("MAX-TIME", lambda record: format_limit(record.max_time_s), True),
        ("DEFAULT-TIME", lambda record: _unless(record.default_time_s, 0, format_limit), True),
        _number("MAX-NODES", "max_nodes", 0),
        _number("TIER", "priority_tier"),
        ("NODES", nodes_words, False),
        _list("ALLOW-USERS", "allow_users"),
        _list("ALLOW-ACCOUNTS", "allow_accounts"),
        _list("ALLOW-QOS", "allow_qos"),
        _text("QOS", "qos"),
        *_PREEMPTION,
        _text("COMMENT", "comment"),
    ),
    "reservation": (
        _text("RESERVATION", "name"),
        _moment("START", "start"),
        _moment("END", "end"),
        ("NODES", nodes_words, False),
        _number("CORES", "cores"),
        _number("GPUS", "gpus"),
        ("LICENSES", _licenses, False),
        _list("USERS", "users"),
        _list("ACCOUNTS", "accounts"),
        _text("PARTITION", "partition"),
        ("FLAGS", flags_words, False),
        _text("COMMENT", "comment"),
    ),
}


def policy_table(kind: Kind, records: Sequence[Struct]) -> Table:
    """The records of a kind, without the columns that are empty throughout; accounts as an indented tree."""
    columns = COLUMNS[kind]
    if kind == "account":
        tree = account_tree([one for one in records if isinstance(one, Account)])
        rows = [["  " * depth + account.name, *_cells(account, columns[1:])] for account, depth in tree]
    else:
        rows = [_cells(record, columns) for record in records]
    shown = [place for place in range(len(columns)) if place == 0 or any(row[place] for row in rows)]
    right = [at for at, place in enumerate(shown) if columns[place][2]]
    return [columns[place][0] for place in shown], [[row[place] for place in shown] for row in rows], right


def _cells(record: Struct, columns: Sequence[Column]) -> list[str]:
    return [cell(record) for _, cell, _ in columns]


def account_tree(accounts: Sequence[Account]) -> list[tuple[Account, int]]:
    """Accounts depth first, siblings as they come, with their depth; one whose parent is not there is on top."""
    there = {account.name for account in accounts}
    below: dict[str, list[Account]] = {}
    for account in reversed(accounts):
        below.setdefault(account.parent if account.parent in there else "", []).append(account)
    found: list[tuple[Account, int]] = []
    work = [(account, 0) for account in below.get("", ())]
    while work:
        account, depth = work.pop()
        found.append((account, depth))
        work += [(one, depth + 1) for one in below.get(account.name, ())]
    return found


PRIORITY = (
    "JOB", "USER", "ACCOUNT", "PARTITION", "QOS", "PRIORITY", "AGE", "FAIRSHARE", "JOBSIZE", "PARTITION", "QOS", "TRES",
    "NICE", "SITE", "ASSOC",
)  # fmt: skip
"""Columns of sprio(1); the second PARTITION and QOS are their parts of the priority."""


def priority_table(rows: Sequence[PriorityRow]) -> Table:
    """What each pending job's priority is made of."""
    cells = [
        [row.job, row.user, row.account, row.partition, row.qos, *map(str, (
            row.total, row.age, row.fairshare, row.size, row.partition_part, row.qos_part, row.tres, row.nice, row.site,
            row.association,
        ))]
        for row in rows
    ]  # fmt: skip
    return list(PRIORITY), cells, [0, *range(5, len(PRIORITY))]


FAIRSHARE = ("Account", "User", "RawShares", "NormShares", "RawUsage", "EffectvUsage", "LevelFS", "FairShare")
"""Columns of sshare(1)."""


def fairshare_table(rows: Sequence[FairshareRow]) -> Table:
    """The fair tree; `inf` is the level of who never used anything."""
    top = min((row.depth for row in rows), default=0)
    cells = []
    for row in rows:
        level = "" if row.depth == 0 else "inf" if row.level is None else millionths(row.level)
        factor = "" if row.factor is None else millionths(row.factor)
        cells.append([
            "  " * (row.depth - top) + row.account, row.user, shares_words(row.shares), millionths(row.norm_shares),
            str(row.usage), millionths(row.norm_usage), level, factor,
        ])  # fmt: skip
    return list(FAIRSHARE), cells, list(range(2, len(FAIRSHARE)))


def shares_words(shares: int) -> str:
    """Shares as `--shares` takes them."""
    return "parent" if shares == USE_PARENT else str(shares)


def millionths(value: int) -> str:
    """Parts of a million as a decimal: `0.250000`."""
    whole, part = divmod(value, MILLION)
    return f"{whole}.{part:06}"
