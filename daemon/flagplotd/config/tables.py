"""Values of TOML tables, checked; every refusal names the file and the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from flagplot_wire.errors import Refused
from flagplotd.core.keys import near

T = TypeVar("T")
MOST = 2**31 - 1


MAX_WEIGHT = 2**32 - 1


class Tables:
    """Reads the values of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def bad(self, key: str, why: str, hint: str = "") -> Refused:
        """The refusal of a value."""
        return Refused("usage", f"{self.path}: {key}: {why}", hint)

    def unknown(self, where: str, key: str, known: Iterable[str]) -> Refused:
        """The refusal of a key, with the nearest there is."""
        return Refused("usage", f"{self.path}: unknown key {f'{where}.{key}' if where else key!r}", near(key, known))

    def known(self, where: str, table: dict[str, Any], keys: Iterable[str]) -> None:
        """Refuse keys that have no meaning."""
        known = list(keys)
        for key in table:
            if key not in known:
                raise self.unknown(where, key, known)

    def table(self, data: dict[str, Any], key: str, keys: Iterable[str] | None = None) -> dict[str, Any]:
        """A table written `[key]`; without `keys` it may hold any."""
        table = data.get(key, {})
        if not isinstance(table, dict):
            raise self.bad(key, f"must be a table, written [{key}]")
        if keys is not None:
            self.known(key, table, keys)
        return table

    def entries(self, data: dict[str, Any], key: str) -> list[dict[str, Any]]:
        """The tables written `[[key]]`."""
        entries = data.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self.bad(key, f"must be a list of tables, each written [[{key}]]")
        return entries

    def text(self, where: str, table: dict[str, Any], key: str, default: str) -> str:
        """Printable text."""
        value = table.get(key, default)
        if not isinstance(value, str) or not value.isprintable():
            raise self.bad(f"{where}.{key}", f"must be text in quotes, not {value!r}")
        return value

    def choice(self, where: str, table: dict[str, Any], key: str, words: tuple[str, ...]) -> str:
        """One of some words."""
        value = table.get(key)
        if value not in words:
            raise self.bad(f"{where}.{key}", f"must be one of {', '.join(words)}, not {value!r}")
        return str(value)

    def flag(self, where: str, table: dict[str, Any], key: str, default: bool) -> bool:
        """true or false."""
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise self.bad(f"{where}.{key}", f"must be true or false, not {value!r}")
        return value

    def integer(self, where: str, table: dict[str, Any], key: str, default: int = 0) -> int:
        """A whole number of 0 to 2^31 - 1."""
        value = table.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise self.bad(f"{where}.{key}", f"must be a whole number of 0 or more, not {value!r}")
        return value

    def weight(self, where: str, table: dict[str, Any], key: str) -> int:
        """A weight of the priority: 32 bits without a sign, as Slurm's."""
        value = table[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_WEIGHT:
            raise self.bad(f"{where}.{key}", f"must be a whole number from 0 to {MAX_WEIGHT}, not {value!r}")
        return value

    def names(self, where: str, table: dict[str, Any], key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.bad(f"{where}.{key}", "must be a list of names in quotes")
        return tuple(value)

    def parsed(self, where: str, table: dict[str, Any], key: str, parse: Callable[[str], T], default: T) -> T:
        """Text that `parse` reads."""
        if key not in table:
            return default
        return self.read(f"{where}.{key}", parse, self.text(where, table, key, ""))

    def read(self, key: str, parse: Callable[..., T], *values: Any) -> T:
        """What `parse` makes of the values; its refusal is told with file and key."""
        try:
            return parse(*values)
        except Refused as wrong:
            raise self.bad(key, wrong.message, wrong.hint) from wrong
