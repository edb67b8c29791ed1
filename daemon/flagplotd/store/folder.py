"""Where a cluster's files are."""

from __future__ import annotations

import os
from pathlib import Path


def default_folder() -> Path:
    """Where a cluster's files are when nobody says otherwise."""
    if given := os.environ.get("FLAGPLOT_DATA_DIR"):
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return Path(state) / "flagplot" if state else Path.home() / ".local" / "state" / "flagplot"
