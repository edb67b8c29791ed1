"""Job scripts to start from: which files of a folder are offered, the site's and a person's own alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from flagplot_wire.replies import Template, Templates
from flagplot_wire.text import clean

MAX_BYTES = 64 * 1024
"""Bytes of one template; of longer files one byte more need be read to tell."""
MOST = 200
"""Templates of one folder; those beyond it, by name, are left out with a word."""


def offered(files: Iterable[tuple[str, bytes]]) -> Templates:
    """The files (name and content) that are scripts, by name; why others are not is told in sentences.

    Hidden files are left out without a word.
    """
    found: list[Template] = []
    problems: list[str] = []
    for name, data in sorted(files):
        if name.startswith("."):
            continue
        if len(found) == MOST:
            problems.append(f"{name}: there are more than {MOST} templates")
            break
        if len(data) > MAX_BYTES:
            problems.append(f"{name}: has more than {MAX_BYTES} bytes")
        elif not data.startswith(b"#!"):
            problems.append(f"{name}: does not start with #!")
        else:
            try:
                found.append(Template(name, data.decode("utf-8")))
            except UnicodeDecodeError:
                problems.append(f"{name}: is not UTF-8")
    return Templates(tuple(found), tuple(clean(problem) for problem in problems))
