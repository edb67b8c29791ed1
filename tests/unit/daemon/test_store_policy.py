"""The store keeps accounts, associations, QoS, reservations and usage, and brings older files up to date."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
from sqlite_utils import Database
from support.core_kit import happen

from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, JobSpec
from flagplot_wire.node import Partition
from flagplot_wire.policy import Account, Association, Limits, Qos, Reservation, Usage
from flagplotd.core.invariants import check
from flagplotd.core.state import Settings, State
from flagplotd.store import Batch, Store
from flagplotd.store.schema import SCHEMA, m001_first_tables

PHYSICS = Account("physics", limits=Limits(gpus=8), coordinators=("carl",))
OPTICS = Account("optics", parent="physics", shares=3)
ADA = Association("ada", "optics", default=True, limits=Limits(jobs=0))
HIGH = Qos("high", 10, ("low",), "requeue", user_limits=Limits(gpus=2))
NIGHT = Reservation("night", 100, 200, ("n1",), licenses=(("matlab", 2),), users=("ada",), repeat_s=86_400)
USED = Usage("ada@optics", 12, 34)


def history(state: State) -> Batch:
    spec = JobSpec("j", "/tmp", account="optics", qos="high", partition="main")
    return happen(
        state,
        ev.PartitionChanged(Partition("main", all_nodes=True, qos="cap")),
        ev.PartitionChanged(Partition("old")),
        *(ev.PolicyChanged(record) for record in (PHYSICS, OPTICS, ADA, HIGH, Qos("low"), NIGHT)),
        ev.UsageUpdated(777, (USED,)),
        ev.JobAdded(Job(JobNumber(1), "ada", 1, spec)),
    )


async def test_records_usage_and_counts_are_loaded(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = store.load(Settings())
    await store.commit(history(state))
    loaded = store.load(Settings())
    assert loaded == state and check(loaded) == []
    assert loaded.accounts == {"physics": PHYSICS, "optics": OPTICS}
    assert (loaded.associations, loaded.qos["high"], loaded.reservations) == ({ADA.key: ADA}, HIGH, {"night": NIGHT})
    assert (loaded.usage, loaded.usage_at) == ({USED.key: USED}, 777)
    assert loaded.submitted == dict.fromkeys(
        ("user:ada@optics", "account:optics", "account:physics", "account:root", "qos:high", "qos:high:user:ada",
         "qos:high:account:optics", "qos:cap", "qos:cap:user:ada", "qos:cap:account:optics"), 1,
    )  # fmt: skip
    store.close()


async def test_changes_and_removals_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = store.load(Settings())
    await store.commit(history(state))
    richer = msgspec.structs.replace(PHYSICS, shares=7)
    changes = happen(
        state,
        ev.PolicyChanged(richer),
        ev.PolicyRemoved("user", ADA.key),
        ev.PolicyRemoved("qos", "low"),
        ev.PolicyRemoved("reservation", "night"),
        ev.PartitionRemoved("old"),
    )
    await store.commit(changes)
    loaded = store.load(Settings())
    assert loaded == state
    assert list(loaded.accounts) == ["physics", "optics"] and loaded.accounts["physics"].shares == 7
    assert (loaded.associations, list(loaded.qos), loaded.reservations, loaded.usage) == ({}, ["high"], {}, {})
    assert list(loaded.partitions) == ["main"]
    store.close()


async def test_a_batch_that_fails_keeps_no_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = store.load(Settings())
    batch = happen(state, ev.PolicyChanged(PHYSICS), ev.UsageUpdated(9, (USED,)))
    batch.events.append(batch.events[0])
    with pytest.raises(sqlite3.IntegrityError):
        await store.commit(batch)
    empty = store.load(Settings())
    assert (empty.accounts, empty.usage, empty.usage_at) == ({}, {}, 0)
    store.close()


async def test_a_file_of_the_first_schema_gains_the_tables(tmp_path: Path) -> None:
    Store(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "flagplot.db", isolation_level=None)
    for table in ("policy", "usage", "steps"):
        connection.execute(f"DROP TABLE {table}")
    connection.execute("DROP INDEX idx_jobs_end_time")
    for column in ("account", "cpu_s", "gpu_s"):
        connection.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
    names = [row[0] for row in connection.execute("SELECT name FROM _sqlite_migrations ORDER BY 1")]
    assert names == ["m001_first_tables", "m002_policy", "m003_steps", "m004_held"]
    connection.execute("DELETE FROM _sqlite_migrations WHERE name > 'm002'")
    connection.execute("PRAGMA user_version=1")
    connection.close()
    store = Store(tmp_path)
    await store.commit(history(store.load(Settings())))
    assert store.load(Settings()).qos["high"] == HIGH
    store.close()
    version = sqlite3.connect(tmp_path / "flagplot.db").execute("PRAGMA user_version").fetchone()[0]
    assert version == SCHEMA == 4


def test_the_first_migration_stays_as_released() -> None:
    db = Database(memory=True)
    m001_first_tables(db)
    assert {"policy", "usage"}.isdisjoint(db.table_names())


async def test_a_changed_partition_keeps_its_place(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = store.load(Settings())
    names = ("b", "a", "c")
    await store.commit(happen(state, *(ev.PartitionChanged(Partition(name)) for name in names)))
    await store.commit(happen(state, ev.PartitionChanged(Partition("b", max_nodes=4))))
    assert list(store.load(Settings()).partitions) == list(state.partitions) == ["b", "a", "c"]
    store.close()


def test_counts_follow_an_account_that_moves() -> None:
    state = State()
    history(state)
    happen(state, ev.PolicyChanged(msgspec.structs.replace(OPTICS, parent="root")))
    assert check(state) == [] and "account:physics" not in state.submitted
    assert state.submitted["account:root"] == 1
    happen(state, ev.PartitionChanged(Partition("main", all_nodes=True)))
    assert check(state) == [] and "qos:cap" not in state.submitted
    happen(state, ev.JobsForgotten((JobNumber(1),)))
    assert state.submitted == {}
