"""A person's own job scripts to start from: `templates/` in their settings."""

from __future__ import annotations

import os
import re
from pathlib import Path

from flagplot.client.target import config_dir
from flagplot_wire.errors import Refused
from flagplot_wire.replies import Templates
from flagplot_wire.templates import MAX_BYTES, offered

_NAME = re.compile(r"[\w@+-][\w@+.-]{0,99}")


def templates_folder() -> Path | None:
    """Where they lie; None for a session that may read no files."""
    return None if os.environ.get("FLAGPLOT_CONFINED") == "1" else config_dir() / "templates"


def load_templates() -> Templates:
    """All of them; without the folder none."""
    folder = templates_folder()
    if folder is None or not folder.exists():
        return Templates()
    files: list[tuple[str, bytes]] = []
    try:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.name.startswith("."):
                with path.open("rb") as file:
                    files.append((path.name, file.read(MAX_BYTES + 1)))
    except OSError as wrong:
        return Templates(problems=(f"{folder}: {wrong}",))
    return offered(files)


def template_path(name: str) -> Path:
    """Where a template of this name lies or would lie; raises `Refused` for a name that cannot be one."""
    if (folder := templates_folder()) is None:
        raise Refused("denied", "This session may write no files", "run flagplot where you have a home of your own")
    if not _NAME.fullmatch(name):
        raise Refused("usage", f"{name!r} cannot be the name of a template", "letters, digits, - _ + @ and .")
    return folder / name


def save_template(name: str, script: str) -> Path:
    """Write one, whole or not at all; raises `Refused` where that fails."""
    path = template_path(name)
    if len(data := script.encode()) > MAX_BYTES:
        raise Refused("usage", f"A template has at most {MAX_BYTES} bytes, this one {len(data)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{name}.new")
        fresh.write_bytes(data)
        fresh.replace(path)
    except OSError as wrong:
        raise Refused("unavailable", f"{path} cannot be written: {wrong}") from wrong
    return path
