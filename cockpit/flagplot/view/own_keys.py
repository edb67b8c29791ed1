"""`keys.toml` and `plugins.toml`: keys and commands of one's own, each mistake told with its line. Pure."""

from __future__ import annotations

import re
import shlex
import tomllib
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flagplot.view.variables import check
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

_MODIFIERS = ("ctrl", "alt", "shift", "super", "meta", "hyper")
_NAMED = frozenset(
    {*(f"f{number}" for number in range(1, 25)), "enter", "escape", "tab", "space", "backspace", "delete", "insert",
     "home", "end", "pageup", "pagedown", "up", "down", "left", "right"}
)  # fmt: skip
_RENAMED = {"solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
            "plus_sign": "plus", "low_line": "underscore"}  # fmt: skip
_SAME = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+h": "backspace", "ctrl+left_square_bracket": "escape"}
"""Keys that terminals send as another."""
EVERY = "all"
"""The scope of a plugin that is in every view."""


def key_named(text: str) -> str:
    """A key in the program's words, from how people write it (`N`, `shift+n`, `?`, `ctrl+x`, `F4`); raises `Refused`."""
    words = text.strip()
    # The plus itself is a key, also behind modifiers: ctrl++.
    *before, last = [*words[:-1].split("+"), "+"] if words == "+" or words.endswith("++") else words.split("+")
    modifiers = [word.strip().lower() for word in before if word]
    if not last or any(word not in _MODIFIERS for word in modifiers):
        raise Refused("usage", f"{clean(text)!r} is no key", "such as: N, ?, ctrl+x, alt+left, f4")
    if len(last) == 1:
        name = _character(last.upper() if "shift" in modifiers and last.isalpha() else last)
        modifiers = [word for word in modifiers if word != "shift" or not last.isalpha()]
        name = name.lower() if "ctrl" in modifiers else name
    else:
        name = last.strip().lower()
        if name not in _NAMED and name not in _PUNCTUATION:
            raise Refused("usage", f"{clean(text)!r} is no key", "such as: N, ?, ctrl+x, alt+left, f4")
    key = "+".join([*sorted(modifiers, key=_MODIFIERS.index), name])
    if key in _SAME:
        raise Refused("usage", f"{clean(text)} cannot be told from {_SAME[key]} in a terminal", "choose another")
    return key


def _character(one: str) -> str:
    if one.isalnum():
        return one
    name = unicodedata.name(one, "").lower().replace("-", "_").replace(" ", "_")
    if not name:
        raise Refused("usage", f"{clean(one)!r} is no key")
    return _RENAMED.get(name, name)


_PUNCTUATION = frozenset(_character(one) for one in map(chr, range(33, 127)) if not one.isalnum())


@dataclass(frozen=True, slots=True)
class Rebound:
    """An action of a scope with its new keys; `line` is where it stands."""

    scope: str
    action: str
    keys: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Plugin:
    """A command of one's own. With `shell` the one text of `command` goes to /bin/sh, which finds the variables in its
    environment; else each argument has them filled in. `background`: beside the cockpit, else in its place."""

    name: str
    key: str
    scopes: tuple[str, ...]
    command: tuple[str, ...]
    description: str
    confirm: bool = False
    background: bool = False
    shell: bool = False
    dangerous: bool = False
    line: int = 0


@dataclass(slots=True)
class Read:
    """What a file holds that can be used, and what is wrong in it: (line, sentence), line 0 for the whole file."""

    rebound: list[Rebound] = field(default_factory=list)
    plugins: list[Plugin] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)


def read_keys(text: str, actions: Mapping[str, Collection[str]]) -> Read:
    """`keys.toml`; `actions` are those of each scope that may be named."""
    found = Read()
    data = _toml(text, found)
    for scope, table in data.items():
        if scope not in actions or not isinstance(table, dict):
            found.problems.append((line_of(text, (scope,)), f"there is no part {clean(scope)}: {' '.join(actions)}"))
            continue
        for action, value in table.items():
            line = line_of(text, (scope, action))
            keys = [value] if isinstance(value, str) else value
            if action not in actions[scope]:
                known = " ".join(sorted(actions[scope]))
                found.problems.append((line, f"{scope} has no action {clean(action)}: {known}"))
            elif not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
                found.problems.append((line, f"{scope}.{clean(action)} must be a key, or a list of keys"))
            else:
                try:
                    found.rebound.append(Rebound(scope, action, tuple(key_named(key) for key in keys), line))
                except Refused as refused:
                    found.problems.append((line, refused.message))
    return found


