"""Reservations on the map and the timeline, and the form of a new one."""

from __future__ import annotations

import msgspec
import pytest
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view import bookings, timeline
from flagplot.view.fleet import Fleet
from flagplot.view.fleet_filter import node_filter
from flagplot.view.fleet_map import reserved_sign, summary
from flagplot.view.node_list import page
from flagplot.view.reservations import hits, lines_of, read_form
from flagplot_wire.errors import Refused
from flagplot_wire.events import Body, Event, PolicyChanged, PolicyRemoved
from flagplot_wire.policy import Qos, Reservation
from flagplot_wire.replies import EventsPushed

NOW = sample.NOW
FORM = {
    "nodes": "gpu[03-04]", "name": "night", "start": "now", "duration": "2:00:00", "users": "ann, bob", "accounts": "",
    "flags": "", "comment": "",
}  # fmt: skip


@pytest.fixture
def mirror() -> Mirror:
    return sample.sample_mirror()


def take(mirror: Mirror, *bodies: Body) -> None:
    for body in bodies:
        mirror.take(EventsPushed((Event(mirror.seq + 1, NOW, body),)))


def fleet_of(mirror: Mirror, now: int = NOW) -> Fleet:
    fleet = Fleet()
    fleet.update(mirror, now)
    return fleet


def test_the_mirror_keeps_them(mirror: Mirror) -> None:
    assert set(mirror.reservations) == {"ml-course", "power"}
    moved = msgspec.structs.replace(mirror.reservations["power"], start=NOW + 10)
    take(mirror, PolicyChanged(moved), PolicyChanged(Qos("high")), PolicyRemoved("reservation", "ml-course"))
    assert mirror.reservations == {"power": moved}


def test_nodes_become_reserved_and_free_again_as_time_goes(mirror: Mirror) -> None:
    take(mirror, PolicyChanged(Reservation("idle", NOW + 60, NOW + 120, ("gpu06", "gpu03"), users=("ann",))))
    fleet = fleet_of(mirror)
    assert fleet.facts["gpu06"].look == "PLANNED" and [one.name for one in fleet.facts["gpu06"].reserved] == [
        "idle",
        "ml-course",
    ]
    assert not fleet.update(mirror, NOW + 59)
    assert fleet.update(mirror, NOW + 60)
    assert (fleet.facts["gpu06"].look, fleet.facts["gpu03"].look) == ("RESERVED", "MIXED")
    assert reserved_sign(fleet.facts["gpu03"]) == ("◈", "state-planned")
    assert reserved_sign(fleet.facts["gpu07"]) == ("◈", "dim") and reserved_sign(fleet.facts["gpu01"])[0] == " "
    assert fleet.update(mirror, NOW + 120) and fleet.facts["gpu06"].look == "PLANNED"
    take(mirror, PolicyChanged(Reservation("m", NOW, NOW + 200, all_nodes=True, maintenance=True)))
    fleet.update(mirror, NOW + 130)
    assert fleet.facts["gpu06"].look == "MAINT" and fleet.facts["gpu12"].look == "UNKNOWN"
    take(mirror, PolicyChanged(Reservation("m", NOW, NOW + 200, all_nodes=True, gpus=2)))
    fleet.update(mirror, NOW + 131)
    assert fleet.facts["gpu06"].look == "PLANNED"


def test_words_on_the_map_the_page_and_in_the_filter(mirror: Mirror) -> None:
    fleet = fleet_of(mirror)
    fact = fleet.facts["gpu07"]
    assert (
        "".join(text for text, _ in summary(fact, NOW)).partition("◈ ")[2]
        == f"power {bookings.when_words(mirror.reservations['power'], NOW)}"
    )
    told = next(pieces for label, pieces in page(mirror, fact, NOW) if label == "reserved")
    assert told[0][0].startswith("power  20") and told[0][0].endswith(" for 4 h")
    assert [name for name in fleet.order if node_filter(mirror, "resv:ml")(fleet.facts[name])] == ["gpu05", "gpu06"]
    assert lines_of(mirror, mirror.reservations["power"], NOW)[:2] == ["nodes    gpu[07,09]", "for      maintenance"]


