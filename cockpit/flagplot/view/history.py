"""The pages one came through, as a browser keeps them. Pure."""

from __future__ import annotations

Trail = tuple[str, ...]
KEPT = 100


class History:
    """Trails in the order of their visits, and which of them is on screen."""

    def __init__(self) -> None:
        self._trails: list[Trail] = []
        self._at = -1

    def visit(self, trail: Trail) -> None:
        """Another page is on screen: what lay ahead is forgotten."""
        if self._at >= 0 and self._trails[self._at] == trail:
            return
        self._trails = [*self._trails[: self._at + 1], trail][-KEPT:]
        self._at = len(self._trails) - 1

    def step(self, by: int) -> Trail | None:
        """Go back (-1) or forward (1); None where there is nothing more."""
        if not 0 <= self._at + by < len(self._trails):
            return None
        self._at += by
        return self._trails[self._at]
