"""Several clusters: the file, the list of all queues, the picker."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace as struct_replace
from support import sample_cluster as sample
from support.cockpit import app_of, press, settle

from flagplot.cli.connect import save
from flagplot.client.mirror import Mirror
from flagplot.client.target import Entry, Target, read_clusters, read_entries, resolve
from flagplot.tui.clusters import Clusters
from flagplot.view.all_clusters import STRIDE, Member, columns, merged, row_cells, split_filter, state_words
from flagplot.view.queue import QueueSpec
from flagplot_wire.errors import Refused

FILE = """[prod]
host = "login.example"
port = 7022
user = "ada"
host_key = "ssh-ed25519 AAAA"
key_file = ""
colour = "#c0392b"
theme = "light"
read_only = true

[lab]
data_dir = "/srv/lab"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config" / "flagplot" / "clusters.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_file(tmp_path: Path) -> None:
    write(tmp_path, FILE)
    prod, lab = read_entries().values()
    assert (prod.theme, prod.colour, prod.read_only) == ("light", "#c0392b", True)
    assert prod.target == Target(
        "ssh", "prod", host="login.example", port=7022, user="ada", host_key="ssh-ed25519 AAAA"
    )
    assert resolve(cluster="lab") == lab.target == Target("local", "lab", data_dir=Path("/srv/lab"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a]\nhots = 'x'\n", "a.hots: there is no such key"),
        ("[a]\nhost = 'x'\nport = '22'\n", "a.port must be a int"),
        ("[a]\nhost = 'x'\ncolour = 'red'\n", "a.colour: 'red' is no colour"),
        ("[a]\ntheme = 'light'\n", "neither a host nor a data_dir"),
        ("[all]\nhost = 'x'\n", "all means every cluster"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(Refused) as refused:
        read_entries()
    assert told in refused.value.message and str(path) in refused.value.message


def test_connecting_again_keeps_the_marks(tmp_path: Path) -> None:
    write(tmp_path, FILE)
    save("prod", Target("ssh", "prod", host="new.example", port=1, user="ada", host_key="k"))
    assert read_clusters()["prod"] == {
        "colour": "#c0392b", "theme": "light", "read_only": True, "host": "new.example", "port": 1, "user": "ada",
        "host_key": "k", "key_file": "",
    }  # fmt: skip
    assert read_entries()["lab"].target.data_dir == Path("/srv/lab")


def test_a_confined_session_knows_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, FILE)
    monkeypatch.setenv("FLAGPLOT_CONFINED", "1")
    assert read_entries() == {}


def members() -> list[Member]:
    second = sample.sample_mirror()
    for number, job in list(second.jobs.items()):
        second.jobs[number] = struct_replace(job, status=struct_replace(job.status, priority=job.status.priority + 1))
    for mirror in (made := [sample.sample_mirror(), second]):
        mirror.heard = sample.NOW
    return [Member("prod", made[0]), Member("lab", made[1])]


def test_rows_of_all_clusters_are_in_one_order() -> None:
    some = members()
    keys = merged(some, QueueSpec(), sample.NOW)
    assert len(keys) == len(set(keys)) == 2 * len(merged(some[:1], QueueSpec(), sample.NOW))
    states = [some[key // STRIDE].mirror.jobs[key % STRIDE].status for key in keys]  # type: ignore[index]
    assert [one.state.ended for one in states] == sorted(one.state.ended for one in states)
    waiting = [one.priority for one in states if one.state == "PENDING"]
    assert waiting == sorted(waiting, reverse=True) and len(set(waiting)) > 5
    turned = merged(some, QueueSpec(sort="id", reverse=True), sample.NOW)
    live = [key % STRIDE for key in turned if not some[key // STRIDE].mirror.jobs[key % STRIDE].status.state.ended]  # type: ignore[index]
    assert live[0] > live[-1]


def test_the_filter_takes_clusters() -> None:
    some = members()
    assert split_filter("user:me  gpu>2") == ((), "user:me  gpu>2")
    keys = merged(some, QueueSpec(filter="cluster:lab user:alice"), sample.NOW)
    assert keys and {key // STRIDE for key in keys} == {1}
    assert {some[1].mirror.jobs[key % STRIDE].user for key in keys} == {"alice"}  # type: ignore[index]


def test_a_silent_cluster_keeps_its_rows_with_their_age() -> None:
    some = members()
    some[1].mirror.connected, some[1].mirror.problem = False, "the connection is lost"
    now = sample.NOW + 95
    some[0].mirror.heard = now
    shown = columns(120)
    (key, *_) = [key for key in merged(some, QueueSpec(), now) if key >= STRIDE]
    cells = row_cells(some, key, now, shown, True)
    assert cells[0] == ("lab 1m35s", "bad") and {role for _, role in cells[1:]} == {"dim"}
    assert row_cells(some, key - STRIDE, now, shown, True)[0] == ("prod", "bold")
    assert state_words(some[1], now) == ("✗ lab 1m35s old: the connection is lost", "bad")
    assert state_words(some[0], now)[0].startswith("● prod ")


def test_a_cluster_that_never_answered() -> None:
    never = Member("dev", Mirror())
    assert state_words(never, sample.NOW) == ("○ dev connecting", "warning")
    never.mirror.problem = "no route"
    assert state_words(never, sample.NOW) == ("✗ dev no answer yet: no route", "bad")


def clusters(*names: str) -> Clusters:
    return Clusters([Entry(name, Target("local", name, data_dir=Path(f"/srv/{name}"))) for name in names], names[0])


async def test_the_picker_goes_to_another_cluster() -> None:
    app = app_of(clusters=clusters("prod", "lab"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "K")
        assert type(app.screen).__name__ == "ClusterPicker"
        await press(app, pilot, "escape", "K", "j", "enter")
    assert app.clusters.following == ("lab", "")


@pytest.mark.parametrize(
    ("line", "told"), [("cluster moon", "There is no cluster moon"), ("cluster all", "Only this cluster")]
)
async def test_clusters_that_there_are_not(line: str, told: str) -> None:
    app = app_of(clusters=clusters("prod"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "colon", *line, "enter")
        assert told in app.screen._title  # type: ignore[attr-defined]


async def test_the_name_stands_in_its_colour() -> None:
    made = clusters("prod")
    made.entries = [Entry("prod", made.entries[0].target, colour="#c0392b")]
    app = app_of(clusters=made)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        (strip, *_) = app.screen._compositor.render_strips()
        styles = {str(segment.style.bgcolor) for segment in strip if sample_name(app) in segment.text and segment.style}
        assert any("192" in style or "c0392b" in style for style in styles), styles


def sample_name(app: object) -> str:
    return app.mirror.welcome.cluster  # type: ignore[attr-defined,no-any-return]
