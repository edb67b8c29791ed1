"""Every screen as it is, at three sizes: its text, and at 80x24 the styles of the dark and the light theme.

The expected screens lie in `expected/SIZE/NAME.txt`. After a change that is meant, write them anew with
`FLAGPLOT_UPDATE_SNAPSHOTS=1 pytest tests/snapshot` and look at the difference.
"""

from __future__ import annotations

import difflib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import pytest
from msgspec import structs
from rich.style import Style
from support import sample_cluster as sample
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from flagplot.client.mirror import Mirror
from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.pulse import PulseView
from flagplot.tui.screens.submit import SubmitScreen
from flagplot.tui.widgets.job_panes import ChartsPane
from flagplot.view.job_chart import Point
from flagplot_wire import replies
from flagplot_wire.ids import Epoch, JobNumber

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected"
UPDATE = os.environ.get("FLAGPLOT_UPDATE_SNAPSHOTS") == "1"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def full() -> Mirror:
    return sample.sample_mirror()


def disconnected() -> Mirror:
    return sample.sample_mirror(connected=False)


def waiting() -> Mirror:
    mirror = Mirror()
    mirror.problem = "cannot connect to 127.0.0.1:7077"
    return mirror


def empty() -> Mirror:
    mirror = Mirror(welcome=replies.Welcome("new", "alice", ("user", "admin"), Epoch(1), "0.1.0", sample.NOW))
    mirror.connected, mirror.heard = True, sample.NOW
    mirror.take(replies.SnapshotPart(0, Epoch(1), True, True))
    return mirror


@dataclass(frozen=True)
class Shot:
    """A screen: the cluster, the keys that lead there, whether it is drawn large too."""

    keys: tuple[str, ...] = ()
    mirror: Callable[[], Mirror] = full
    large: bool = False
    options: dict[str, object] = field(default_factory=dict)
    after: Callable[[FlagplotApp], None] = lambda app: None
    """What happens when the keys were pressed."""


def an_hour_passes(app: FlagplotApp) -> None:
    """The pulse had an hour to be read in; it could not be while nobody answered."""
    view = app.screen_stack[0].query_one(PulseView)
    last = view.readings.pop()
    for at in range(0, 3_600, 5):
        wave = 1 + math.sin(at / 300) / 2
        view.readings.append(
            replace(
                last,
                time=last.time - 3_600 + at,
                pending=int(last.pending * wave),
                running=int(last.running * (2 - wave)),
                gpus_held=last.gpus_held * wave,
                busy=None if 1_000 < at < 1_400 else 40 + at // 90,
                drained=at // 1_300,
                starts=at // 60 % 7,
                cycle_us=900 + at % 700,
                oldest=None if at < 600 else last.oldest,
            )
        )
    view.readings.append(last)
    app.show_now()


def samples_come(app: FlagplotApp) -> None:
    """The page was open for ten minutes."""
    points = app.screen_stack[0].query_one(ChartsPane).history.points
    last = points.pop()
    for at in range(120):
        wave = math.sin(at / 9)
        points.append(
            Point(
                last.time - 600 + 5 * at,
                None if 30 < at < 36 else int(900 + 500 * wave),
                20_000 + 900 * at,
                int(50 + 45 * wave),
                300_000 + (at > 60) * 200_000,
            )
        )
    points.append(last)
    app.show_now()


def with_stderr() -> Mirror:
    mirror = full()
    job = mirror.jobs[JobNumber(41)]
    mirror.jobs[job.number] = structs.replace(job, spec=structs.replace(job.spec, stderr="train.err"))
    return mirror


