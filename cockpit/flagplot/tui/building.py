"""From the form's draft to what is submitted, through the same parser as `flagplot submit`."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path

from flagplot.client.inherited import with_inherited
from flagplot.script.build import build as parser
from flagplot.script.build import parse_arguments, parse_script, wrap_script
from flagplot.script.options import Given
from flagplot.view.draft import options_of, source_of
from flagplot_wire.errors import Refused
from flagplot_wire.job import JobSpec, Payload

MAX_SCRIPT = 4 * 1024 * 1024
"""Bytes of a script file that the form reads."""


def default_work_dir(user: str, confined: bool) -> str:
    """Where a job works when the form does not say: here, or at home for a session that has no files here."""
    if not confined:
        return os.getcwd()
    home = os.path.expanduser(f"~{user}") if user else "~"
    return home if home.startswith("/") else "/tmp"


def read_script(path: str) -> bytes:
    """A script file's text; what is wrong with the file is refused in words."""
    full = Path(path).expanduser()
    try:
        size = full.stat().st_size
        if size > MAX_SCRIPT:
            raise Refused("bad_script", f"{path} has {size} bytes: a script may have at most {MAX_SCRIPT}")
        return full.read_bytes()
    except OSError as error:
        raise Refused("bad_script", f"Cannot read {path}: {error.strerror}") from error


def build(draft: Mapping[str, str], user: str, confined: bool, now: int) -> tuple[JobSpec, Payload, list[str]]:
    """The job of a draft and warnings in sentences; raises `Refused` that names what is wrong."""
    source = source_of(draft)
    if source == "file" and confined:
        raise Refused("not_permitted", "This session may not read files: type a script or a command")
    chosen, left = parse_arguments(options_of(draft))
    if left:
        raise Refused("usage", f"{left[0]!r} is no option")
    options: list[Given] = []
    warnings: list[str] = []
    if source == "command":
        text, name = wrap_script(draft["command"].strip()), "wrap"
    else:
        name = Path(draft["file"].strip()).name if source == "file" else "script"
        parsed = parse_script(read_script(draft["file"].strip()) if source == "file" else draft["script"], name)
        text, options, warnings = parsed.text, parsed.options, list(parsed.warnings)
    spec, payload, more = parser(
        options,
        chosen,
        script_text=text,
        script_name=name,
        args=(),
        work_dir=default_work_dir(user, confined),
        environment={} if confined else dict(os.environ),
        now=now,
        utc_offset_s=time.localtime(now).tm_gmtoff,
    )
    # Of a confined session only the controller's own limits could be told.
    return spec, payload if confined else with_inherited(payload), [*warnings, *more]


def command_line(draft: Mapping[str, str]) -> str:
    """The same submission from a shell."""
    words = ["flagplot", "submit", *options_of(draft)]
    if draft.get("command", "").strip():
        words.append(f"--wrap={draft['command'].strip()}")
    elif draft.get("file", "").strip():
        words.append(draft["file"].strip())
    elif draft.get("script", "").strip():
        words.append("SCRIPT")
    return shlex.join(words)
