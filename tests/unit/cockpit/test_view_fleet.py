"""Facts of nodes, the map's layout, the filter, the table, the node page."""

from __future__ import annotations

import time

import msgspec
import pytest
from support import sample_cluster as sample

from flagplot.client.mirror import Mirror
from flagplot.view import fleet_map, node_list
from flagplot.view.bars import bar, gib, gpu_blocks, level, shard_bar
from flagplot.view.columns import spread
from flagplot.view.fleet import LOOKS, Fleet, fact_of, group, groupings_of
from flagplot.view.fleet_filter import node_filter
from flagplot_wire.events import Event, NodeChanged, NodeRemoved
from flagplot_wire.ids import Epoch
from flagplot_wire.node import Drain, Gpu, Inventory, Node, NodeGroup
from flagplot_wire.replies import EventsPushed, SamplesPushed, SnapshotPart
from flagplot_wire.telemetry import NodeSample


@pytest.fixture
def mirror() -> Mirror:
    return sample.sample_mirror()


@pytest.fixture
def fleet(mirror: Mirror) -> Fleet:
    made = Fleet()
    made.update(mirror)
    return made


def plain(pieces: object) -> str:
    return "".join(text for text, _ in pieces)  # type: ignore[attr-defined]


def test_states_and_numbers(fleet: Fleet) -> None:
    looks = {name: fact.look for name, fact in fleet.facts.items()}
    assert looks["gpu01"] == "ALLOCATED" and looks["gpu03"] == "MIXED" and looks["gpu06"] == "PLANNED"
    assert looks["gpu08"] == "DRAINING" and looks["gpu10"] == "DRAINED"
    assert looks["gpu11"] == "DOWN" and looks["gpu12"] == "UNKNOWN"
    shared = fleet.facts["gpu04"]
    assert shared.gpus_held == pytest.approx(7 / 8) and shared.gpus_free == 6
    assert [(share.user, share.shards) for share in shared.gpus[0].shares] == [("dave", 3), ("erin", 3)]
    assert shared.cpus == 64 and shared.cpus_used == 12


def test_unknown_is_never_zero_or_free(fleet: Fleet) -> None:
    never, down, drained = (fleet.facts[name] for name in ("gpu12", "gpu11", "gpu10"))
    row = {
        column.key: plain(cell)
        for (column, _), cell in zip(
            spread(node_list.COLUMNS, 200),
            node_list.cells(sample.sample_mirror(), never, spread(node_list.COLUMNS, 200)),
            strict=True,
        )
    }
    assert (row["cpus"], row["memory"], row["gpus"], row["load"]) == ("?", "?", "?", "?")
    assert plain(gpu_blocks(never, 8)).strip() == "?" and plain(gpu_blocks(down, 8)) == "????????"
    assert "░" not in plain(gpu_blocks(drained, 8))
    assert never.gpus_free == down.gpus_free == drained.gpus_free == 0
    assert plain(bar(None, 6)).strip() == "?"


