"""Accounts and the users in them as lines of a tree that folds and is filtered. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from flagplot.view.bars import Piece
from flagplot_wire.text import clean

NO_ACCOUNT = "(no account)"
Name = tuple[str, str, int]
"""Account, user (empty: the account itself), depth."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of a tree: an account with the number of lines `below` it (folded: they are not shown), or a user."""

    account: str
    user: str
    depth: int
    below: int
    folded: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What names it."""
        return self.account, self.user

    @property
    def label(self) -> tuple[Piece, ...]:
        """Its name, indented, behind a sign that tells whether it is folded."""
        sign = "  " if not self.below else "▸ " if self.folded else "▾ "
        lead = ("  " * self.depth + sign, "dim")
        if self.user:
            return lead, (clean(self.user), f"owner:{self.user}")
        return lead, (clean(self.account) or NO_ACCOUNT, "bold")


def branches(names: Sequence[Name], folded: frozenset[str], text: str = "") -> list[tuple[int, Branch]]:
    """The lines to show of a tree that is given depth first, each with its place in `names`.

    What is below folded accounts is left out. A filter (words, `!` negates) keeps what matches with all that is above it,
    whatever is folded.
    """
    below = _below(names)
    found: list[tuple[int, Branch]] = []
    kept = _kept(names, below, text) if text.strip() else None
    hidden = -1
    for at, (account, user, depth) in enumerate(names):
        if at < hidden or (kept is not None and not kept[at]):
            continue
        shut = kept is None and not user and account in folded and below[at] > 0
        if shut:
            hidden = at + 1 + below[at]
        found.append((at, Branch(account, user, depth, below[at], shut)))
    return found


def _below(names: Sequence[Name]) -> list[int]:
    """How many lines lie below each."""
    counts, open_at = [0] * len(names), list[int]()
    for at, (_, _, depth) in enumerate([*names, ("", "", -1)]):
        while open_at and names[open_at[-1]][2] >= depth:
            last = open_at.pop()
            counts[last] = at - last - 1
        open_at.append(at)
    return counts


def _kept(names: Sequence[Name], below: Sequence[int], text: str) -> list[bool]:
    hits = [_matches(f"{account or NO_ACCOUNT} {user}".lower(), text.lower().split()) for account, user, _ in names]
    before = [0, *accumulate(hits)]
    return [hit or before[at + 1 + below[at]] > before[at + 1] for at, hit in enumerate(hits)]


def _matches(words: str, tokens: Sequence[str]) -> bool:
    for token in tokens:
        wanted = token.removeprefix("!")
        if wanted and (wanted in words) == token.startswith("!"):
            return False
    return True
