"""The pulse, driven by keys and by the clock."""

from __future__ import annotations

from support import sample_cluster as sample
from textual.pilot import Pilot

from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.pulse import PulseView
from flagplot_wire.errors import Refused
from flagplot_wire.requests import GetStatus


class Clock:
    def __init__(self) -> None:
        self.now = int(sample.NOW)

    def __call__(self) -> int:
        return self.now


async def press(app: FlagplotApp, pilot: Pilot[int], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        for _ in range(200):
            await pilot.pause()
            if app.active_view is not None and not any(worker.is_running for worker in app.workers):
                break


def make() -> tuple[FlagplotApp, sample.FakeChannel, Clock]:
    mirror, clock = sample.sample_mirror(), Clock()
    calls, channel = sample.sample_calls(mirror)
    return FlagplotApp(mirror=mirror, calls=calls, clock=clock), channel, clock


async def test_every_dial_opens_its_list_and_esc_leads_back() -> None:
    app, _, _ = make()
    async with app.run_test(size=(80, 24)) as pilot:
        await press(app, pilot, "7")
        pulse = app.active_view
        assert isinstance(pulse, PulseView)
        for at, dial in enumerate(pulse.dials.dials):
            await press(app, pilot, "home", *["tab"] * at, "enter")
            assert app.trail == ["pulse", dial.view] and app.active_view is not None
            assert app.active_view.filter_text == dial.filter
            await press(app, pilot, "escape", "escape")
            assert app.active_view is pulse and pulse.dials.current == dial


async def test_readings_follow_the_clock_also_while_hidden_and_the_cycle_is_asked_for_only_when_shown() -> None:
    app, channel, clock = make()
    async with app.run_test(size=(120, 40)) as pilot:
        await press(app, pilot, "7")
        pulse = app.active_view
        assert isinstance(pulse, PulseView) and [one.cycle_us for one in pulse.readings] == [1_400]
        pulse._read()
        assert len(pulse.readings) == 1, "no time has passed"
        clock.now += 5
        pulse._read()
        assert len(pulse.readings) == 2
        await press(app, pilot, "1")
        asked = sum(isinstance(one, GetStatus) for one in channel.asked)
        clock.now += 5
        pulse._read()
        assert len(pulse.readings) == 3 and sum(isinstance(one, GetStatus) for one in channel.asked) == asked
        app.mirror.connected = False
        clock.now += 5
        pulse._read()
        assert len(pulse.readings) == 3, "what is not heard is not read"


async def test_a_cycle_that_cannot_be_asked_is_unknown() -> None:
    app, channel, _ = make()
    channel.answers[GetStatus] = Refused("unavailable", "no")
    async with app.run_test(size=(60, 16)) as pilot:
        await press(app, pilot, "7")
        pulse = app.active_view
        assert isinstance(pulse, PulseView) and pulse.readings[-1].cycle_us is None
        text = [strip.text for strip in app.screen._compositor.render_strips()[:16]]
        assert any("Scheduling cycle" in line for line in text) and {len(line) for line in text} == {60}
