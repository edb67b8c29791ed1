"""Themes: checked key by key, overridden by a person's own, readable."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color

from flagplot import theming
from flagplot.tui.roles import owner_colour
from flagplot_wire.errors import Refused

NONE = Path("/nonexistent")
OURS = ("colourblind", "colourblind-light", "contrast", "dark", "ember", "light", "midnight", "mono")
COLOUR_BLIND = ("colourblind", "colourblind-light")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def contrast(style: str, background: str) -> float:
    found = Style.parse(style).color
    if found is None or found.triplet is None:
        return 21.0
    front, back = (_luminance(Color.parse(text)) for text in (found.triplet.hex, background))
    return (max(front, back) + 0.05) / (min(front, back) + 0.05)


def _luminance(colour: Color) -> float:
    parts = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_the_product_brings_its_themes() -> None:
    assert theming.names(NONE) == list(OURS)
    themes, problems = theming.load_all(NONE)
    assert sorted(themes) == list(OURS) and problems == []
    assert set(themes["dark"].states) == set(theming.STATES)


@pytest.mark.parametrize("name", OURS)
def test_states_and_words_are_readable(name: str) -> None:
    theme = theming.load(name, NONE)
    background = theme.textual_theme.background or "#000000"
    panel = theme.textual_theme.panel or "#000000"
    for state, style in theme.states.items():
        assert contrast(style, background) >= 4.0, state
    for role in ("dim", "warning", "bad", "good", "key"):
        assert contrast(theme.roles[role], background) >= 4.5, role
        assert contrast(theme.roles[role], panel) >= 4.0, role
    assert all(contrast(owner, background) >= 4.5 for owner in theme.owners)


@pytest.mark.parametrize("name", [name for name in OURS if name != "mono"])
def test_owners_are_told_apart_by_colour_blind_eyes(name: str) -> None:
    owners = theming.load(name, NONE).owners
    assert len(owners) >= 8
    for matrix in (PLAIN, DEUTERANOPIA, PROTANOPIA):
        for one, other in itertools.combinations(owners, 2):
            assert math.dist(_seen(one, matrix), _seen(other, matrix)) > 20, (one, other)


@pytest.mark.parametrize("name", COLOUR_BLIND)
def test_what_is_well_and_what_is_wrong_are_told_apart_by_colour_blind_eyes(name: str) -> None:
    theme = theming.load(name, NONE)
    groups = [("running", "failed", "draining"), ("idle", "down", "drained"), ("pending", "timeout", "drained")]
    for matrix in (PLAIN, DEUTERANOPIA, PROTANOPIA):
        for group in groups:
            for one, other in itertools.combinations(group, 2):
                assert math.dist(_seen(_front(theme, one), matrix), _seen(_front(theme, other), matrix)) > 15, (
                    one,
                    other,
                )


def test_high_contrast_is_seven_to_one() -> None:
    theme = theming.load("contrast", NONE)
    roles = ("dim", "placeholder", "good", "warning", "bad", "key")
    styles = [*theme.states.values(), *theme.owners, *(theme.roles[role] for role in roles)]
    for background in (theme.textual_theme.background, theme.textual_theme.panel):
        assert background and all(contrast(style, background) >= 7.0 for style in styles)


def _front(theme: theming.FlagTheme, state: str) -> str:
    colour = Style.parse(theme.states[state]).color
    assert colour is not None and colour.triplet is not None
    return colour.triplet.hex


PLAIN = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
PROTANOPIA = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
"""How linear RGB falls together for these eyes (Machado, Oliveira and Fernandes, 2009)."""


def _seen(text: str, matrix: tuple[tuple[float, float, float], ...]) -> tuple[float, float, float]:
    """A colour in CIELAB as these eyes see it; a distance of 2 is just noticed."""
    rgb = Color.parse(text).normalized
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in rgb]
    red, green, blue = (
        min(1.0, max(0.0, sum(weight * value for weight, value in zip(row, linear, strict=True)))) for row in matrix
    )
    x, y, z = (
        value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116
        for value in (
            (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047,
            0.2126 * red + 0.7152 * green + 0.0722 * blue,
            (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883,
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_own_file_changes_only_what_it_says(tmp_path: Path) -> None:
    write(tmp_path, "dark", '[states]\nidle = "bold #00ffcc"\n')
    mine, plain = theming.load("dark", tmp_path), theming.load("dark", NONE)
    assert mine.states["idle"] == "bold #00ffcc"
    assert mine.states["down"] == plain.states["down"] and mine.owners == plain.owners
    assert mine.textual_theme.variables["state-idle"] == "bold #00ffcc"


def test_new_theme_starts_from_its_base_and_derives_from_its_colours(tmp_path: Path) -> None:
    write(tmp_path, "paper", 'base = "light"\n[colours]\nsuccess = "#004400"\n')
    paper, light = theming.load("paper", tmp_path), theming.load("light", NONE)
    assert "paper" in theming.names(tmp_path)
    assert not paper.textual_theme.dark
    assert paper.states["idle"] == "#004400" and paper.states["mixed"] == light.states["mixed"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[states]\nruning = "red"\n', "states.runing"),
        ("[colours]\nprimary = 7\n", "colours.primary"),
        ('[colours]\nprimary = "blue-ish"\n', "colours.primary"),
        ('[roles]\ndim = "sparkly"\n', "roles.dim"),
        ("owners = []\n", "owners"),
        ('owners = ["nope nope"]\n', "owners[0]"),
        ("states = 3\n", "states"),
        ("dark = 1\n", "dark"),
        ("base = 1\n", "base"),
        ('x = "a\n', "TOML"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, "mine", text)
    with pytest.raises(Refused) as caught:
        theming.load("mine", tmp_path)
    assert str(path) in caught.value.message and says in caught.value.message
    themes, problems = theming.load_all(tmp_path)
    assert "mine" not in themes and len(problems) == 1 and "dark" in themes


def test_no_such_theme_and_circles(tmp_path: Path) -> None:
    for name in ("nope", "../dark", "", "A"):
        with pytest.raises(Refused, match="no theme"):
            theming.load(name, tmp_path)
    write(tmp_path, "a", 'base = "b"\n')
    write(tmp_path, "b", 'base = "a"\n')
    with pytest.raises(Refused, match="its own base"):
        theming.load("a", tmp_path)


def test_where_own_themes_lie() -> None:
    assert theming.user_folder({"HOME": "/home/a"}) == Path("/home/a/.config/flagplot/themes")
    assert theming.user_folder({"HOME": "/home/a", "XDG_CONFIG_HOME": "/x"}) == Path("/x/flagplot/themes")
    assert theming.user_folder({"HOME": "/home/a", "FLAGPLOT_CONFINED": "1"}) is None
    assert theming.default_name({}) == "dark"
    assert theming.default_name({"NO_COLOR": "1"}, "light") == "mono"
    assert theming.default_name({"NO_COLOR": ""}, "light") == "light"


def test_owners_keep_their_colour_and_do_not_clash_needlessly() -> None:
    variables = {f"owner-{at}": f"#{at:06x}" for at in range(1, 10)}
    taken: dict[str, int] = {}
    names = ["bob", "carol", "dave", "erin", "frank", "mallory", "root", "zoe"]
    first = {name: owner_colour(name, "alice", variables, taken) for name in names}
    assert len(set(first.values())) == 8 and owner_colour("alice", "alice", variables, taken) == "#000001"
    assert "#000001" not in first.values()
    assert {name: owner_colour(name, "alice", variables, taken) for name in reversed(names)} == first
    assert owner_colour("one-more", "alice", variables, taken) in first.values()
