"""What a person chose for a list: filter and order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Choice:
    """Filter text, the order's name, and whether it is turned round."""

    filter: str = ""
    sort: str = ""
    reverse: bool = False

    def sorted_by(self, key: str) -> Self:
        """The same with another order; asking for the order in force reverses it."""
        if key == self.sort:
            return replace(self, reverse=not self.reverse)
        return replace(self, sort=self.order_of(key), reverse=False)

    def sorted_next(self, orders: Sequence[str]) -> Self:
        """The same with the order that follows in `orders` (round and round)."""
        at = orders.index(self.sort) if self.sort in orders else 0
        return replace(self, sort=orders[(at + 1) % len(orders)], reverse=False)

    def order_of(self, key: str) -> str:
        """The order that a column's title stands for."""
        return key
