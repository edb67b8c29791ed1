"""Frames: a 4-byte big-endian length, then one msgpack map `{v, id, kind?, body}`.

`id` pairs a reply with its request; pushes have id 0. The body is a map tagged by `type`. Length, number of
containers, their sizes and depth are capped before anything is made of a frame; unknown fields are ignored,
an unknown `type` raises `UnknownKind`, which names it.
"""

from __future__ import annotations

import struct
from typing import Any, Generic, TypeVar

import msgpack
import msgspec

from flagplot_wire import PROTOCOL_VERSION
from flagplot_wire.errors import Refused

T = TypeVar("T")

MAX_FRAME = 8 * 1024 * 1024
"""Bytes in one frame from a client or agent (a script may have 4 MiB)."""
MAX_CONTAINERS = 400_000
MAX_ITEMS = 200_000
MAX_DEPTH = 24
_LENGTH = struct.Struct(">I")


class BadFrame(Refused):
    """The peer sent something that is no frame; the connection cannot go on."""

    def __init__(self, message: str) -> None:
        super().__init__("protocol", message)


class UnknownKind(Refused):
    """A well-formed frame of a kind this side does not know; the connection goes on."""

    def __init__(self, kind: str, call: int) -> None:
        super().__init__("protocol", f"unknown kind {kind[:80]!r}", "the two sides may have different versions")
        self.call = call


class BadBody(Refused):
    """A known kind whose fields are wrong; the connection goes on."""

    def __init__(self, message: str, call: int) -> None:
        super().__init__("protocol", message)
        self.call = call


def encode(body: msgspec.Struct, call: int = 0) -> bytes:
    """One frame, length included, that carries `body` as (the answer to) call `call`."""
    packed = msgspec.msgpack.encode({"v": PROTOCOL_VERSION, "id": call, "body": body})
    if len(packed) > MAX_FRAME:
        raise BadFrame(f"a frame of {len(packed)} bytes is above the cap of {MAX_FRAME}")
    return _LENGTH.pack(len(packed)) + packed


class Decoder(Generic[T]):
    """Cuts a byte stream into typed bodies of the union `kinds`. Not thread-safe.

    With `trusted` (a client reads its controller) frames are decoded straight into their types, ten times as
    quick; what does not fit is then read the careful way, which caps containers, sizes and depth.
    """

    def __init__(self, kinds: Any, max_frame: int = MAX_FRAME, trusted: bool = False) -> None:
        self._kinds = kinds
        self._straight = msgspec.msgpack.Decoder(_envelope(kinds)) if trusted else None
        self._max_frame = max_frame
        self._buffer = bytearray()
        self._known = _tags(kinds)

    def feed(self, data: bytes) -> list[tuple[int, T | Refused]]:
        """Add bytes; returns complete frames as (call, body).

        A frame of an unknown kind or with wrong fields gives `UnknownKind` or `BadBody` in place of the body;
        raises `BadFrame` when the stream is beyond repair.
        """
        self._buffer += data
        found: list[tuple[int, T | Refused]] = []
        while len(self._buffer) >= 4:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > self._max_frame:
                raise BadFrame(f"a frame of {length} bytes is above the cap of {self._max_frame}")
            if len(self._buffer) < 4 + length:
                break
            packed = bytes(self._buffer[4 : 4 + length])
            del self._buffer[: 4 + length]
            found.append(self._decode(packed))
        return found

    def _decode(self, packed: bytes) -> tuple[int, T | Refused]:
        if self._straight is not None:
            try:
                whole = self._straight.decode(packed)
            except (msgspec.DecodeError, RecursionError):
                # The careful way below tells what is wrong with it.
                return self._decode_carefully(packed)
            if whole.v == PROTOCOL_VERSION:
                return whole.id, whole.body
        return self._decode_carefully(packed)

    def _decode_carefully(self, packed: bytes) -> tuple[int, T | Refused]:
        envelope = unpack(packed)
        if not isinstance(envelope, dict) or not isinstance(envelope.get("body"), dict):
            raise BadFrame("a frame must be a map with a body")
        if envelope.get("v") != PROTOCOL_VERSION:
            raise Refused(
                "wrong_version",
                f"the other side speaks protocol {envelope.get('v')!r}, this one {PROTOCOL_VERSION}",
                "bring both to the same version of Flagplot",
            )
        call, body = envelope.get("id"), envelope["body"]
        if not isinstance(call, int):
            raise BadFrame("a frame's id must be an integer")
        kind = body.get("type")
        if kind not in self._known:
            return call, UnknownKind(str(kind), call)
        try:
            return call, msgspec.convert(body, self._kinds)
        except msgspec.ValidationError as wrong:
            return call, BadBody(f"{kind}: {wrong}", call)


def unpack(packed: bytes) -> Any:
    """Unpack one msgpack value within the caps of this module; raises `BadFrame`."""
    count = 0

    def container(value: Any) -> Any:
        nonlocal count
        count += 1
        if count > MAX_CONTAINERS:
            raise BadFrame(f"more than {MAX_CONTAINERS} maps and lists in one frame")
        return value

    unpacker = msgpack.Unpacker(
        raw=False,
        max_buffer_size=len(packed) or 1,
        max_array_len=MAX_ITEMS,
        max_map_len=MAX_ITEMS,
        object_hook=container,
        list_hook=container,
        strict_map_key=True,
    )
    unpacker.feed(packed)
    try:
        value = unpacker.unpack()
    except BadFrame:
        raise
    except Exception as wrong:
        raise BadFrame(f"not msgpack within the limits: {type(wrong).__name__} {wrong}") from wrong
    if unpacker.tell() != len(packed):
        raise BadFrame("bytes left over after the frame's value")
    _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise BadFrame(f"nested deeper than {MAX_DEPTH} levels")


def _envelope(kinds: Any) -> Any:
    return msgspec.defstruct("Envelope", [("v", int), ("id", int), ("body", kinds)])


def _tags(kinds: Any) -> frozenset[str]:
    structs = getattr(kinds, "__args__", (kinds,))
    return frozenset(str(kind.__struct_config__.tag) for kind in structs)
