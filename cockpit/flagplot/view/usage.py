"""Who may use how much and who did: the fair tree, and what was used in a week. Pure: the clock is handed in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from flagplot.language import tr
from flagplot.view.bars import Piece, bar
from flagplot.view.policy import shares_words
from flagplot.view.queue import Column
from flagplot.view.tree import Branch, Name
from flagplot_wire.accounting import UsedBy
from flagplot_wire.policy import FairshareRow

Cells = tuple[tuple[Piece, ...], ...]
MILLION = 1_000_000

TREE_COLUMNS: tuple[Column, ...] = (
    Column("name", "ACCOUNT, USER", 18, 3),
    Column("shares", "SHARES", 7, right=True),
    Column("share", "SHARE", 6, right=True),
    Column("used", "USED", 6, right=True),
    Column("balance", "USED OF SHARE", 18, 2),
    Column("factor", "FAIRSHARE", 14, 1),
    Column("raw", "USAGE", 12, right=True, from_width=100),
)
USED_COLUMNS: tuple[Column, ...] = (
    Column("name", "ACCOUNT, USER", 18, 2),
    Column("jobs", "JOBS", 7, right=True),
    Column("gpus", "GPU-HOURS", 18, 3),
    Column("part", "OF ALL", 6, right=True),
    Column("cpus", "CPU-HOURS", 18, 3),
)
MARGIN = 8
"""Cells of a figure beside its bar."""


def tree_names(rows: Sequence[FairshareRow]) -> list[Name]:
    """The fair tree as `tree.branches` takes it."""
    return [(row.account, row.user, row.depth) for row in rows]


def share_cells(branch: Branch, row: FairshareRow, columns: Sequence[tuple[Column, int]]) -> Cells:
    """A line of the fair tree: shares, usage beside them, and the factor of a user."""
    return tuple(_share_cell(branch, row, column.key, width) for column, width in columns)


def _share_cell(branch: Branch, row: FairshareRow, key: str, width: int) -> tuple[Piece, ...]:
    match key:
        case "name":
            return branch.label
        case "shares":
            return ((shares_words(row.shares), "plain"),)
        case "share":
            return ((_percent(row.norm_shares), "plain"),)
        case "used":
            return ((_percent(row.norm_usage), "plain"),)
        case "balance":
            return _balance(row, width)
        case "factor":
            if row.factor is None:
                return (("-", "dim"),)
            room = max(0, width - 6)
            return (*bar(row.factor / MILLION, room, "meter"), (f" {row.factor / MILLION:.3f}", "plain"))
    return ((f"{row.usage}", "dim"),)


def _balance(row: FairshareRow, width: int) -> tuple[Piece, ...]:
    """How much of its share it used: the bar is full at all of it, and in another colour beyond."""
    if not row.depth or not row.norm_shares:
        return (("-", "dim"),)
    ratio = row.norm_usage / row.norm_shares
    role = "good" if ratio <= 1 else "warning" if ratio <= 2 else "bad"
    figure = f"{min(ratio * 100, 99_999):.0f} %"
    return (*bar(min(1.0, ratio), width - MARGIN, role), (figure.rjust(MARGIN), role if ratio > 1 else "plain"))


def _percent(millionths: int) -> str:
    return f"{millionths / 10_000:.0f} %" if millionths >= 10_000 or not millionths else "<1 %"


# what was used


def used_rows(used: Sequence[UsedBy], by_user: bool) -> tuple[list[Name], list[UsedBy]]:
    """Accounts with their users below them, or users over all their accounts, the most GPU-hours first: as
    `tree.branches` takes them, and what each used."""
    groups: dict[str, list[UsedBy]] = {}
    for one in used:
        groups.setdefault(one.user if by_user else one.account, []).append(one)
    if by_user:
        users = sorted((_sum(user, "", some) for user, some in groups.items()), key=_most)
        return [("", one.user, 0) for one in users], users
    names: list[Name] = []
    rows: list[UsedBy] = []
    for account in sorted((_sum("", name, some) for name, some in groups.items()), key=_most):
        below = sorted(groups[account.account], key=_most)
        names += [(account.account, "", 0), *((one.account, one.user, 1) for one in below)]
        rows += [account, *below]
    return names, rows


def _sum(user: str, account: str, some: Sequence[UsedBy]) -> UsedBy:
    return UsedBy(
        user, account, sum(one.jobs for one in some), sum(one.cpu_s for one in some), sum(one.gpu_s for one in some)
    )


def _most(one: UsedBy) -> tuple[int, int, str, str]:
    return -one.gpu_s, -one.cpu_s, one.user, one.account


def used_cells(
    branch: Branch, row: UsedBy, total: UsedBy, most: UsedBy, columns: Sequence[tuple[Column, int]]
) -> Cells:
    """What somebody used: bars against the `most` of one line of its kind, and the part of the `total`."""
    return tuple(_used_cell(branch, row, total, most, column.key, width) for column, width in columns)


def _used_cell(branch: Branch, row: UsedBy, total: UsedBy, most: UsedBy, key: str, width: int) -> tuple[Piece, ...]:
    match key:
        case "name":
            return branch.label
        case "jobs":
            return ((str(row.jobs), "plain"),)
        case "gpus":
            return _hours(row.gpu_s, most.gpu_s, width)
        case "part":
            # Where no GPU was used at all the CPUs tell who used the cluster.
            part, whole = (row.gpu_s, total.gpu_s) if total.gpu_s else (row.cpu_s, total.cpu_s)
            return ((_percent(part * MILLION // whole) if whole else "-", "plain"),)
    return _hours(row.cpu_s, most.cpu_s, width)


def _hours(seconds: int, most: int, width: int) -> tuple[Piece, ...]:
    room = max(1, width - MARGIN - 1)
    return (*bar(seconds / most if most else 0.0, room, "meter"), (hours_words(seconds).rjust(MARGIN + 1), "plain"))


def hours_words(seconds: int) -> str:
    """Hours for reading: `0.5`, `12`, `31,000`."""
    hours = seconds / 3_600
    return f"{hours:.1f}" if 0 < hours < 10 else f"{hours:,.0f}"


def largest(rows: Sequence[UsedBy]) -> UsedBy:
    """The longest bars: the most that one line used, of CPUs and of GPUs."""
    return UsedBy("", "", 0, max((one.cpu_s for one in rows), default=0), max((one.gpu_s for one in rows), default=0))


def total_of(used: Sequence[UsedBy]) -> UsedBy:
    """Everybody's together."""
    return _sum("", "", used)


