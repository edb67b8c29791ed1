"""Lists as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from pathlib import Path

import pytest

from flagplot.client.own_files import write_new
from flagplot.view.export import file_name, plain, written
from flagplot.view.queue import Column
from flagplot_wire.errors import Refused

COLUMNS = [Column("id", "JOBID", 5), Column("fill", "", 8), Column("name", "NAME", 9)]


def test_csv_is_read_back_whatever_the_text() -> None:
    rows = [["41", "▁▂", 'a,"b"\n=1+1'], ["42", "", "評価"]]
    assert list(csv.reader(io.StringIO(written("csv", COLUMNS, rows)))) == [
        ["JOBID", "NAME"], ["41", 'a,"b"\n=1+1'], ["42", "評価"],
    ]  # fmt: skip


def test_json_has_the_columns_keys() -> None:
    assert json.loads(written("json", COLUMNS, [["41", "▁", "評価"]])) == [{"id": "41", "name": "評価"}]


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("state", "● R", "R"),
        ("state", "R", "R"),
        ("what", "✓ ended", "ended"),
        ("name", "* x", "* x"),
        ("util", "███░░ 61 %", "61 %"),
        ("state", "a b", "a b"),
    ],
)
def test_what_is_only_for_the_eye_is_left_out(key: str, text: str, wanted: str) -> None:
    assert plain(Column(key, "T", 5), text) == wanted


def test_file_names_hold_nothing_of_a_path() -> None:
    assert file_name("../node x", "csv", datetime(2026, 12, 3, 8, 15)) == "flagplot-node-x-20261203-081500.csv"


def test_a_file_is_never_written_over_unasked(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_new(path, b"one", over=False)
    with pytest.raises(Refused) as refused:
        write_new(path, b"two", over=False)
    assert refused.value.code == "exists" and path.read_bytes() == b"one"
    write_new(path, b"two", over=True)
    assert path.read_bytes() == b"two" and [one.name for one in tmp_path.iterdir()] == ["out.csv"]


def test_a_confined_session_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPLOT_CONFINED", "1")
    with pytest.raises(Refused, match="may write no files"):
        write_new(tmp_path / "out", b"x", over=True)
    assert list(tmp_path.iterdir()) == []
