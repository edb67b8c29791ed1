"""Which jobs or nodes changed, in order, for readers that keep something of their own up to date. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from flagplot_wire.ids import JobNumber

K = TypeVar("K", JobNumber, str)
KEPT = 20_000
"""Changes remembered; a reader that is further behind looks at everything."""


class Touched(Generic[K]):
    """A reader remembers `end` and later asks for what came `since`."""

    def __init__(self) -> None:
        self._keys: list[K] = []
        self._begin = 0

    @property
    def end(self) -> int:
        """The place behind the last change."""
        return self._begin + len(self._keys)

    def add(self, key: K) -> None:
        """One was added, changed or forgotten."""
        self.update((key,))

    def update(self, keys: Iterable[K]) -> None:
        """Some were."""
        self._keys.extend(keys)
        if len(self._keys) > KEPT:
            surplus = len(self._keys) - KEPT // 2
            del self._keys[:surplus]
            self._begin += surplus

    def reset(self) -> None:
        """Everything may be different: readers look at all."""
        self._begin = self.end + 1
        self._keys.clear()

    def since(self, place: int) -> set[K] | None:
        """Those that changed since `place`; None when that is not known any more."""
        if not self._begin <= place <= self.end:
            return None
        return set(self._keys[place - self._begin :])
