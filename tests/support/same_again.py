"""The same state with other names of nodes, or at another time."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec

TIMES = {
    "start", "end", "submit_time", "eligible_time", "start_time", "end_time", "retry_at", "stop_by", "suspended_at", "since",
    "begin", "usage_at",
}  # fmt: skip
"""Fields that are moments; 0 is none."""


def renamed(thing: Any, names: dict[str, str]) -> Any:
    """A copy in which every string that is one of `names` is another."""
    return _changed(thing, "", lambda value, _: names.get(value, value) if isinstance(value, str) else value)


def shifted(thing: Any, seconds: int) -> Any:
    """A copy in which every moment is later."""
    return _changed(
        thing, "", lambda value, name: value + seconds if name in TIMES and type(value) is int and value else value
    )


def _changed(thing: Any, name: str, change: Callable[[Any, str], Any]) -> Any:
    if isinstance(thing, msgspec.Struct):
        fields = {field: _changed(getattr(thing, field), field, change) for field in thing.__struct_fields__}
        return msgspec.structs.replace(thing, **fields)
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        made = copy.copy(thing)
        for field in dataclasses.fields(thing):
            setattr(made, field.name, _changed(getattr(thing, field.name), field.name, change))
        return made
    if isinstance(thing, dict):
        return type(thing)({_changed(key, "", change): _changed(value, "", change) for key, value in thing.items()})
    if isinstance(thing, tuple | list | set | frozenset):
        return type(thing)(_changed(one, "", change) for one in thing)
    return change(thing, name)
