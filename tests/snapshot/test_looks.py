"""The cockpit for everyone: every screen in ASCII alone, without colour, and without motion."""

from __future__ import annotations

import pytest
from snapshot import test_screens as screens
from support import sample_cluster as sample
from textual.widgets import Input

from flagplot.tui.app import FlagplotApp
from flagplot.tui.looks import ASCII, Looks, ascii_of
from flagplot.view import fleet, words

fixed_surroundings = screens.fixed_surroundings


def started(name: str, **looks: bool) -> FlagplotApp:
    shot = screens.SHOTS[name]
    mirror = shot.mirror()
    return FlagplotApp(
        mirror=mirror,
        calls=sample.sample_calls(mirror)[0],
        clock=lambda: int(sample.NOW),
        looks=Looks(**looks),
        **shot.options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", screens.SHOTS)
async def test_ascii_alone(name: str) -> None:
    app = started(name, ascii=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await screens.settle(app, pilot)
        for key in screens.SHOTS[name].keys:
            await pilot.press(key)
            if len(key) > 1 or key.isdigit():
                await screens.settle(app, pilot)
        await screens.settle(app, pilot)
        drawn = screens.lines_of(app)
        assert any("flagplot" in line for line in drawn)
        assert [line for line in drawn if not line.isascii()] == []
        assert {strip.cell_length for strip in app.screen._compositor.render_strips()[:24]} == {80}


def test_states_stay_apart_in_ascii() -> None:
    jobs = {look[0] for look in words._LOOKS.values()} | {"◇"}
    nodes = {look.glyph for look in fleet.LOOKS.values()}
    for glyphs in (jobs, nodes, set("▁▂▃▄▅▆▇█"), set("█▄░"), set("━╸─"), set("▔▁·█")):
        assert len({glyph.translate(ASCII) for glyph in glyphs}) == len(glyphs)


@pytest.mark.parametrize(
    ("text", "plain"), [("é", "e"), ("漢字", "????"), ("a\u0301b", "ab"), ("╭─╮", "+-+"), ("⣿", "?"), ("", "")]
)
def test_one_cell_for_one_cell(text: str, plain: str) -> None:
    assert ascii_of(text) == plain


async def test_no_colour_and_no_motion() -> None:
    app = started("queue", mono=True, still=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await screens.settle(app, pilot)
        assert app.theme == "mono" and app.animation_level == "none"
        app.theme = "dark"
        await screens.settle(app, pilot)
        for strip in app.screen._compositor.render_strips()[:24]:
            for segment in strip:
                for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    assert colour is None or not colour.triplet or len(set(colour.triplet)) == 1, segment
        await pilot.press("slash")
        await pilot.pause()
        assert isinstance(app.focused, Input) and not app.focused.cursor_blink
