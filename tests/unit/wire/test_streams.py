"""Streams: credit is kept, a slow reader holds up its own stream alone, ends reach the other side."""

from __future__ import annotations

import asyncio
import random

import pytest

from flagplot_wire.errors import Refused
from flagplot_wire.streams import PIECE, WINDOW, End, Meter, StreamCredit, StreamData, StreamEnd


class Pair:
    """Two ends; frames wait until `deliver`."""

    def __init__(self) -> None:
        self.frames: list[tuple[End, object]] = []
        self.left = End(1, lambda frame: self.frames.append((self.right, frame)), asyncio.Event())
        self.right = End(1, lambda frame: self.frames.append((self.left, frame)), asyncio.Event())

    def deliver(self) -> None:
        while self.frames:
            end, frame = self.frames.pop(0)
            end.arrived(frame)  # type: ignore[arg-type]


def test_any_amounts_arrive_whole_and_in_order() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    pair, data = Pair(), dice.randbytes(3 * WINDOW)
    sent = 0
    got = bytearray()
    while len(got) < len(data):
        sent += pair.left.put(data[sent : sent + dice.randrange(1, 100_000)])
        assert all(len(frame.data) <= PIECE for _, frame in pair.frames if isinstance(frame, StreamData))
        if dice.random() < 0.5:
            pair.deliver()
        while dice.random() < 0.7 and (piece := pair.right.take()):
            got += piece
    assert bytes(got) == data


def test_no_more_than_a_window_is_under_way() -> None:
    pair = Pair()
    assert pair.left.put(bytes(2 * WINDOW)) == WINDOW and pair.left.put(b"x") == 0
    pair.deliver()
    assert pair.left.put(b"x") == 0, "nothing was read"
    while pair.right.take():
        continue
    pair.deliver()
    assert pair.left.put(bytes(2 * WINDOW)) == WINDOW


def test_ends() -> None:
    pair = Pair()
    pair.left.put(b"last")
    pair.left.finish()
    pair.deliver()
    assert (pair.right.take(), pair.right.take(), pair.right.over) == (b"last", b"", False)
    pair.right.close(Refused("not_found", "no such port", "try another"))
    pair.deliver()
    with pytest.raises(Refused, match="no such port"):
        pair.left.take()
    with pytest.raises(Refused, match="no such port"):
        pair.left.put(b"x")
    assert pair.left.over and pair.right.over


def test_who_breaks_the_credit_is_cut_off() -> None:
    told: list[object] = []
    end = End(5, told.append, asyncio.Event())
    end.arrived(StreamData(5, bytes(WINDOW + 1)))
    assert isinstance(told[-1], StreamEnd) and told[-1].code == "protocol"
    end = End(5, told.append, asyncio.Event())
    end.arrived(StreamCredit(5, 1))
    assert end.over
    with pytest.raises(Refused):
        Meter().grant(0)
