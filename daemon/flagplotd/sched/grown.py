"""An array to which rows are added at its end."""

from __future__ import annotations

from typing import Any

import numpy as np


class Grown:
    """Rows of one type (and width); `all` are those there are, as a view."""

    def __init__(self, kind: Any, *width: int) -> None:
        self._rows: Any = np.zeros((16, *width), kind)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def all(self) -> Any:
        """All rows; not for keeping."""
        return self._rows[: self._count]

    def add(self, row: Any) -> None:
        """One more."""
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[self._count] = row
        self._count += 1

    def keep(self, places: Any) -> None:
        """These rows alone, in this order."""
        kept = self._rows[places]
        self._rows[: len(kept)] = kept
        self._count = len(kept)
