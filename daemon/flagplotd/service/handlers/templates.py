"""`GetTemplates`: the site's job scripts to start from, as they are in the folder now."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flagplot_wire.errors import Refused
from flagplot_wire.replies import Templates
from flagplot_wire.requests import GetTemplates
from flagplot_wire.templates import MAX_BYTES, offered
from flagplotd.service.context import Asking


async def handle(asking: Asking, _request: GetTemplates) -> Templates:
    """Read from the folder that the configuration names; none where it names none."""
    folder = asking.server.config.templates
    return Templates() if folder is None else await asyncio.to_thread(_read, folder)


def _read(folder: Path) -> Templates:
    files: list[tuple[str, bytes]] = []
    try:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.name.startswith("."):
                with path.open("rb") as file:
                    files.append((path.name, file.read(MAX_BYTES + 1)))
    except OSError as wrong:
        raise Refused("unavailable", f"The site's templates cannot be read: {wrong}") from wrong
    return offered(files)
