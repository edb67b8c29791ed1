"""Saved views of the queue: what is written is read again, what is wrong is named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flagplot.client.own_views import load_views, save_views
from flagplot.view.queue import COLUMNS, SORTS, QueueSpec, columns_for
from flagplot.view.saved import Views, check_name, read, write
from flagplot_wire.errors import Refused


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_read(seed: int) -> None:
    dice = random.Random(seed)
    print("seed", seed)

    def spec() -> QueueSpec:
        columns = dice.sample([column.key for column in COLUMNS], dice.randrange(6))
        return QueueSpec(
            "".join(dice.choices('aé"\\ \n😀[]=#~', k=8)).strip().replace("\n", ""),
            dice.choice(list(SORTS)),
            dice.random() < 0.5,
            dice.random() < 0.5,
            dice.random() < 0.5,
            tuple(columns),
        )

    views = Views(spec(), {name: spec() for name in ("mine", "a-b", "7_x")[: dice.randrange(4)]})
    assert read(write(views)) == views


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sort = 'no'", "sort"),
        ("sort = 4", "sort"),
        ("colour = 'red'", "colour"),
        ("columns = ['id', 'no']", "columns"),
        ("columns = [4]", "columns"),
        ("[views.mine]\nended = 1", "views.mine.ended"),
        ("[views.'a b']\n", "a b"),
        ("views = 4", "views"),
        ("[views]\nmine = 4", "views.mine"),
        ("= =", "TOML"),
    ],
)
def test_what_is_wrong_is_named(text: str, named: str) -> None:
    with pytest.raises(Refused, match=named):
        read(text)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a.b", "x" * 32, "\x1b[31m"])
def test_a_name_is_one_word(name: str) -> None:
    with pytest.raises(Refused):
        check_name(name)


def test_the_file_is_the_person_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_views() == Views()
    views = Views(QueueSpec(columns=("name", "id")), {"mine": QueueSpec("user:me", "age")})
    save_views(views)
    assert load_views() == views
    (tmp_path / "flagplot" / "queue.toml").write_text("sort = 'no'")
    with pytest.raises(Refused, match=r"queue\.toml: .*sort"):
        load_views()
    monkeypatch.setenv("FLAGPLOT_CONFINED", "1")
    assert load_views() == Views()
    with pytest.raises(Refused):
        save_views(views)


def test_chosen_columns_keep_their_order_and_fit() -> None:
    assert [column.key for column, _ in columns_for(200, ("where", "id", "age"))] == ["where", "id", "age"]
    narrow = columns_for(40, tuple(column.key for column in COLUMNS))
    assert [column.key for column, _ in narrow] == ["id", "partition", "name"]
    assert 1 + sum(width + 1 for _, width in narrow) <= 40
