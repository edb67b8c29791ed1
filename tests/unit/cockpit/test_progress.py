"""The line that tells how far a transfer is."""

from __future__ import annotations

import pytest

from flagplot.cli.attach import parse_key
from flagplot.cli.progress import in_bytes, line
from flagplot_wire.errors import Refused


def test_bytes_for_people() -> None:
    told = [in_bytes(count) for count in (0, 1023, 1024, 1_572_864, 5 << 40, 5_000 << 40)]
    assert told == ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5.0 TiB", "5000.0 TiB"]


def test_lines() -> None:
    half = line("data.tar", 512 << 20, 1 << 30, 8.0, 100)
    assert half.startswith("data.tar  50 %  512.0 MiB of 1.0 GiB  64.0 MiB/s  ") and half.endswith(" left")
    assert line("data.tar", 1 << 30, 1 << 30, 8.0, 100).endswith("128.0 MiB/s"), "nothing is left"
    assert line("data.tar", 10, 0, 0.0, 100) == "data.tar  10 B  0 B/s"
    for width in (1, 20, 40, 80):
        assert len(line("a name that is much too long for a line " * 3, 5, 9, 1.0, width)) < max(width, 2)


def test_keys_to_leave_by() -> None:
    assert [parse_key(text) for text in ("ctrl-]", "Ctrl-A", "ctrl-z", "ctrl-@", "none")] == [
        b"\x1d",
        b"\x01",
        b"\x1a",
        b"\0",
        b"",
    ]
    for text in ("", "x", "ctrl-", "ctrl-1", "ctrl-ab", "alt-x", "ctrl-é"):
        with pytest.raises(Refused, match="--detach-key"):
            parse_key(text)