WHY = ("slash", *"gang", "enter", "p")
SHOTS: dict[str, Shot] = {
    "queue": Shot(large=True),
    "queue-filter": Shot(("slash", *"user:bob")),
    "queue-marked": Shot(("space", "space", "o", "o")),
    "queue-unfolded": Shot(("z",), large=True),
    "queue-unfolded-singly": Shot(("slash", *"user:dave", "enter", "down", "x")),
    "queue-columns": Shot(("c", "J", "down", "space", "s"), large=True),
    "queue-empty": Shot(mirror=empty),
    "queue-waiting": Shot(mirror=waiting),
    "queue-disconnected": Shot(mirror=disconnected),
    "queue-read-only": Shot(options={"read_only": True}),
    "job-detail": Shot(("enter",), large=True),
    "job-why": Shot(WHY, large=True),
    "job-output": Shot(("l",), large=True),
    "job-script": Shot(("y",), large=True),
    "job-usage": Shot(("enter", "i"), large=True, after=samples_come),
    "job-usage-cpu": Shot(("slash", *"cpu-only", "enter", "enter", "i")),
    "job-depends": Shot(("slash", *"resnet", "enter", "enter", "D"), large=True),
    "job-steps": Shot(("enter", "S"), large=True),
    "job-history": Shot(("slash", *"id:68", "enter", "enter", "H"), large=True),
    "job-output-both": Shot(("slash", *"resnet", "enter", "l", "b", "k"), with_stderr, large=True),
    "submit": Shot(("n",), large=True),
    "submit-start": Shot(("n", "f4"), large=True),
    "submit-again": Shot(("slash", *"user:dave", "enter", "E"), large=True),
    "submit-differs": Shot(
        ("n", "f4", *"8gpu", "enter", *"again", *["tab"] * 6, "4", "tab", "tab", "tab", *"2:00:00"), large=True
    ),
    "edit": Shot(("e",), large=True),
    "edit-several": Shot(("slash", *"user:bob", "enter", "ctrl+a", "e", "tab", *"debug", "f2"), large=True),
    "confirm": Shot(("space", "space", "ctrl+d"), large=True),
    "failure": Shot(("colon", *"job 999", "enter"), large=True),
    "help": Shot(("question_mark",), large=True),
    "command": Shot(("colon", *"dra")),
    "command-log": Shot(("h", "at"), large=True),
    "nodes": Shot(("2",), large=True),
    "nodes-small": Shot(("2", "0", "plus", "plus", "minus")),
    "nodes-large": Shot(("2", "plus", "plus")),
    "nodes-dot": Shot(("2", "minus", "minus")),
    "nodes-fill": Shot(("2", "0", "plus", "plus", "minus", "c", "b", "b"), large=True),
    "nodes-partition": Shot(("2", "b", "space", "space")),
    "nodes-table": Shot(("2", "t"), large=True),
    "nodes-filter": Shot(("2", "slash", *"nothing", "enter")),
    "nodes-empty": Shot(("2",), empty),
    "node": Shot(("2", "right", "right", "right", "enter"), large=True),
    "node-wiring": Shot(("2", "slash", *"gpu04", "enter", "enter", "w"), large=True),
    "node-drained": Shot(("2", "slash", *"gpu08", "enter", "enter")),
    "node-unknown": Shot(("2", "end", "enter")),
    "drain": Shot(("2", "right", "right", "D"), large=True),
    "reboot": Shot(("2", "right", "right", "R"), large=True),
    "reserve": Shot(("2", "space", "space", "a", *"night", "enter", "enter", *"2:00:00", "enter", *"ann"), large=True),
    "drain-no-reason": Shot(("2", "D", "enter")),
    "resume": Shot(("2", "ctrl+a", "u")),
    "gpus": Shot(("3",), large=True),
    "gpus-shared": Shot(("3", "slash", *"shared", "enter")),
    "gpus-trouble": Shot(("3", "slash", *"node:gpu09", "enter", "o", "o")),
    "gpus-empty": Shot(("3",), empty),
    "timeline": Shot(("4",), large=True),
    "timeline-reserved": Shot(("4", "slash", *"gpu05", "enter", "down")),
    "timeline-near": Shot(("4", "plus", "plus", "right")),
    "timeline-folded": Shot(("4", "z")),
    "events": Shot(("5",), large=True),
    "events-empty": Shot(("5",), empty),
    "usage": Shot(("6",), large=True),
    "usage-used": Shot(("6", "tab"), large=True),
    "usage-by-user": Shot(("6", "tab", "b", "left")),
    "usage-folded": Shot(("6", "down", "x")),
    "usage-efficiency": Shot(("6", "tab", "tab")),
    "usage-quota": Shot(("6", "left_square_bracket")),
    "usage-filter": Shot(("6", "slash", *"erin", "enter")),
    "pulse": Shot(("7", "down"), large=True, after=an_hour_passes),
    "pulse-first": Shot(("7",)),
    "pulse-waiting": Shot(("7",), waiting),
    "usage-empty": Shot(("6", "tab", "tab"), empty),
}
SIZES = ((80, 24), (120, 40), (200, 60))
PLACES = [(name, size) for name, shot in SHOTS.items() for size in SIZES if size == SIZES[0] or shot.large]


