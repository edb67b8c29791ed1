"""The fair tree as its rules read, with fractions and recursion: the oracle for the fast one."""

from __future__ import annotations

from fractions import Fraction

from flagplot_wire.policy import ROOT, Account, Association, Usage

INFINITE = Fraction(10**60)


class Oracle:
    """Ranks by `user@account`; accounts whose parent is unknown stand below the root."""

    def __init__(self, accounts: list[Account], associations: list[Association], usage: dict[str, int]) -> None:
        self.accounts = {account.name: account for account in accounts}
        self.associations = [one for one in associations if one.account in self.accounts or one.account == ROOT]
        self.usage = usage
        self.count = len(self.associations)
        self.ranks: dict[str, int] = {}
        self.rank = self.left = self.count
        self._visit([ROOT], False)

    def parent(self, account: Account) -> str:
        return account.parent if account.parent in self.accounts else ROOT

    def children(self, name: str) -> list[Account | Association]:
        users = [one for one in self.associations if one.account == name]
        below = [one for one in self.accounts.values() if one.name != ROOT and self.parent(one) == name]
        return [*users, *below]

    def used(self, of: Account | Association | str) -> int:
        if isinstance(of, Association):
            return self.usage.get(of.key, 0)
        name = of if isinstance(of, str) else of.name
        own = {one.key for one in self.associations}
        strangers = sum(value for key, value in self.usage.items() if key not in own and key.endswith(f"@{name}"))
        return strangers + sum(self.used(child) for child in self.children(name))

    def level(self, of: Account | Association) -> Fraction:
        parent = of.account if isinstance(of, Association) else self.parent(of)
        if of.shares < 0:
            return INFINITE
        if not of.shares:
            return Fraction(0)
        if not self.used(of):
            return INFINITE
        shares = Fraction(of.shares, sum(max(child.shares, 0) for child in self.children(parent)))
        return shares / Fraction(self.used(of), self.used(parent))

    def _visit(self, parents: list[str], tied: bool) -> None:
        children = [child for parent in parents for child in self.children(parent)]
        for place, level in enumerate(sorted({self.level(child) for child in children}, reverse=True)):
            equal = [child for child in children if self.level(child) == level]
            users = [child for child in equal if isinstance(child, Association)]
            together = tied and place == 0
            if users:
                self.rank = self.rank if together else self.left
                together = True
                for user in users:
                    self.ranks[user.key] = self.rank
                    self.left -= 1
            accounts = [child.name for child in equal if isinstance(child, Account)]
            if accounts:
                self._visit(accounts, together)


def usages(values: dict[str, int]) -> dict[str, Usage]:
    """Usage records by association."""
    return {key: Usage(key, value, 0) for key, value in values.items()}
