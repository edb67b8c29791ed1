"""Which jobs changed, in order, for readers that keep something of their own up to date. Pure."""

from __future__ import annotations

from flagplot_wire.ids import JobNumber

KEPT = 20_000
"""Changes remembered; a reader that is further behind looks at everything."""


class Touched:
    """A reader remembers `end` and later asks for what came `since`."""

    def __init__(self) -> None:
        self._numbers: list[JobNumber] = []
        self._begin = 0

    @property
    def end(self) -> int:
        """The place behind the last change."""
        return self._begin + len(self._numbers)

    def add(self, number: JobNumber) -> None:
        """A job was added, changed or forgotten."""
        self._numbers.append(number)
        if len(self._numbers) > KEPT:
            del self._numbers[: KEPT // 2]
            self._begin += KEPT // 2

    def reset(self) -> None:
        """Everything may be different: readers look at all jobs."""
        self._begin = self.end + 1
        self._numbers.clear()

    def since(self, place: int) -> set[JobNumber] | None:
        """The numbers that changed since `place`; None when that is not known any more."""
        if not self._begin <= place <= self.end:
            return None
        return set(self._numbers[place - self._begin :])