def test_bars_are_eighths() -> None:
    assert [level(part / 8) for part in range(9)] == ["░", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
    assert level(0.001) == "▁" and level(0.999) == "▇"
    assert plain(bar(0, 4)) == "────" and plain(bar(1, 4)) == "━━━━" and plain(bar(0.01, 4)) == "╸───"
    assert [gib(value) for value in (None, 0, 512, 81_559)] == ["?", "0", "0.5", "79"]


@pytest.mark.parametrize("width", [3, 8, 13, 40])
def test_shard_bar_fills_its_width_and_shows_every_holder(fleet: Fleet, width: int) -> None:
    node = fleet.facts["gpu04"]
    pieces = shard_bar(node.gpus[0], node, width)
    assert len(plain(pieces)) == width
    assert {"owner:dave", "owner:erin"} <= {role for _, role in pieces}


def test_only_changed_nodes_are_made_anew(mirror: Mirror, fleet: Fleet) -> None:
    assert not fleet.update(mirror)
    before = dict(fleet.facts)
    mirror.take(SamplesPushed((NodeSample("gpu03", sample.NOW, 50, 100, 1),)))
    assert fleet.update(mirror)
    assert fleet.facts["gpu03"] is not before["gpu03"]
    assert all(fleet.facts[name] is before[name] for name in before if name != "gpu03")
    mirror.take(EventsPushed((Event(mirror.seq + 1, 0, NodeRemoved("gpu03")),)))
    fleet.update(mirror)
    assert "gpu03" not in fleet.order and "gpu03" not in fleet.facts


def test_keys_stand_for_names_for_ever(fleet: Fleet) -> None:
    keys = [fleet.key(name) for name in fleet.order]
    assert len(set(keys)) == 12 and [fleet.name(key) for key in keys] == fleet.order


@pytest.mark.parametrize("zoom", fleet_map.ZOOMS)
def test_every_node_has_one_place_and_its_cell_fits(mirror: Mirror, fleet: Fleet, zoom: str) -> None:
    groups = group(mirror, fleet, fleet.order, "switch")
    size = fleet_map.cell_size(zoom, fleet_map.widest(fleet, fleet.order))
    layout = fleet_map.lay_out(groups, size, 78)
    assert [name for _, _, names in layout.rows for name in names] == fleet.order
    for line, _, names in layout.rows:
        for column, name in enumerate(names):
            assert layout.at(1 + column * size.columns, line) == name
            for row in range(size.rows):
                wide = len(plain(fleet_map.cell(fleet.facts[name], size, row)))
                assert wide <= (2 if zoom == "dot" else size.columns - 2)


def test_groups_are_those_of_the_site_and_only_ways_that_tell_something(mirror: Mirror, fleet: Fleet) -> None:
    assert [title for title, _ in group(mirror, fleet, fleet.order, "rack")] == ["r1", "r2", "no rack"]
    assert groupings_of(mirror, fleet) == ["switch", "partition", "rack", "type", "none"]
    assert [name for name in fleet.order if node_filter(mirror, "rack:r1")(fleet.facts[name])] == [
        "gpu01", "gpu02", "gpu03", "gpu04",
    ]  # fmt: skip
    groups = (NodeGroup("switch", "leaf9", "gpu[01-12]"),)
    mirror.take(SnapshotPart(mirror.seq, Epoch(1), last=True, groups=groups))
    assert groupings_of(mirror, fleet) == ["switch", "partition", "type", "none"]
    assert [title for title, _ in group(mirror, fleet, fleet.order, "switch")] == ["leaf9"]


def test_the_fill_is_of_what_was_chosen(fleet: Fleet) -> None:
    fact = fleet.facts["gpu03"]
    parts = {fill: fleet_map.filled(fact, fill) for fill in fleet_map.FILLS}
    assert parts == {"GPUs": 6 / 8, "CPUs": 16 / 64, "memory": 131_072 / 1_031_000}
    assert fleet_map.filled(fleet.facts["gpu12"], "CPUs") is None
    looks = {
        fill: plain(fleet_map.cell(fact, fleet_map.cell_size("dot", fleet_map.widest(fleet, fleet.order), fill), 0))
        for fill in parts
    }
    assert looks == {"GPUs": "◑▆", "CPUs": "◑▂", "memory": "◑▁"}
    small = fleet_map.cell(fact, fleet_map.cell_size("small", fleet_map.widest(fleet, fleet.order), "CPUs"), 0)
    assert plain(small) == "◑ gpu03 ━╸────"
    titles = {fill: plain(fleet_map.heading(fleet, "s", ["gpu03", "gpu10", "gpu12"], fill)) for fill in parts}
    assert titles["GPUs"] == "s  3 nodes · 2 of 16 GPUs free · 1 unknown"
    assert titles["CPUs"] == "s  3 nodes · 48 of 128 CPUs free · 1 unknown"
    assert titles["memory"] == "s  3 nodes · 878 of 2013 GiB free · 1 unknown"


def test_moving_stays_on_the_map(mirror: Mirror, fleet: Fleet) -> None:
    groups = group(mirror, fleet, fleet.order, "switch")
    layout = fleet_map.lay_out(groups, fleet_map.cell_size("small", fleet_map.widest(fleet, fleet.order)), 40)
    assert layout.move("gpu01", -1, 0) == "gpu01" and layout.move("gpu01", 0, -5) == "gpu01"
    assert layout.move("gpu01", 1, 0) == "gpu02" and layout.move("gpu01", 0, 1) == "gpu03"
    assert layout.move("gpu01", 0, 99) == "gpu12" and layout.move("gpu12", 1, 1) == "gpu12"
    assert layout.move("gone", 1, 0) == "gpu01"


def test_zoom_follows_the_room(mirror: Mirror, fleet: Fleet) -> None:
    groups = group(mirror, fleet, fleet.order, "switch")
    chosen = [fleet_map.choose_zoom(groups, fleet, *room).size.zoom for room in ((200, 60), (80, 18), (20, 6))]
    assert chosen == ["large", "small", "dot"]


def test_groups(mirror: Mirror, fleet: Fleet) -> None:
    titles = {by: [title for title, _ in group(mirror, fleet, fleet.order, by)] for by in ("switch", "type", "none")}
    assert titles == {"switch": ["s1", "s2", "no switch"], "type": ["a100", "h100", "no inventory"], "none": [""]}
    by_partition = dict(group(mirror, fleet, fleet.order, "partition"))
    assert by_partition["debug"] == ["gpu04", "gpu07"] and len(by_partition["gpu"]) == 10


def test_legend_has_every_state_and_its_words_at_80(fleet: Fleet) -> None:
    text = plain(fleet_map.legend(fleet.counts(), 77))
    assert len(text) <= 78
    for look, count in fleet.counts().items():
        assert (f"{LOOKS[look].glyph} {LOOKS[look].short} {count}" in text) == bool(count)
    wide = plain(fleet_map.legend(fleet.counts(), 150))
    assert "allocated 2" in wide and "shared" in wide


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", 12),
        ("h100", 6),
        ("!h100", 6),
        ("state:drain", 2),
        ("state:down,unknown", 2),
        ("user:me", 3),
        ("user:dave", 2),
        ("gpu[03-05]", 3),
        ("gpu[03-", 12),
        ("part:debug", 2),
        ("switch:s2", 5),
        ("type:a100 free>3", 1),
        ("jobs=0", 4),
        ("riser", 1),
        ("user:", 12),
        ("nvlink cpus>=64", 1),
        ("[/red]", 12),
    ],
)
def test_filter(mirror: Mirror, fleet: Fleet, text: str, found: int) -> None:
    test = node_filter(mirror, text)
    assert sum(test(fact) for fact in fleet.facts.values()) == found


