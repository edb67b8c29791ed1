"""Which language is spoken, and that the catalogs are whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support import catalog as tool

from flagplot.language import CATALOGS, speak, tr, tr_count, wished

PATHS = sorted(CATALOGS.glob("*/LC_MESSAGES/flagplot.po"))


@pytest.fixture(autouse=True)
def english_again() -> Iterator[None]:
    yield
    speak(())


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, []),
        ({"LANG": "zh_CN.UTF-8"}, ["zh_CN"]),
        ({"LANG": "zh_TW.UTF-8"}, ["zh_CN"]),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, []),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, ["zh_CN"]),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "de:zh_CN"}, ["de", "zh_CN", "de_DE.UTF-8"]),
    ],
)
def test_wished(environment: dict[str, str], expected: list[str]) -> None:
    assert wished(environment) == expected


@pytest.mark.parametrize(
    ("languages", "queue"),
    [([], "Queue"), (["zh_CN"], "队列"), (["de", "zh_CN"], "队列"), (["en_GB", "zh_CN"], "Queue"), (["xx"], "Queue")],
)
def test_the_first_that_is_there_is_spoken(languages: list[str], queue: str) -> None:
    speak(languages)
    assert tr("Queue") == queue


def test_numbers_choose_the_form() -> None:
    assert [tr_count("{count} node", "{count} nodes", count) for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    speak(["zh_CN"])
    assert [tr_count("{count} node", "{count} nodes", count) for count in (1, 2)] == ["1 个节点", "2 个节点"]


def test_unknown_texts_stay_as_they_are() -> None:
    speak(["zh_CN"])
    assert tr("never seen") == "never seen" and tr("") == ""


def places(text: str) -> list[str]:
    return sorted(re.findall(r"{\w+}", text))


@pytest.mark.parametrize("path", PATHS, ids=[path.parts[-3] for path in PATHS])
def test_a_catalog_is_whole(path: tool.Path) -> None:
    known = tool.catalog(path)
    ids = {one.id for one in known if one.id}
    assert ids == {*tool.texts()}, "python tests/support/catalog.py brings it up to date"
    for one in known:
        if one.id:
            forms = one.string if isinstance(one.string, tuple) else (one.string,)
            assert all(forms), f"{one.id!r} has no translation"
            assert not one.fuzzy
            last = one.id if isinstance(one.id, str) else one.id[-1]
            assert all(places(form) == places(last) for form in forms), one.id
            assert all(form.count("\n") == last.count("\n") for form in forms), one.id
    assert path.with_suffix(".mo").read_bytes() == tool.compiled(known)
