"""What a site says of its nodes in the agent's configuration file; flagplot-agent(8) documents each key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from flagplot_wire.errors import Refused


class Site(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. `pids_max` is how many processes and threads a job may have on the node (0: no limit)."""

    pids_max: Annotated[int, Meta(ge=0)] = 8192


def read_site(path: Path | None) -> Site:
    """Read the file (None: the defaults); raises `Refused` naming what is wrong in it."""
    if path is None:
        return Site()
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), Site)
    except OSError as wrong:
        raise Refused("usage", f"cannot read {path}: {wrong.strerror}") from wrong
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as wrong:
        raise Refused("usage", f"{path}: {wrong}", "flagplot-agent(8) lists the keys") from wrong
