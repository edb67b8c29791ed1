"""Keeping frames below their cap: records are sent in as many pieces as they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

S = TypeVar("S", bound=Struct)

PIECE_BYTES = 2 * 1024 * 1024
"""Bytes of records in one frame; a frame's own cap is four times that."""
_encoder = msgspec.msgpack.Encoder()


def size_of(record: Struct) -> int:
    """About the bytes that a record takes in a frame (keys of defaults that are left out included or not)."""
    return len(_encoder.encode(record))


def pieces(records: Sequence[S], most: int) -> Iterator[tuple[S, ...]]:
    """Cut into tuples of at most `most` records and about `PIECE_BYTES` bytes."""
    start, taken = 0, 0
    for position, record in enumerate(records):
        size = size_of(record)
        if position > start and (taken + size > PIECE_BYTES or position - start >= most):
            yield tuple(records[start:position])
            start, taken = position, 0
        taken += size
    if start < len(records):
        yield tuple(records[start:])
