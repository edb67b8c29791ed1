"""Slurm's fair tree: who is served next among those who share the cluster. Exact integers throughout.

Every account and user has a level fairshare among its siblings: its part of their shares over its part of their
parent's usage. The tree is walked depth first, the highest level first, and ranks its users downwards from
their number. Siblings of equal level are tied: users share a rank, accounts merge their children, and a user
tied with an account shares the rank of that account's first user (slurm.schedmd.com/fair_tree.html).

A user whose shares are `USE_PARENT` takes no part in this: its level is above all others, so that it ranks with the best
of its account and where the account stands decides (Slurm's `Fairshare=parent`). Its usage is the account's like any.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from flagplot_wire.policy import ROOT, Account, Association, FairshareRow, Usage

MILLION = 1_000_000
MOST = 2**63 - 1
"""The largest integer that a frame carries."""


class Ranks(Struct, frozen=True):
    """Ranks by `user@account`; the best has `count`, the number of associations in the tree."""

    ranks: dict[str, int]
    count: int

    def factor(self, key: str) -> int:
        """The fairshare factor of an association in millionths; 0 for one that is not in the tree."""
        return self.ranks.get(key, 0) * MILLION // max(self.count, 1)

    def factors(self) -> dict[str, int]:
        """The factors of all associations in millionths."""
        return {key: rank * MILLION // self.count for key, rank in self.ranks.items()}


class _Tree:
    """Accounts by parent, users by account as (association, shares, usage), and the sums of what is below each. Shares
    below 0 are the parent's.

    An account whose parent is unknown stands below the root. Usage of a user without an association counts for
    the account. `order` has every account behind its parent.
    """

    def __init__(
        self, accounts: Mapping[str, Account], associations: Mapping[str, Association], usage: Mapping[str, Usage]
    ) -> None:
        self.below: dict[str, list[str]] = {ROOT: [], **{name: [] for name in accounts}}
        self.users: dict[str, list[tuple[str, int, int]]] = {name: [] for name in self.below}
        self.shares_of = {name: max(account.shares, 0) for name, account in accounts.items()}
        self.parent = {
            name: account.parent if account.parent in accounts else ROOT
            for name, account in accounts.items()
            if name != ROOT
        }
        for name, parent in self.parent.items():
            self.below[parent].append(name)
        self.order = [ROOT]
        for name in self.order:
            self.order += self.below[name]
        self.used = dict.fromkeys(self.below, 0)
        self.shares = dict.fromkeys(self.below, 0)
        self._people(associations, usage)
        for name in reversed(self.order[1:]):
            self.used[self.parent[name]] += self.used[name]
            self.shares[self.parent[name]] += self.shares_of[name]

    def _people(self, associations: Mapping[str, Association], usage: Mapping[str, Usage]) -> None:
        users, all_used, all_shares = self.users, self.used, self.shares
        for key, association in associations.items():
            account = association.account
            if account in users:
                entry = usage.get(key)
                used = entry.weighted if entry is not None else 0
                shares = association.shares
                users[account].append((key, shares, used))
                all_used[account] += used
                all_shares[account] += shares if shares > 0 else 0
        for key in usage.keys() - associations.keys():
            account = key.rpartition("@")[2]
            if account in all_used:
                all_used[account] += usage[key].weighted

    def precision(self) -> int:
        """Binary places after which two different levels of this tree always differ."""
        return 2 * (max(self.shares.values()).bit_length() + self.used[ROOT].bit_length())


def fair_tree(
    accounts: Mapping[str, Account], associations: Mapping[str, Association], usage: Mapping[str, Usage]
) -> Ranks:
    """Rank all associations. The maps go by account name and by `user@account`, as in the state.

    Levels are compared as fractions without rounding: two that differ do so by at least the inverse of the
    product of their denominators, and are scaled beyond that before the division.
    """
    tree = _Tree(accounts, associations, usage)
    scale = 1 << tree.precision()
    count = sum(len(tree.users[name]) for name in tree.order)
    ranks: dict[str, int] = {}
    rank = left = count
    work: list[tuple[bool, list[str], list[str]]] = [(False, [], [ROOT])]
    while work:
        tied, users, merged = work.pop()
        if users:
            rank = rank if tied else left
            left -= len(users)
            for key in users:
                ranks[key] = rank
            tied = True
        if merged:
            groups = _by_level(tree, merged, scale)
            work += [(False, *group) for group in groups[:0:-1]]
            work += [(tied, *group) for group in groups[:1]]
    return Ranks(ranks, count)


def _by_level(tree: _Tree, parents: list[str], scale: int) -> list[tuple[list[str], list[str]]]:
    """The children of these accounts as (users, accounts) of equal level, the highest first."""
    never: tuple[list[str], list[str]] = ([], [])
    groups: dict[int, tuple[list[str], list[str]]] = {}
    used_by, shares_of = tree.used, tree.shares_of
    for parent in parents:
        scaled, all_shares = used_by[parent] * scale, tree.shares[parent]
        below = [(name, shares_of[name], used_by[name]) for name in tree.below[parent]]
        for kind, children in enumerate((tree.users[parent], below)):
            for name, shares, used in children:
                if shares < 0 or (shares and not used):
                    never[kind].append(name)
                    continue
                level = shares * scaled // (all_shares * used) if shares else 0
                group = groups.get(level)
                if group is None:
                    group = groups[level] = ([], [])
                group[kind].append(name)
    first = [never] if never[0] or never[1] else []
    return first + [groups[level] for level in sorted(groups, reverse=True)]


class Remembered:
    """The last tree's ranks, made again only when an account, association or usage changed."""

    def __init__(self) -> None:
        self._of: tuple[dict[str, Account], dict[str, Association], dict[str, Usage]] = ({}, {}, {})
        self._factors: dict[str, int] = {}

    def factors(
        self, accounts: Mapping[str, Account], associations: Mapping[str, Association], usage: Mapping[str, Usage]
    ) -> dict[str, int]:
        """The factors of all associations in millionths, as `Ranks.factors`; never change the result."""
        if (accounts, associations, usage) != self._of:
            self._of = (dict(accounts), dict(associations), dict(usage))
            self._factors = fair_tree(accounts, associations, usage).factors()
        return self._factors