def week(now: int, back: int = 0, zone: tzinfo | None = None) -> tuple[int, int]:
    """The week so many weeks ago, from its Monday on, in the person's zone: (since, until), the latter 0 for now."""
    local = datetime.fromtimestamp(now, UTC).astimezone(zone)
    monday = datetime(local.year, local.month, local.day, tzinfo=local.tzinfo) - timedelta(days=local.weekday())
    since, until = (_midnight(monday - timedelta(weeks=weeks), zone) for weeks in (back, back - 1))
    return since, until if back else 0


def _midnight(day: datetime, zone: tzinfo | None) -> int:
    """The beginning of a day, where clocks may have changed since."""
    plain = day.replace(tzinfo=None)
    return int((plain.replace(tzinfo=zone) if zone is not None else plain.astimezone()).timestamp())


def week_words(since: int, until: int, zone: tzinfo | None = None) -> str:
    """`this week, since Mon 12-01`, `12-01 to 12-07`."""
    first = datetime.fromtimestamp(since, UTC).astimezone(zone)
    if not until:
        return tr("this week, since {day}").format(day=f"{first:%a %m-%d}")
    last = datetime.fromtimestamp(until - 1, UTC).astimezone(zone)
    return tr("{first} to {last}").format(first=f"{first:%m-%d}", last=f"{last:%m-%d}")
