"""Charts in eighths of cells."""

from __future__ import annotations

import pytest

from flagplot.view.chart import Value, chart, squeezed


def text(rows: list[list[tuple[str, str]]]) -> list[str]:
    return ["".join(piece for piece, _ in row) for row in rows]


def test_heights_in_eighths_of_two_rows() -> None:
    assert text(chart([0, 1, 4, 8, 9, 16], 6, 2, 16)) == ["    ▁█", " ▁▄███"]


def test_the_latest_stand_right_and_the_first_are_left_out() -> None:
    assert text(chart([1, 2], 4, 1, 2)) == ["  ▄█"]
    assert text(chart([1, 1, 1, 2, 0], 2, 1, 2)) == ["█ "]
    assert text(chart([], 3, 2, 5)) == ["   ", "   "]


def test_a_little_is_not_nothing_and_unknown_is_neither() -> None:
    assert text(chart([0.001, None, 0], 3, 1, 1_000)) == ["▁· "]
    assert text(chart([0, 0], 2, 1, 0)) == ["  "]


def test_what_is_asked_for_is_a_line_that_bars_hide_or_pass() -> None:
    rows = chart([4, 8, 16], 5, 2, 16, "meter", line=8)
    assert text(rows) == ["    █", "──▄██"]
    assert rows[1] == [("──", "faint"), ("▄█", "meter"), ("█", "meter")] or rows[1][-1] == ("▄██", "meter")
    assert rows[0][-1] == ("█", "bad")
    assert text(chart([4], 3, 2, 16, line=16)) == ["▔▔▔", "  ▄"]
    assert text(chart([16], 2, 2, 16, line=20)) == [" █", " █"]


@pytest.mark.parametrize("width", [1, 2, 3, 7, 40])
def test_squeezed_keeps_the_peaks_and_the_latest(width: int) -> None:
    values: list[Value] = [3, None, 9, 1, None, None, 4, 2, 8, 5]
    found = squeezed(values, width)
    assert len(found) <= width
    assert max(value for value in found if value is not None) == 9
    assert squeezed([None, None], 1) == [None]
    assert squeezed([1, 2, 3, 4, 5], 3) == [1, 3, 5]
