"""Every screen in Chinese: no line broken by wide characters, and nothing left in English that has a translation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from snapshot import test_screens as screens
from snapshot.test_hostile import check
from support import sample_cluster as sample
from support.catalog import CATALOGS, catalog

from flagplot.language import speak, wished
from flagplot.tui.app import FlagplotApp

fixed_surroundings = screens.fixed_surroundings


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    speak(wished({"LANG": "zh_CN.UTF-8"}))
    yield
    speak(())


def sentences() -> list[str]:
    """Texts of three words or more, without figures in them: data are not mistaken for them."""
    ids = [one.id for one in catalog(CATALOGS / "zh_CN" / "LC_MESSAGES" / "flagplot.po") if isinstance(one.id, str)]
    return [one.strip() for one in ids if len(one.split()) > 2 and "{" not in one and "\n" not in one]


@pytest.mark.parametrize("name", sorted(screens.SHOTS))
async def test_screen_in_chinese(name: str) -> None:
    shot = screens.SHOTS[name]
    mirror = shot.mirror()
    calls, _ = sample.sample_calls(mirror)
    app = FlagplotApp(mirror=mirror, calls=calls, clock=lambda: int(sample.NOW), theme="dark", **shot.options)  # type: ignore[arg-type]
    async with app.run_test(size=(80, 24)) as pilot:
        app.animation_level = "none"
        assert await check(app, pilot, shot.keys) == []
        drawn = "\n".join(screens.lines_of(app))
        assert any("\u4e00" <= character <= "\u9fff" for character in drawn)
        assert [one for one in sentences() if one in drawn] == []
