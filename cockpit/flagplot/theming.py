"""Themes: TOML files with a few colours, from which the styles of every state, owner and role follow.

A theme of the product lies in `flagplot/themes` (installed) or in the checkout's `themes/`; a person's own lie in
`$XDG_CONFIG_HOME/flagplot/themes` (`~/.config/flagplot/themes`). An own file named like a theme of the product
changes only what it says; one with a new name starts from its `base` (`dark` unless it says otherwise).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from textual.theme import Theme

COLOURS = (
    "background",
    "surface",
    "panel",
    "foreground",
    "primary",
    "secondary",
    "accent",
    "success",
    "warning",
    "error",
)
STATES = (
    "running",
    "pending",
    "held",
    "suspended",
    "completing",
    "completed",
    "cancelled",
    "failed",
    "timeout",
    "idle",
    "mixed",
    "allocated",
    "draining",
    "drained",
    "down",
    "unknown",
    "planned",
)
ROLES = (
    "plain",
    "bold",
    "dim",
    "faint",
    "placeholder",
    "brand",
    "badge",
    "key",
    "good",
    "warning",
    "bad",
    "tab",
    "tab-on",
    "header",
    "header-sorted",
    "cursor",
    "cursor-blurred",
    "marked",
    "mark",
    "match",
    "number",
    "meter",
)
DERIVED = {
    "states": {
        "running": "success",
        "pending": "primary",
        "held": "warning",
        "suspended": "warning",
        "completing": "accent",
        "completed": "secondary",
        "cancelled": "secondary",
        "failed": "bold error",
        "timeout": "error",
        "idle": "success",
        "mixed": "primary",
        "allocated": "accent",
        "draining": "warning",
        "drained": "bold warning",
        "down": "bold error",
        "unknown": "secondary",
        "planned": "accent",
    },
    "roles": {
        "plain": "none",
        "bold": "bold",
        "dim": "secondary",
        "faint": "secondary",
        "brand": "bold accent",
        "badge": "bold reverse warning",
        "key": "bold accent",
        "good": "success",
        "warning": "warning",
        "bad": "bold error",
        "tab": "secondary",
        "tab-on": "bold reverse accent",
        "header": "bold secondary",
        "header-sorted": "bold accent",
        "marked": "bold",
        "mark": "bold accent",
        "match": "bold underline warning",
        "number": "none",
        "meter": "secondary",
    },
}
"""Styles that follow from the colours where a theme does not name them."""
TOP = ("base", "dark", "owners", "colours", "states", "roles")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_HEX = re.compile(r"#[0-9a-fA-F]{6}")
DEFAULT = "dark"


@dataclass(frozen=True, slots=True)
class FlagTheme:
    """A theme ready for use: Textual's own part, the palette of owners, the styles of states and roles.

    The styles are also variables of `textual_theme` (`state-running`, `owner-1`, `dim`, …).
    """

    textual_theme: Theme
    owners: list[str]
    states: dict[str, str]
    roles: dict[str, str] = field(default_factory=dict)


def user_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """Where a person's own themes lie; None for a session that may read no files."""
    env = os.environ if environment is None else environment
    if env.get("FLAGPLOT_CONFINED") == "1":
        return None
    config = env.get("XDG_CONFIG_HOME") or ""
    root = Path(config) if config.startswith("/") else Path(env.get("HOME") or "/nonexistent") / ".config"
    return root / "flagplot" / "themes"


def product_folder() -> Path:
    """Where the product's own themes lie: in the package, else in the checkout."""
    inside = Path(__file__).with_name("themes")
    return inside if inside.is_dir() else Path(__file__).parents[2] / "themes"


def default_name(environment: Mapping[str, str] | None = None, configured: str = "") -> str:
    """The theme to start with: `mono` where NO_COLOR is set, else the configured one, else `dark`."""
    env = os.environ if environment is None else environment
    return "mono" if env.get("NO_COLOR") else configured or DEFAULT


def names(user: Path | None = None) -> list[str]:
    """The names of all themes, in alphabetical order; `user` overrides the folder of own themes."""
    folders = [product_folder(), user if user is not None else user_folder()]
    found = {path.stem for folder in folders if folder is not None for path in _files(folder)}
    return sorted(name for name in found if _NAME.fullmatch(name))


def load(name: str, user: Path | None = None) -> FlagTheme:
    """Read a theme; raises `Refused` that names the file and the key when something in it is wrong."""
    return _build(name, _merged(name, user if user is not None else user_folder(), ()))


def load_all(user: Path | None = None) -> tuple[dict[str, FlagTheme], list[str]]:
    """All themes that can be read, and a sentence for each that cannot."""
    good: dict[str, FlagTheme] = {}
    problems: list[str] = []
    for name in names(user):
        try:
            good[name] = load(name, user)
        except Refused as refused:
            problems.append(refused.message)
    return good, problems


