"""A person's own settings as files. A session of somebody whom this process cannot become reads and writes none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from flagplot.client.target import config_dir
from flagplot_wire.errors import Refused

T = TypeVar("T")


def confined() -> bool:
    """True where this process serves somebody else and may touch no file."""
    return os.environ.get("FLAGPLOT_CONFINED") == "1"


def read_own(name: str, read: Callable[[str], T], nothing: T) -> T:
    """What `read` makes of a file of the settings; `nothing` without it. Raises `Refused` that names the file."""
    if confined():
        return nothing
    path = config_dir() / name
    try:
        return read(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return nothing
    except (OSError, UnicodeDecodeError) as wrong:
        raise Refused("usage", f"{path} cannot be read: {wrong}") from wrong
    except Refused as refused:
        raise Refused("usage", f"{path}: {refused.message}", refused.hint) from refused


def write_new(path: Path, data: bytes, over: bool) -> None:
    """Write a file whole or not at all; one that is there is replaced only with `over`. Raises `Refused`."""
    if confined():
        raise Refused("denied", "This session may write no files", "run flagplot where you have a home of your own")
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_bytes(data)
        if over:
            fresh.replace(path)
        else:
            # A link fails where the name is taken, also by somebody who was quicker than the question.
            os.link(fresh, path)
            fresh.unlink()
    except FileExistsError as wrong:
        fresh.unlink(missing_ok=True)
        raise Refused("exists", f"{path} is there already") from wrong
    except OSError as wrong:
        fresh.unlink(missing_ok=True)
        raise Refused("unavailable", f"{path} cannot be written: {wrong.strerror or wrong}") from wrong
