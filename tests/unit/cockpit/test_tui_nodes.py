"""The views of machines, driven by keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from support import sample_cluster as sample
from textual.pilot import Pilot
from textual.widgets import Input

from flagplot.client.mirror import Mirror
from flagplot.tui import commands
from flagplot.tui.app import FlagplotApp
from flagplot.tui.screens.confirm import ConfirmDialog, Popup
from flagplot.tui.screens.drain import DrainDialog
from flagplot.tui.screens.events import EventsView
from flagplot.tui.screens.gpus import GpusView
from flagplot.tui.screens.job import JobView
from flagplot.tui.screens.node import NodeView
from flagplot.tui.screens.nodes import NodesView
from flagplot.tui.screens.reserve import ReserveDialog
from flagplot.tui.screens.timeline import TimelineView
from flagplot.tui.widgets.topline import TopLine
from flagplot_wire import requests
from flagplot_wire.errors import Refused
from flagplot_wire.events import Event, JobAdded, JobsForgotten, NodeChanged, NodeRemoved
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.node import Drain, Gpu, Inventory, Node
from flagplot_wire.replies import EventsPushed, SamplesPushed, SnapshotPart
from flagplot_wire.telemetry import NodeSample


def make(mirror: Mirror | None = None, **options: object) -> tuple[FlagplotApp, object]:
    mirror = mirror or sample.sample_mirror(**{key: options.pop(key) for key in ("user", "roles") if key in options})
    calls, channel = sample.sample_calls(mirror)
    return FlagplotApp(mirror=mirror, calls=calls, clock=lambda: sample.NOW, **options), channel  # type: ignore[arg-type]


def large(nodes: int) -> Mirror:
    gpus = tuple(Gpu(index, f"u{index}", "h100") for index in range(8))
    inventory = Inventory("b", 2, 64, 1, "0-63", 1_000_000, gpus=gpus, switch="s1")
    mirror = Mirror(connected=True, heard=sample.NOW)
    mirror.take(
        SnapshotPart(
            1,
            Epoch(1),
            True,
            True,
            nodes=tuple(Node(f"n{number:05}", inventory, responding=True) for number in range(nodes)),
        )
    )
    return mirror


async def until(pilot: Pilot[int], condition: Callable[[], object]) -> None:
    for _ in range(200):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("the condition never came true")


async def view(app: FlagplotApp, pilot: Pilot[int], key: str, kind: type) -> object:
    await until(pilot, lambda: app.active_view)
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.active_view, kind))
    await pilot.pause()
    return app.active_view


def screen_text(app: FlagplotApp) -> str:
    return "\n".join(line.text for line in app.screen._compositor.render_strips())


async def test_map_moves_marks_filters_and_opens() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 30)) as pilot:
        nodes = await view(app, pilot, "2", NodesView)
        assert isinstance(nodes, NodesView) and nodes.cursor == "gpu01"
        text = screen_text(app)
        assert "◑ gpu03 ██████░░" in text and "▽ gpu08" in text and "✗ down 1" in text
        await pilot.press("right", "right", "down")
        assert nodes.cursor == "gpu06"
        await pilot.press("home", "space", "space")
        assert nodes.chosen() == ["gpu01", "gpu02"] and nodes.cursor == "gpu03"
        assert "2 marked" in app.query_one(TopLine).second().plain
        await pilot.press("escape")
        assert nodes.chosen() == ["gpu03"]
        await pilot.press("slash", *"state:drain", "enter")
        await until(pilot, lambda: nodes.map.names == ["gpu08", "gpu10"])
        assert nodes.cursor == "gpu08" and "2 of 12" in app.query_one(TopLine).second().plain
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.active_view, NodeView))
        assert "bad riser [slot 3]" in screen_text(app) and "node gpu08" in app.query_one(TopLine).second().plain
        await pilot.press("escape")
        await until(pilot, lambda: app.active_view is nodes)
        await pilot.press("escape")
        await until(pilot, lambda: len(nodes.map.names) == 12)


async def test_zoom_group_and_table_keep_cursor_and_marks() -> None:
    app, _ = make()
    async with app.run_test(size=(120, 40)) as pilot:
        nodes = await view(app, pilot, "2", NodesView)
        assert isinstance(nodes, NodesView)
        assert nodes.map.layout_map.size.zoom == "large" and "cpu" in screen_text(app)
        await pilot.press("minus")
        assert nodes.map.layout_map.size.zoom == "small"
        await pilot.press("minus", "minus")
        assert nodes.map.layout_map.size.zoom == "dot"
        await pilot.press("c")
        assert nodes.map.layout_map.size.fill == "CPUs" and "CPUs held" in screen_text(app)
        await pilot.press("c", "c", "0")
        assert nodes.map.layout_map.size.zoom == "large" and nodes.map.layout_map.size.fill == "GPUs"
        await pilot.press("b")
        assert "debug" in screen_text(app) and "by partition" in app.query_one(TopLine).second().plain
        await pilot.press("b", "b", "b", "right", "space")
        await pilot.press("t")
        assert nodes.as_table and nodes.cursor == "gpu03" and nodes.chosen() == ["gpu02"]
        text = screen_text(app)
        assert "REASON" in text and "bad riser [slot 3]" in text and "16/64" in text
        await pilot.press("o")
        assert nodes.spec.sort == "state"
        await pilot.press("t")
        assert not nodes.as_table and nodes.cursor == "gpu03"


async def test_drain_needs_a_reason_and_names_the_jobs() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        nodes = await view(app, pilot, "2", NodesView)
        assert isinstance(nodes, NodesView)
        await pilot.press("right", "right", "space", "space", "D")
        await until(pilot, lambda: isinstance(app.screen, DrainDialog))
        await pilot.pause()
        text = screen_text(app)
        assert "gpu[03-04]" in text and "resnet50" in text and "5 jobs on 2 nodes" in text
        await pilot.press("enter")
        assert "A reason is required" in screen_text(app) and not channel.asked  # type: ignore[attr-defined]
        await pilot.press(*"fan [1] noise", "enter")
        await until(pilot, lambda: channel.asked)  # type: ignore[attr-defined]
        assert channel.asked == [requests.DrainNodes(("gpu03", "gpu04"), "fan [1] noise")]  # type: ignore[attr-defined]
        await until(pilot, lambda: app.command_log)
        assert app.command_log[0][1] == "flagplot drain gpu[03-04] --reason 'fan [1] noise'"


async def test_drain_dialog_checks_typed_host_lists() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.active_view)
        commands.open_drain(app, [])
        await until(pilot, lambda: isinstance(app.screen, DrainDialog) and app.screen.query("#drain-error"))
        await pilot.pause()
        for text, says in (("gpu[01-", "host"), ("gpu77", "no node gpu77"), ("gpu06", "No job runs there")):
            app.screen.query_one("#drain-nodes", Input).value = text
            await pilot.pause()
            assert says in screen_text(app)
        app.screen.query_one("#drain-nodes", Input).value = "gpu77"
        app.screen.query_one("#drain-reason", Input).value = "x"
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, DrainDialog) and not channel.asked  # type: ignore[attr-defined]
        await pilot.press("escape")
        assert not isinstance(app.screen, DrainDialog)


async def test_resume_asks_first_and_takes_only_drained_nodes() -> None:
    app, channel = make()
    async with app.run_test(size=(100, 30)) as pilot:
        nodes = await view(app, pilot, "2", NodesView)
        assert isinstance(nodes, NodesView)
        await pilot.press("u")
        await pilot.pause()
        assert not isinstance(app.screen, ConfirmDialog)
        await pilot.press("ctrl+a", "u")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert "gpu[08,10]" in screen_text(app)
        await pilot.press("enter")
        assert not channel.asked  # type: ignore[attr-defined]
        await pilot.press("u")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: channel.asked)  # type: ignore[attr-defined]
        assert channel.asked == [requests.ResumeNodes(("gpu08", "gpu10"))]  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{"roles": ("user",)}, {"read_only": True}])
async def test_without_the_right_nothing_is_sent(options: dict[str, object]) -> None:
    app, channel = make(**options)
    async with app.run_test(size=(100, 30)) as pilot:
        await view(app, pilot, "2", NodesView)
        await pilot.press("D")
        await pilot.pause()
        assert not isinstance(app.screen, DrainDialog)
        assert isinstance(app.screen, Popup) == ("roles" in options)
        assert not channel.asked  # type: ignore[attr-defined]


async def test_node_page_goes_to_its_jobs_and_survives_removal() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 34)) as pilot:
        await until(pilot, lambda: app.active_view)
        app.open_node("gpu04")
        await until(pilot, lambda: isinstance(app.active_view, NodeView))
        page = app.active_view
        assert isinstance(page, NodeView)
        await until(pilot, lambda: page.job_table.keys)
        await pilot.pause()
        text = screen_text(app)
        assert "43 dave 3/8" in text and "notebook" in text and "SIMULATED" in text and "0: 3/8" in text
        app.mirror.take(EventsPushed((Event(app.mirror.seq + 1, 0, NodeRemoved("gpu04")),)))
        app.show_now()
        await pilot.pause()
        assert "removed from the cluster" in screen_text(app) and "notebook" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.active_view, JobView))
        await pilot.press("escape")
        await until(pilot, lambda: app.active_view is page)
        app.open_node("nope")
        await until(pilot, lambda: isinstance(app.screen, Popup))


async def test_command_opens_a_node() -> None:
    app, _ = make()
    async with app.run_test(size=(100, 34)) as pilot:
        await until(pilot, lambda: app.active_view)
        await pilot.press("colon", *"node gpu09", "enter")
        await until(pilot, lambda: isinstance(app.active_view, NodeView))
        await pilot.pause()
        assert "Xid 79" in screen_text(app)


async def test_gpus_filter_sort_and_open() -> None:
    app, _ = make()
    async with app.run_test(size=(120, 40)) as pilot:
        gpus = await view(app, pilot, "3", GpusView)
        assert isinstance(gpus, GpusView) and len(gpus.table.keys) == 88
        await pilot.press("x")
        await until(pilot, lambda: len(gpus.table.keys) == 1)
        assert "! root pid 999" in screen_text(app)
        await pilot.press("escape", "f")
        await until(pilot, lambda: 20 < len(gpus.table.keys) < 60)
        await pilot.press("escape", "o", "o", "o", "o")
        assert gpus.spec.sort == "util" and "BUSY▲" in screen_text(app)
        await pilot.press("g", "enter")
        await until(pilot, lambda: isinstance(app.active_view, JobView))
        await pilot.press("escape", "w")
        await until(pilot, lambda: isinstance(app.active_view, NodeView))


async def test_timeline_scales_shifts_folds_and_opens() -> None:
    app, _ = make()
    async with app.run_test(size=(120, 40)) as pilot:
        chart = await view(app, pilot, "4", TimelineView)
        assert isinstance(chart, TimelineView)
        assert "▼now" in screen_text(app) and "▒" in screen_text(app) and "░" in screen_text(app)
        await pilot.press("plus")
        assert "10m a cell" in app.query_one(TopLine).second().plain
        await pilot.press("right", "right")
        assert "▼now" not in screen_text(app)
        await pilot.press("0", "z")
        await until(pilot, lambda: len(chart.table.keys) == 12)
        await pilot.press("z", "down", "enter")
        await until(pilot, lambda: isinstance(app.active_view, JobView))
        assert isinstance(app.active_view, JobView) and app.active_view.number == 40


async def test_events_ask_for_the_past_and_open_what_they_tell_of() -> None:
    app, channel = make()
    older = (Event(5, 1, JobsForgotten((JobNumber(1),))),)
    channel.answers[requests.GetEvents] = sample.replies.Events(older)  # type: ignore[attr-defined]
    async with app.run_test(size=(100, 30)) as pilot:
        events = await view(app, pilot, "5", EventsView)
        assert isinstance(events, EventsView)
        await until(pilot, lambda: len(events.table.keys) == 8)
        assert channel.asked == [requests.GetEvents(limit=1_000)]  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.active_view, NodeView))
        await pilot.press("escape", "end", "enter")
        await until(pilot, lambda: app.active_view is events)
        await pilot.press("slash", *"eval", "enter", "enter")
        await until(pilot, lambda: isinstance(app.active_view, JobView))


async def test_events_say_when_the_past_cannot_be_had() -> None:
    app, channel = make()
    channel.answers[requests.GetEvents] = Refused("unavailable", "the store is busy")  # type: ignore[attr-defined]
    async with app.run_test(size=(100, 30)) as pilot:
        await view(app, pilot, "5", EventsView)
        await until(pilot, lambda: "the store is busy" in screen_text(app))


async def test_ten_thousand_nodes_scroll_and_redraw_little() -> None:
    app, _ = make(large(10_000))
    async with app.run_test(size=(120, 40)) as pilot:
        nodes = await view(app, pilot, "2", NodesView)
        assert isinstance(nodes, NodesView)
        await until(pilot, lambda: len(nodes.map.names) == 10_000)
        await pilot.press("end")
        assert nodes.cursor == "n09999"
        await pilot.press("3")
        await until(pilot, lambda: isinstance(app.active_view, GpusView))
        gpus = app.active_view
        assert isinstance(gpus, GpusView)
        await until(pilot, lambda: len(gpus.table.keys) == 80_000)
        await pilot.press("G")
        await pilot.pause()
        assert "n09999" in screen_text(app)
        drawn = sample.watch_lines(gpus.table)
        app.mirror.take(SamplesPushed((NodeSample("n00001", 5),)))
        app.show_now()
        await pilot.pause()
        assert len(drawn) < 5


async def test_empty_cluster_says_what_to_do() -> None:
    mirror = Mirror(connected=True, heard=sample.NOW)
    app, _ = make(mirror)
    async with app.run_test(size=(100, 30)) as pilot:
        for key, kind in (("2", NodesView), ("3", GpusView), ("4", TimelineView), ("5", EventsView)):
            await view(app, pilot, key, kind)
            assert "Waiting for the controller" in screen_text(app)
        mirror.take(SnapshotPart(0, Epoch(1), True, True))
        for key, kind, words in (
            ("2", NodesView, "There are no nodes yet"),
            ("3", GpusView, "No node has reported a GPU"),
            ("4", TimelineView, "There are no nodes yet"),
            ("5", EventsView, "Nothing has happened yet"),
        ):
            await view(app, pilot, key, kind)
            assert words in screen_text(app)


async def test_a_bad_theme_of_ones_own_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "flagplot" / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('[states]\nidel = "red"\n')
    (folder / "dark.toml").write_text('[states]\nidle = "bold #00ffcc"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    app, _ = make()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "states.idel" in screen_text(app)
        assert app.theme == "dark" and str(app.role("state-idle")) == "bold #00ffcc"
        await pilot.press("escape", "colon", *"theme light", "enter")
        await until(pilot, lambda: app.theme == "light")


async def test_one_of_a_thing_is_not_many() -> None:
    app, _ = make(large(1))
    async with app.run_test(size=(120, 40)) as pilot:
        nodes = await view(app, pilot, "2", NodesView)
        assert isinstance(nodes, NodesView)
        await until(pilot, lambda: nodes.counts.startswith("1 node "))
        first = app.query_one(TopLine).first().plain
        assert "1 node " in first and "1 nodes" not in first
        assert "1 nodes" not in screen_text(app)
        await pilot.press("1")
        await until(pilot, lambda: "0 jobs" in screen_text(app))
        job = sample.sample_mirror().jobs[JobNumber(41)]
        app.mirror.take(EventsPushed((Event(app.mirror.seq + 1, int(sample.NOW), JobAdded(job)),)))
        await until(pilot, lambda: "1 job" in screen_text(app))
        assert "1 jobs" not in screen_text(app)


async def test_a_reboot_is_asked_for_followed_and_its_end_told() -> None:
    app, channel = make()
    async with app.run_test(size=(120, 40)) as pilot:
        await view(app, pilot, "2", NodesView)
        await pilot.press("right", "right", "R")
        await until(pilot, lambda: isinstance(app.screen, DrainDialog))
        text = screen_text(app)
        assert "Reboot nodes" in text and "2 jobs on 1 node, rebooted when they end" in text
        await pilot.press(*"kernel", "ctrl+s")
        await until(pilot, lambda: app.watched)
        asked = [one for one in channel.asked if isinstance(one, requests.RebootNodes)]  # type: ignore[attr-defined]
        assert asked == [requests.RebootNodes(("gpu03",), "kernel")]
        assert app.command_log[-1][1] == "flagplot reboot gpu03 --reason kernel"
        for drain in (Drain("kernel", "alice", sample.NOW, reboot="asked"), None):
            node = msgspec.structs.replace(sample.node(3), drain=drain)
            app.mirror.take(EventsPushed((Event(app.mirror.seq + 1, sample.NOW, NodeChanged(node, "x")),)))
            app.show_now()
            await pilot.pause()
            if drain is not None:
                assert "1 to reboot, last ends in 23 h" in screen_text(app) and app.watched
        assert app.watched == [] and [one.message for one in app._notifications][-1] == "Rebooted: gpu03 (kernel)"


async def test_rebooting_is_unbound_read_only_and_refused_to_users() -> None:
    app, _ = make(read_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await view(app, pilot, "2", NodesView)
        await pilot.press("R")
        await pilot.pause()
        assert len(app.screen_stack) == 1
    app, _ = make(roles=("user",))
    async with app.run_test(size=(80, 24)) as pilot:
        await view(app, pilot, "2", NodesView)
        await pilot.press(*":reboot gpu01 why", "enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "Only operators and admins may reboot nodes" in screen_text(app)


async def test_marked_nodes_are_reserved_by_the_request_of_the_command_line() -> None:
    app, channel = make()
    async with app.run_test(size=(120, 40)) as pilot:
        await view(app, pilot, "2", NodesView)
        await pilot.press("space", "space", "a")
        await until(pilot, lambda: isinstance(app.screen, ReserveDialog))
        assert app.screen.query_one("#reserve-nodes", Input).value == "gpu[01-02]"
        await pilot.press(*"night", "enter", "enter", *"2:00:00", "f2")
        await pilot.pause()
        assert "For whom?" in screen_text(app) and channel.asked == []  # type: ignore[attr-defined]
        await pilot.press("enter", *"ann")
        await until(pilot, lambda: "1 job may run into it" in screen_text(app))
        await pilot.press("f2")
        await until(pilot, lambda: not isinstance(app.screen, ReserveDialog))
        asked = next(one for one in channel.asked if isinstance(one, requests.ChangePolicy))  # type: ignore[attr-defined]
        assert (asked.verb, asked.kind, asked.names) == ("add", "reservation", ("night",))
        assert asked.values["nodes"] == "gpu[01-02]" and asked.values["users"] == "ann"
        assert app.command_log[-1][1].startswith("flagplot reservation add night ")


async def test_a_reservation_is_shown_and_taken_away() -> None:
    app, channel = make()
    async with app.run_test(size=(120, 40)) as pilot:
        await view(app, pilot, "4", TimelineView)
        await pilot.press("slash", *"gpu05", "enter", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
        assert "Reservation ml-course" in screen_text(app) and "erin" in screen_text(app)
        await pilot.press("escape", *":unreserve ml-course", "enter")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: any(isinstance(one, requests.ChangePolicy) for one in channel.asked))  # type: ignore[attr-defined]
        await pilot.press(*":unreserve nothing", "enter")
        await until(pilot, lambda: isinstance(app.screen, Popup))
