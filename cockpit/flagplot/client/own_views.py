"""`queue.toml` in a person's own settings: how the queue opens, and its saved views."""

from __future__ import annotations

import os
from pathlib import Path

from flagplot.client.target import config_dir
from flagplot.view.saved import Views, read, write
from flagplot_wire.errors import Refused


def views_file() -> Path | None:
    """Where they lie; None for a session that may read no files."""
    return None if os.environ.get("FLAGPLOT_CONFINED") == "1" else config_dir() / "queue.toml"


def load_views() -> Views:
    """What is saved; raises `Refused` that names the file where it cannot be read."""
    if (path := views_file()) is None:
        return Views()
    try:
        return read(path.read_text())
    except FileNotFoundError:
        return Views()
    except (OSError, UnicodeDecodeError) as wrong:
        raise Refused("usage", f"{path} cannot be read: {wrong}") from wrong
    except Refused as refused:
        raise Refused("usage", f"{path}: {refused.message}", refused.hint) from refused


def save_views(views: Views) -> None:
    """Save them, whole or not at all; raises `Refused` where that fails or is not allowed here."""
    if (path := views_file()) is None:
        raise Refused("denied", "This session may write no files", "run flagplot where you have a home of your own")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".toml.new")
        fresh.write_text(write(views))
        fresh.replace(path)
    except OSError as wrong:
        raise Refused("unavailable", f"{path} cannot be written: {wrong}") from wrong