def test_repeating_ones_are_found_again(mirror: Mirror) -> None:
    daily = Reservation("d", 1_000, 2_000, ("gpu01",), users=("ann",), repeat_s=86_400)
    day = 86_400
    assert bookings.occurrences(daily, 5 * day, 6 * day) == [(5 * day + 1_000, 5 * day + 2_000)]
    assert bookings.active(daily, 7 * day + 1_999) and not bookings.active(daily, 7 * day + 2_000)
    assert bookings.when_words(daily, 7 * day + 1_500).startswith("until in 8 min")
    assert bookings.when_words(Reservation("o", 1, 2), 5) == "over"
    mirror.reservations.clear()
    mirror.reservations["d"] = daily
    assert bookings.next_change(mirror, 7 * day + 1_500) == 7 * day + 2_000
    assert bookings.next_change(mirror, 7 * day + 2_000) == 8 * day + 1_000


def test_the_timeline_shows_them_below_their_nodes(mirror: Mirror) -> None:
    fleet, ids = fleet_of(mirror), dict[str, int]()
    keys = timeline.rows(mirror, fleet, "gpu05", False, ids)
    assert keys[1] == timeline.key_of(fleet.key("gpu05"), timeline.RESERVED + ids["ml-course"])
    view = timeline.Window(NOW - 3_600, 3_600, 12)
    strip = "".join(text for text, _ in timeline.reservation_strip(mirror.reservations["ml-course"], view, NOW))
    assert strip == " │ ════     "
    later = "".join(
        text for text, _ in timeline.reservation_strip(mirror.reservations["power"], timeline.Window(NOW, 600, 40), NOW)
    )
    assert later.endswith("for 4 h →")
    held = timeline.node_strip(mirror, fleet.facts["gpu05"], view, NOW)
    assert sum(len(text) for text, role in held if role == "state-planned") == 4
    assert "".join(text for text, _ in held)[:1] == " "


def test_the_form_makes_the_values_of_the_command(mirror: Mirror) -> None:
    draft = read_form(FORM, mirror, NOW, 0)
    assert dict(draft.values) == {
        "start": str(NOW), "duration": "2:00:00", "nodes": "gpu[03-04]", "users": "ann,bob",
    }  # fmt: skip
    assert draft.command_line == (
        f"flagplot reservation add night --start={NOW} --duration=2:00:00 '--nodes=gpu[03-04]' --users=ann,bob"
    )
    words, lines = hits(mirror, read_form({**FORM, "duration": "4:00:00"}, mirror, NOW, 0), NOW)
    assert words == "5 jobs may run into it: it is refused without the flag ignore_jobs"
    assert len(lines) == 6 and "next-in-line: planned there" in lines[-1]
    tolerant = read_form({**FORM, "flags": "maint,ignore-jobs", "users": ""}, mirror, NOW, 0)
    assert hits(mirror, tolerant, NOW)[0] == "5 jobs may run into it and go on"
    late = read_form({**FORM, "start": "now+30days"}, mirror, NOW, 0)
    assert hits(mirror, late, NOW)[0] == "No running job reaches into it"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("nodes", "", "Which nodes?"),
        ("nodes", "gpu03,nowhere", "no node nowhere"),
        ("nodes", "gpu[", ""),
        ("name", "", "needs a name"),
        ("name", "power", "already"),
        ("start", "soonish", ""),
        ("duration", "", "How long?"),
        ("duration", "UNLIMITED", "needs an end"),
        ("users", "", "For whom?"),
        ("flags", "maint,sometimes", "no flag 'sometimes'"),
    ],
)
def test_what_is_wrong_with_the_form_is_told(mirror: Mirror, field: str, value: str, words: str) -> None:
    with pytest.raises(Refused) as caught:
        read_form({**FORM, field: value}, mirror, NOW, 0)
    assert words in caught.value.message and caught.value.message
