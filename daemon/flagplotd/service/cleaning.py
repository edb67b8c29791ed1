"""Text that came from outside made harmless before it enters the state."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from flagplot_wire.text import clean

S = TypeVar("S", bound=Struct)


def cleaned(record: S) -> S:
    """The record with every text in it cleaned (see `flagplot_wire.text.clean`)."""
    plain = msgspec.to_builtins(record, builtin_types=(bytes,))
    return msgspec.convert(_clean(plain), type(record))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value