def _files(folder: Path) -> Iterable[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError:
        # A folder that is not there or may not be read holds no themes.
        return []


def _merged(name: str, user: Path | None, above: tuple[str, ...]) -> dict[str, Any]:
    """The theme's keys over those of its base."""
    if name in above:
        raise Refused("bad_theme", f"The theme {name!r} is its own base: {' → '.join([*above, name])}")
    ours = product_folder() / f"{name}.toml" if _NAME.fullmatch(name) else None
    theirs = user / f"{name}.toml" if user is not None and ours is not None else None
    merged: dict[str, Any] | None = None
    for path, is_own in ((ours, False), (theirs, True)):
        if path is None or not path.is_file():
            continue
        keys = _read(path)
        base = keys.pop("base", "")
        if merged is None and (is_own or base):
            merged = _merged(base or DEFAULT, user, (*above, name))
        merged = _over(merged or {}, keys)
    if merged is None:
        raise Refused("bad_theme", f"There is no theme {clean(name)!r}", "Known: " + " ".join(names(user)))
    return merged


def _over(below: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    """`keys` over `below`; a theme that brings its own colours derives anew the styles it does not name."""
    result = dict(below)
    if keys.get("colours"):
        changed = {
            word for word, value in keys["colours"].items() if below.get("colours", {}).get(word, value) != value
        }
        for table, rules in DERIVED.items():
            if table in result:
                result[table] = {
                    key: style
                    for key, style in result[table].items()
                    if not changed & set(rules.get(key, "background foreground").split())
                }
    for key, value in keys.items():
        result[key] = {**result.get(key, {}), **value} if isinstance(value, dict) else value
    return result


def _read(path: Path) -> dict[str, Any]:
    """One file, every key of it checked."""
    try:
        keys = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused("bad_theme", f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Refused("bad_theme", f"{path}: is no TOML: {clean(str(error))}") from error
    _known(path, "", keys, TOP)
    for table, known in (("colours", COLOURS), ("states", STATES), ("roles", ROLES)):
        part = keys.get(table, {})
        if not isinstance(part, dict):
            raise Refused("bad_theme", f"{path}: {table} is not a table: write [{table}] above its keys")
        _known(path, f"{table}.", part, known)
        for key, value in part.items():
            _check(path, f"{table}.{key}", value, colour=table == "colours")
    owners = keys.get("owners", ["#808080"])
    if not isinstance(owners, list) or not owners:
        raise Refused("bad_theme", f"{path}: owners is a list of colours, at least one")
    for at, value in enumerate(owners):
        _check(path, f"owners[{at}]", value, colour=False)
    if not isinstance(keys.get("dark", True), bool):
        raise Refused("bad_theme", f"{path}: dark is true or false")
    if not isinstance(keys.get("base", ""), str):
        raise Refused("bad_theme", f"{path}: base is the name of a theme")
    return keys


def _known(path: Path, table: str, keys: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in keys:
        if key not in known:
            raise Refused("bad_theme", f"{path}: unknown key {table}{clean(key)}", "Known: " + " ".join(known))


def _check(path: Path, key: str, value: object, *, colour: bool) -> None:
    from rich.errors import StyleSyntaxError
    from rich.style import Style

    if not isinstance(value, str):
        raise Refused("bad_theme", f'{path}: {key} is not a text such as "#56b4e9"')
    if colour and not _HEX.fullmatch(value):
        raise Refused("bad_theme", f"{path}: {key} is {clean(value)!r}, not a colour such as #56b4e9")
    try:
        Style.parse(value)
    except StyleSyntaxError as error:
        raise Refused("bad_theme", f'{path}: {key} is {clean(value)!r}, not a style such as "bold #56b4e9"') from error


def _build(name: str, keys: dict[str, Any]) -> FlagTheme:
    """The theme from its merged keys."""
    from textual.theme import Theme

    colours: dict[str, str] = keys["colours"]
    styles = {}
    for table, rules in DERIVED.items():
        derived = {key: " ".join(colours.get(word, word) for word in rule.split()) for key, rule in rules.items()}
        styles[table] = {**derived, **keys.get(table, {})}
    owners: list[str] = list(keys["owners"])
    variables = {f"state-{key}": style for key, style in styles["states"].items()}
    variables |= {f"owner-{at}": style for at, style in enumerate(owners, 1)}
    variables |= styles["roles"]
    variables |= {
        "boost": colours["panel"],
        "scrollbar": colours["secondary"],
        "scrollbar-hover": colours["foreground"],
        "scrollbar-active": colours["foreground"],
        "scrollbar-background": colours["panel"],
        "scrollbar-background-hover": colours["panel"],
        "scrollbar-background-active": colours["panel"],
        "scrollbar-corner-color": colours["panel"],
    }
    if "placeholder" in variables:
        variables["text-disabled"] = variables.pop("placeholder")
    # `warning` is also a colour of Textual's own: there it has to stay a colour.
    variables["role-warning"] = variables.pop("warning")
    theme = Theme(
        name=name,
        primary=colours["primary"],
        secondary=colours["secondary"],
        accent=colours["accent"],
        foreground=colours["foreground"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
        success=colours["success"],
        warning=colours["warning"],
        error=colours["error"],
        dark=bool(keys.get("dark", True)),
        variables=variables,
    )
    return FlagTheme(theme, owners, styles["states"], styles["roles"])