@pytest.fixture(autouse=True)
def fixed_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("NO_COLOR", "FLAGPLOT_CONFINED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir("/")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def settle(app: FlagplotApp, pilot: Pilot[int]) -> None:
    """Wait until nothing is left to load, draw or blink."""
    for _ in range(200):
        await pilot.pause()
        waits = isinstance(app.screen, SubmitScreen) and "Asking" in str(
            app.screen.query_one("#submit-problem").render()
        )
        if not any(worker.is_running for worker in app.workers) and app.active_view is not None and not waits:
            break
        await pilot.pause(0.01)
    for kind in (Input, TextArea):
        for box in app.screen.query(kind):
            box.cursor_blink = False
    app.clear_notifications()
    app.show_now()
    await pilot.pause()


def lines_of(app: FlagplotApp) -> list[str]:
    """The text on screen."""
    _, height = app.size
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()[:height]]


def describe(style: Style | None) -> str:
    """A style in words that stay the same: attributes, then colours in hexadecimal."""
    if style is None:
        return "none"
    words = [word for word in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, word)]
    for prefix, colour in (("", style.color), ("on ", style.bgcolor)):
        if colour is not None:
            words.append(prefix + (colour.triplet.hex if colour.triplet else colour.name))
    return " ".join(words) or "none"


def styles_of(app: FlagplotApp) -> list[str]:
    """The styles on screen: a letter for each, then the runs of letters line by line."""
    seen: dict[str, str] = {}
    runs = []
    for strip in app.screen._compositor.render_strips()[: app.size.height]:
        cells: list[str] = []
        for segment in strip:
            words = describe(segment.style)
            if not segment.text.strip():
                # Blanks show their background only.
                words = words[words.find("on ") :] if "on " in words and "reverse" not in words else words
            letter = seen.setdefault(words, LETTERS[len(seen) % len(LETTERS)])
            cells += [letter] * segment.cell_length
        runs.append(" ".join(f"{letter}{len(list(some))}" for letter, some in groupby(cells)))
    return [*(f"{letter} = {words}" for words, letter in seen.items()), *runs]


async def capture(name: str, size: tuple[int, int]) -> str:
    """A screen as text, and at the smallest size with its styles in two themes."""
    shot = SHOTS[name]
    mirror = shot.mirror()
    calls, _ = sample.sample_calls(mirror)
    app = FlagplotApp(
        mirror=mirror,
        calls=calls,
        clock=lambda: int(sample.NOW),
        theme="dark",
        **shot.options,  # type: ignore[arg-type]
    )
    async with app.run_test(size=size) as pilot:
        app.animation_level = "none"
        await settle(app, pilot)
        for key in shot.keys:
            await pilot.press(key)
            if len(key) > 1 or key.isdigit():
                await settle(app, pilot)
        await settle(app, pilot)
        shot.after(app)
        await settle(app, pilot)
        text = lines_of(app)
        parts = [*text]
        if size == SIZES[0]:
            themes = ["dark", "light"] + (["mono", "colourblind"] if name in ("nodes", "gpus") else [])
            for theme in themes:
                app.theme = theme
                await settle(app, pilot)
                assert lines_of(app) == text, f"{name}: the theme {theme} changes the text"
                parts += [f"--- styles of {theme}", *styles_of(app)]
        return "\n".join(parts) + "\n"


@pytest.mark.parametrize(("name", "size"), PLACES, ids=[f"{name}-{size[0]}x{size[1]}" for name, size in PLACES])
async def test_screen(name: str, size: tuple[int, int]) -> None:
    drawn = await capture(name, size)
    path = EXPECTED / f"{size[0]}x{size[1]}" / f"{name}.txt"
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
        return
    assert path.exists(), f"{path} is missing: write it with FLAGPLOT_UPDATE_SNAPSHOTS=1"
    expected = path.read_text(encoding="utf-8")
    if drawn != expected:
        difference = difflib.unified_diff(
            expected.splitlines(), drawn.splitlines(), f"{path.name} expected", "drawn", lineterm="", n=1
        )
        pytest.fail("\n".join(difference), pytrace=False)


def test_no_expected_screen_is_left_over() -> None:
    wanted = {f"{size[0]}x{size[1]}/{name}.txt" for name, size in PLACES}
    assert {str(path.relative_to(EXPECTED)) for path in EXPECTED.glob("*/*.txt")} == wanted


@pytest.mark.parametrize(("name", "size"), [place for place in PLACES if place[1] == SIZES[0]])
def test_nothing_is_cut_short_at_80(name: str, size: tuple[int, int]) -> None:
    """The lines of hints and the top line have room for what they say."""
    text = (EXPECTED / "80x24" / f"{name}.txt").read_text(encoding="utf-8").splitlines()[:24]
    assert len(text) == 24
    if not any("╭" in line for line in text) and "Submit a job" not in text[0] and not text[23].startswith(":"):
        assert text[0].startswith(" ⚑ flagplot") and ("? keys" in text[23] or text[23].startswith("/"))
