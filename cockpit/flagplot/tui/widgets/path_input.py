"""Completion of file paths in an input."""

from __future__ import annotations

import os

from textual.suggester import Suggester


class PathSuggester(Suggester):
    """Suggests the first file or folder that begins as typed."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """The completed path, or None."""
        return complete_path(value)


def complete_path(value: str) -> str | None:
    """The first entry (folders end with `/`) that `value` is the beginning of; None for none."""
    folder, start = os.path.split(value)
    if not value:
        return None
    try:
        names = sorted(os.listdir(os.path.expanduser(folder) or "."))
    except OSError:
        return None
    for name in names:
        if name.startswith(start) and (start or not name.startswith(".")) and name.isprintable():
            path = os.path.join(folder, name)
            return path + "/" if os.path.isdir(os.path.expanduser(path)) else path
    return None
