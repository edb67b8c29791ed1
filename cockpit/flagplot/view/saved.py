"""The queue's saved views as TOML: what it starts with, and views by name. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from flagplot.view.queue import COLUMNS, SORTS, QueueSpec
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}")
"""What a view may be called: a word that needs no quotes on a command line."""
_KEYS = {"filter": str, "sort": str, "reverse": bool, "ended": bool, "unfold": bool, "columns": list}


@dataclass(frozen=True, slots=True)
class Views:
    """`start` is how the queue opens; `named` are those that `:view NAME` brings back."""

    start: QueueSpec = QueueSpec()
    named: dict[str, QueueSpec] = field(default_factory=dict)


def read(text: str) -> Views:
    """Read `queue.toml`; raises `Refused` that names the key where something in it is wrong."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise Refused("usage", f"this is no TOML: {wrong}") from wrong
    named = found.pop("views", {})
    if not isinstance(named, dict):
        raise Refused("usage", "views must be tables, such as [views.mine]")
    for name in named:
        check_name(name)
    return Views(_spec(found, ""), {name: _spec(one, f"views.{name}.") for name, one in named.items()})


def check_name(name: str) -> str:
    """A name that may be saved; raises `Refused`."""
    if not NAME.fullmatch(name):
        raise Refused("usage", f"{clean(name)!r} cannot name a view", "letters, digits, - and _, 31 at most")
    return name


def _spec(found: Any, where: str) -> QueueSpec:
    if not isinstance(found, dict):
        raise Refused("usage", f"{where.rstrip('.')} must be a table")
    for key, value in found.items():
        if key not in _KEYS:
            raise Refused("usage", f"there is no setting {where}{clean(key)}", "known: " + " ".join(_KEYS))
        if not isinstance(value, _KEYS[key]):
            raise Refused("usage", f"{where}{key} must be a {_KEYS[key].__name__}")
    spec = QueueSpec(**{**found, "columns": tuple(found.get("columns", ()))})
    known = {column.key for column in COLUMNS}
    if strange := [str(key) for key in spec.columns if key not in known]:
        raise Refused("usage", f"{where}columns: there is no column {clean(strange[0])}", "known: " + " ".join(known))
    if spec.sort not in SORTS:
        raise Refused("usage", f"{where}sort: there is no order {clean(spec.sort)}", "known: " + " ".join(SORTS))
    return spec


def write(views: Views) -> str:
    """The text that `read` reads; settings that are as by default are left out."""
    parts = [_lines(views.start)]
    parts += [f"[views.{name}]\n{_lines(spec)}" for name, spec in sorted(views.named.items())]
    return "\n".join(part for part in parts if part)


def _lines(spec: QueueSpec) -> str:
    plain, lines = QueueSpec(), []
    for key in _KEYS:
        value = getattr(spec, key)
        if value != getattr(plain, key):
            value = clean(value) if isinstance(value, str) else list(value) if isinstance(value, tuple) else value
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(lines)