def test_table_orders(mirror: Mirror, fleet: Fleet) -> None:
    assert node_list.select(mirror, fleet, node_list.NodeSpec())[0] == "gpu01"
    assert node_list.select(mirror, fleet, node_list.NodeSpec(sort="state"))[:2] == ["gpu12", "gpu11"]
    assert node_list.select(mirror, fleet, node_list.NodeSpec(sort="gpus"))[0] == "gpu06"
    for sort in node_list.SORTS:
        assert len(node_list.select(mirror, fleet, node_list.NodeSpec(sort=sort, reverse=True))) == 12


def test_page_tells_a_weight_that_is_not_the_usual_one(mirror: Mirror) -> None:
    def rows() -> dict[str, str]:
        fleet = Fleet()
        fleet.update(mirror)
        found = node_list.page(mirror, fleet.facts["gpu08"], sample.NOW)
        return {label: plain(pieces) for label, pieces in found}

    assert "weight" not in rows()
    heavy = msgspec.structs.replace(mirror.nodes["gpu08"], weight=7)
    mirror.take(EventsPushed((Event(mirror.seq + 1, 0, NodeChanged(heavy, "configured")),)))
    assert rows()["weight"] == "7  (jobs get the lowest first)"


def test_page_tells_drain_numa_and_notes(mirror: Mirror) -> None:
    node = mirror.nodes["gpu08"]
    assert node.inventory is not None
    noted = msgspec.structs.replace(node.inventory, notes=("memory limits are not enforced: no cgroup",))
    mirror.take(EventsPushed((Event(mirror.seq + 1, 0, NodeChanged(_with(node, noted), "registered")),)))
    fleet = Fleet()
    fleet.update(mirror)
    text = "\n".join(
        f"{label}: {plain(pieces)}" for label, pieces in node_list.page(mirror, fleet.facts["gpu08"], sample.NOW)
    )
    assert "drain reason: bad riser [slot 3]" in text and "drained by: root, 2 h ago" in text
    assert "NUMA 1: CPUs 32-63  503 GiB  GPUs 4,5,6,7" in text and "SIMULATED" in text
    assert "note: memory limits are not enforced" in text
    never = "\n".join(plain(pieces) for _, pieces in node_list.page(mirror, fleet.facts["gpu12"], sample.NOW))
    assert "never reported" in never


