"""Frames: what is let through, and the caps that keep hostile bytes out."""

from __future__ import annotations

import struct

import msgpack
import pytest

from flagplot_wire import PROTOCOL_VERSION, codec, requests
from flagplot_wire.errors import Refused


def frame(value: object) -> bytes:
    packed = msgpack.packb(value)
    return struct.pack(">I", len(packed)) + packed


def decoder() -> codec.Decoder[requests.AnyRequest]:
    return codec.Decoder(requests.AnyRequest)


def body(**fields: object) -> bytes:
    return frame({"v": PROTOCOL_VERSION, "id": 3, "body": fields})


def test_a_request_survives_any_cut() -> None:
    data = codec.encode(requests.DrainNodes(("gpu01",), "fan"), 7) * 2
    reader = decoder()
    found = [one for index in range(len(data)) for one in reader.feed(data[index : index + 1])]
    assert found == [(7, requests.DrainNodes(("gpu01",), "fan"))] * 2


def test_unknown_fields_are_ignored_and_unknown_kinds_named() -> None:
    assert decoder().feed(body(type="job", job="41", colour="red")) == [(3, requests.GetJob("41"))]
    ((call, wrong),) = decoder().feed(body(type="teleport"))
    assert call == 3 and isinstance(wrong, codec.UnknownKind) and "teleport" in wrong.message


def test_wrong_fields_do_not_end_the_connection() -> None:
    reader = decoder()
    ((_, wrong),) = reader.feed(body(type="job", job=41))
    assert isinstance(wrong, codec.BadBody) and "job" in wrong.message
    assert reader.feed(body(type="job", job="41")) == [(3, requests.GetJob("41"))]


def test_another_version_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        decoder().feed(frame({"v": 99, "id": 1, "body": {"type": "status"}}))
    assert caught.value.code == "wrong_version" and "99" in caught.value.message


def nested(levels: int) -> object:
    value: object = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", codec.MAX_FRAME + 1),
        frame([1, 2]),
        frame({"v": PROTOCOL_VERSION, "id": 1}),
        frame({"v": PROTOCOL_VERSION, "id": "x", "body": {"type": "status"}}),
        frame({"v": PROTOCOL_VERSION, "id": 1, "body": nested(codec.MAX_DEPTH + 1)}),
        struct.pack(">I", 3) + b"\xc1\xc1\xc1",
        struct.pack(">I", 2) + b"\x80\x80",
    ],
    ids=["length", "no map", "no body", "bad id", "depth", "garbage", "left over"],
)
def test_what_is_no_frame_ends_the_connection(data: bytes) -> None:
    with pytest.raises(codec.BadFrame):
        decoder().feed(data)


def test_the_number_of_containers_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_CONTAINERS", 100)
    with pytest.raises(codec.BadFrame, match="more than 100"):
        decoder().feed(frame({"v": PROTOCOL_VERSION, "id": 1, "body": {"type": "status", "x": [[]] * 200}}))
