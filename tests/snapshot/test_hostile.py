"""Text that attacks terminals, in everything users and nodes can name: shown harmlessly, every line as wide as the screen."""

from __future__ import annotations

import unicodedata
from typing import Any
from zlib import crc32

import msgspec
import pytest
from snapshot import test_screens as screens
from support import sample_cluster as sample
from textual.pilot import Pilot
from wcwidth import wcswidth

from flagplot.client.mirror import Mirror
from flagplot.tui.app import FlagplotApp
from flagplot_wire import replies

fixed_surroundings = screens.fixed_surroundings
NASTY = (
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31m\x90q\x9c",
    "[red]x[/red][@click=app.quit]y[/]",
    "\u202egpj.exe\u2066",
    "z\u200bw\u200dj\ufeff",
    "漢字カナ🚀",
    "e\u0301a\u0323\u0302",
    "👨\u200d👩\u200d👧🇩🇪❤\ufe0f",
    "👍🏽👍\U000e0067",
    "\r\n\t\x08\x7f",
    "long " * 2_000,
)
FIELDS = {"name", "user", "comment", "message", "node", "reason", "by", "detail", "never", "hints", "fault", "command",
          "work_dir", "account", "switch"}  # fmt: skip
SCREENS = [name for name, shot in screens.SHOTS.items() if shot.mirror is screens.full and "filter" not in name]


def poison(value: Any, field: str = "") -> Any:
    """Something nasty behind every text that users or nodes choose, the same behind the same text."""
    if isinstance(value, str) and not hasattr(value, "value") and field in FIELDS and value:
        return value + NASTY[crc32(value.encode()) % len(NASTY)]
    if isinstance(value, tuple):
        return tuple(poison(one, field) for one in value)
    if isinstance(value, msgspec.Struct) and not isinstance(value, replies.Welcome):
        changed = {name: poison(getattr(value, name), name) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    return value


def hostile_mirror(monkeypatch: pytest.MonkeyPatch) -> Mirror:
    take = Mirror.take
    monkeypatch.setattr(Mirror, "take", lambda self, push: take(self, poison(push)))
    return sample.sample_mirror()


def broken(text: str, columns: int) -> str:
    """What is wrong with a drawn line (empty: nothing)."""
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            return f"U+{ord(character):04X}"
    return "" if wcswidth(text) == columns else f"{wcswidth(text)} cells"


async def check(app: FlagplotApp, pilot: Pilot[int], keys: tuple[str, ...]) -> list[str]:
    await screens.settle(app, pilot)
    for key in keys:
        await pilot.press(key)
        if len(key) > 1 or key.isdigit():
            await screens.settle(app, pilot)
    await screens.settle(app, pilot)
    strips = app.screen._compositor.render_strips()[: app.size.height]
    return [f"{wrong}: {strip.text!r}" for strip in strips if (wrong := broken(strip.text, app.size.width))]


@pytest.mark.parametrize("name", SCREENS)
async def test_hostile_text_is_harmless(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = hostile_mirror(monkeypatch)
    calls, channel = sample.sample_calls(mirror)
    channel.output = "\n".join(NASTY).encode()
    shot = screens.SHOTS[name]
    app = FlagplotApp(mirror=mirror, calls=calls, clock=lambda: int(sample.NOW), theme="dark", **shot.options)  # type: ignore[arg-type]
    async with app.run_test(size=(80, 24)) as pilot:
        app.animation_level = "none"
        assert await check(app, pilot, shot.keys) == []
        assert app.is_running and app.title == "flagplot"