def _with(node: Node, inventory: Inventory) -> Node:
    return msgspec.structs.replace(node, inventory=inventory)


def test_hostile_texts_are_made_safe(mirror: Mirror, fleet: Fleet) -> None:
    assert "\x1b" not in fleet.facts["gpu10"].reason
    bad = Node(
        "n\x1b[2Jx",
        Inventory("b", 1, 1, 1, "0", 1, gpus=(Gpu(0, "u", "h\x1b[1m", fault="f\x07"),), switch="s\x9b"),
        responding=True,
        drain=Drain("r\n\x1b", "w\u202e", 1),
    )
    mirror.take(EventsPushed((Event(mirror.seq + 1, 0, NodeChanged(bad, "registered")),)))
    fleet.update(mirror)
    fact = fleet.facts[bad.name]
    shown = plain(fleet_map.summary(fact)) + fact.gpu_type + fact.gpus[0].trouble
    shown += "".join(plain(pieces) for _, pieces in node_list.page(mirror, fact, sample.NOW))
    shown += "".join(title for title, _ in group(mirror, fleet, fleet.order, "switch"))
    assert shown.isprintable()


def test_jobs_affected_by_a_drain(mirror: Mirror) -> None:
    lines = node_list.affected(mirror, ["gpu01", "gpu03"], sample.NOW)
    assert len(lines) == 3 and "llama-pretrain" in lines[0] and "gpu[01-02]" in lines[0] and "in 21 h" in lines[0]
    assert node_list.affected(mirror, ["gpu06"], sample.NOW) == []


def test_ten_thousand_nodes_are_quick() -> None:
    gpus = tuple(Gpu(index, f"u{index}", "h100") for index in range(8))
    inventory = Inventory("b", 2, 64, 1, "0-63", 1_000_000, gpus=gpus, switch="s1")
    nodes = tuple(Node(f"n{number:05}", inventory, responding=True) for number in range(10_000))
    mirror = Mirror()
    mirror.take(SnapshotPart(1, Epoch(1), True, True, nodes=nodes))
    fleet = Fleet()
    fleet.update(mirror)
    mirror.take(SamplesPushed((NodeSample("n00001", 5),)))
    began = time.process_time()
    fleet.update(mirror)
    layout = fleet_map.choose_zoom(group(mirror, fleet, fleet.order, "switch"), fleet, 120, 36)
    took = time.process_time() - began
    assert layout.size.zoom == "dot" and layout.move("n00000", 0, 10) == "n00590"
    assert took < 1.0, took


def test_fact_of_a_node_with_odd_cpu_list() -> None:
    node = Node("x", Inventory("b", 1, 1, 1, "zero", 1), responding=True)
    fact = fact_of(msgspec.structs.replace(node, responding=False), (), None)
    assert fact.cpus is None