def rows(
    accounts: Mapping[str, Account], associations: Mapping[str, Association], usage: Mapping[str, Usage]
) -> list[FairshareRow]:
    """The tree for people, depth first: an account, its users, then the accounts below it, each by name."""
    tree = _Tree(accounts, associations, usage)
    ranks = fair_tree(accounts, associations, usage)
    all_used = tree.used[ROOT]
    found = [FairshareRow(ROOT, "", 0, 1, MILLION, all_used // 1_000, MILLION if all_used else 0)]
    work = [(ROOT, 0)]
    while work:
        name, depth = work.pop()
        if name != ROOT:
            found.append(_row(tree, tree.parent[name], name, "", depth, tree.shares_of[name], tree.used[name], None))
        own = found[-1]
        for key, shares, used in sorted(tree.users[name]):
            user = associations[key].user
            if shares < 0:
                as_account = {"shares": shares, "usage": used // 1_000, "level": None, "factor": ranks.factor(key)}
                found.append(replace(own, user=user, depth=depth + 1, **as_account))
                continue
            found.append(_row(tree, name, name, user, depth + 1, shares, used, ranks.factor(key)))
        work += [(child, depth + 1) for child in sorted(tree.below[name], reverse=True)]
    return found


def _row(
    tree: _Tree, parent: str, account: str, user: str, depth: int, shares: int, used: int, factor: int | None
) -> FairshareRow:
    all_shares, all_used = tree.shares[parent], tree.used[parent]
    level = None if shares and not used else shares * all_used * MILLION // max(all_shares * used, 1)
    return FairshareRow(
        account=account,
        user=user,
        depth=depth,
        shares=shares,
        norm_shares=shares * MILLION // max(all_shares, 1),
        usage=used // 1_000,
        norm_usage=used * MILLION // max(all_used, 1),
        level=level if level is None else min(level, MOST),
        factor=factor,
    )