_PLUGIN: dict[str, type] = {"key": str, "scope": list, "command": list, "description": str, "confirm": bool,
                            "background": bool, "shell": bool, "dangerous": bool}  # fmt: skip


def read_plugins(text: str, scopes: Collection[str]) -> Read:
    """`plugins.toml`: a table for each plugin; `scopes` are the views."""
    found = Read()
    for name, table in _toml(text, found).items():
        try:
            if not isinstance(table, dict):
                raise Refused("usage", f"{clean(name)} must be a table, written [{clean(name)}]")
            found.plugins.append(_plugin(name, table, scopes, line_of(text, (name,))))
        except Refused as refused:
            key = (
                next((key for key in table if refused.message.startswith(f"{key}:")), "")
                if isinstance(table, dict)
                else ""
            )
            line = line_of(text, (name, key)) if key else line_of(text, (name,))
            found.problems.append(
                (line, f"{clean(name)}: {refused.message}" + (f" ({refused.hint})" * bool(refused.hint)))
            )
    return found


def _plugin(name: str, table: dict[str, Any], scopes: Collection[str], line: int) -> Plugin:
    for key, value in table.items():
        if key not in _PLUGIN:
            raise Refused("usage", f"{key}: there is no such setting", "known: " + " ".join(_PLUGIN))
        if not isinstance(value, _PLUGIN[key]) and not (_PLUGIN[key] is list and isinstance(value, str)):
            raise Refused("usage", f"{key}: must be a {_PLUGIN[key].__name__}")
        if isinstance(value, list) and not all(isinstance(word, str) for word in value):
            raise Refused("usage", f"{key}: must be a list of texts")
    for key in ("key", "command"):
        if not table.get(key):
            raise Refused("usage", f"it has no {key}")
    named = _texts(table.get("scope", EVERY))
    for one in named:
        if one != EVERY and one not in scopes:
            raise Refused("usage", f"scope: there is no view {clean(one)}", f"known: {EVERY} {' '.join(scopes)}")
    shell, command = table.get("shell", False), table["command"]
    try:
        key = key_named(table["key"])
        words = [command] if shell and isinstance(command, str) else _words(command)
        if shell and len(words) != 1:
            raise Refused("usage", "with shell = true it is one text")
        if not shell:
            check(words)
    except Refused as refused:
        where = "key" if "key" in refused.message or "told from" in refused.message else "command"
        raise Refused("usage", f"{where}: {refused.message}", refused.hint) from refused
    flags = {flag: bool(table.get(flag, False)) for flag in ("confirm", "background", "dangerous")}
    description = clean(table.get("description", "")) or name
    return Plugin(name, key, tuple(named), tuple(words), description, shell=shell, line=line, **flags)


def _texts(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _words(command: str | Sequence[str]) -> list[str]:
    if not isinstance(command, str):
        return list(command)
    try:
        return shlex.split(command)
    except ValueError as wrong:
        raise Refused("usage", f"cannot be read: {wrong}") from wrong


def _toml(text: str, found: Read) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        match = re.search(r"at line (\d+)", str(wrong))
        found.problems.append((int(match[1]) if match else 0, f"this is no TOML: {wrong}"))
        return {}


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The line of a table, or of a key in a table, counted from 1; that of the table where the key is not found."""
    table: tuple[str, ...] = ()
    of_table = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("["):
            table = tuple(_names(line.split("#")[0].strip().strip("[]")))
            if table == path:
                return number
            if table == path[:-1]:
                of_table = number
        elif "=" in line and (*table, *_names(line.split("=")[0].strip())) == path:
            return number
    return of_table


def _names(dotted: str) -> Iterator[str]:
    """The parts of a dotted key, quotes resolved."""
    try:
        value: Any = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return
    while isinstance(value, dict):
        ((name, value),) = value.items()
        yield name
