"""The store: commits whole or not at all, loads what it committed, and refuses what it cannot trust."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from support.core_kit import happen

from flagplot_wire import events as ev
from flagplot_wire.alloc import Allocation, GpuPart, NodeAlloc
from flagplot_wire.errors import Refused
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import ArraySpec, Job, JobSpec, Payload, Status
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Inventory, Node, Partition
from flagplotd.core.invariants import check
from flagplotd.core.state import Settings, State
from flagplotd.store import Batch, Store, queries
from flagplotd.store.lock import RESERVE_BYTES, Reserve
from flagplotd.store.schema import SCHEMA


def job(number: int, **status: object) -> Job:
    return Job(JobNumber(number), "ada", 1_000, JobSpec("j", "/tmp"), Status(**status))  # type: ignore[arg-type]


ALLOCATION = Allocation((NodeAlloc("n1", 2, "0-1", 64, (GpuPart(0, 3, 8),)),))


def history(state: State) -> Batch:
    array = Job(JobNumber(3), "ada", 1_000, JobSpec("a", "/tmp", array=ArraySpec("0-1")), Status(waiting="1"))
    element = Job(JobNumber(4), "ada", 1_000, JobSpec("a", "/tmp"), Status(), 0, JobNumber(3), 0)
    running = Status(state=JobState.RUNNING, attempt=1, start_time=5, allocation=ALLOCATION)
    batch = happen(
        state,
        ev.ControllerStarted(Epoch(1), "0"),
        ev.PartitionChanged(Partition("main", all_nodes=True, default=True)),
        ev.NodeChanged(Node("n1", Inventory("b", 1, 4, 1, "0-3", 1_024), responding=True), "registered"),
        ev.NodeChanged(Node("n2"), "configured"),
        ev.NodeRemoved("n2"),
        ev.JobAdded(job(1)),
        ev.JobAdded(job(2)),
        ev.JobAdded(array),
        ev.JobAdded(element),
        ev.JobChanged(JobNumber(1), running, "started"),
    )
    batch.keys["ada", "k"] = JobNumber(1)
    batch.payloads[JobNumber(1)] = Payload("#!/bin/sh\n", ("a",), {"X": "y"})
    return batch


async def test_what_was_committed_is_loaded(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = store.load(Settings())
    await store.commit(history(state))
    state.by_key["ada", "k"] = JobNumber(1)
    loaded = store.load(Settings())
    assert loaded == state
    assert check(loaded) == [] and loaded.next_number == 5
    assert loaded.use["n1"].gpu_shards == [3]
    found = await store.read(lambda path: queries.payload(path, 1))
    assert found == Payload("#!/bin/sh\n", ("a",), {"X": "y"})
    store.close()
    again = Store(tmp_path)
    assert again.load(Settings()) == state
    again.close()


async def test_forgotten_jobs_stay_in_the_history(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = store.load(Settings())
    await store.commit(history(state))
    await store.commit(happen(state, ev.JobsForgotten((JobNumber(2), JobNumber(4), JobNumber(3)))))
    assert set(store.load(Settings()).jobs) == {1}
    assert [job.number for job in await store.read(lambda path: queries.jobs(path, 3))] == [3, 4]
    element = await store.read(lambda path: queries.element(path, 3, 0))
    assert element is not None and element.number == 4
    assert store.load(Settings()).next_number == 5
    store.close()


async def test_a_failed_commit_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = store.load(Settings())
    await store.commit(history(state))
    before = store.load(Settings())
    batch = happen(state, ev.JobAdded(job(9)))
    batch.events.append(batch.events[0])
    with pytest.raises(sqlite3.IntegrityError):
        await store.commit(batch)
    assert store.load(Settings()) == before
    await store.commit(happen(before, ev.JobAdded(job(9))))
    assert 9 in store.load(Settings()).jobs
    store.close()


async def test_the_journal_can_be_searched(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.commit(history(store.load(Settings())))

    def kinds(*args: object, **more: object) -> list[int]:
        return [event.seq for event in queries.events(store.path, *args, **more)]  # type: ignore[arg-type]

    assert kinds(-1, 100) == list(range(1, 11))
    assert kinds(-1, 3) == [8, 9, 10] and kinds(8, 100) == [9, 10]
    assert kinds(-1, 100, 1) == [6, 10] and kinds(-1, 100, 3) == [8, 9] and kinds(-1, 100, 0, "n2") == [4, 5]
    store.close()


def test_durability_settings(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def ask(pragma: str) -> object:
        return store._writing.submit(lambda: store.writer.connection.execute(f"PRAGMA {pragma}").fetchone()[0]).result()

    assert (ask("journal_mode"), ask("synchronous"), ask("user_version")) == ("wal", 2, SCHEMA)
    assert store.path.stat().st_mode & 0o077 == 0
    store.close()


def test_a_second_store_names_the_first(tmp_path: Path) -> None:
    import os

    store = Store(tmp_path)
    with pytest.raises(Refused, match=f"pid {os.getpid()}") as refused:
        Store(tmp_path)
    assert refused.value.code == "unavailable"
    store.close()
    Store(tmp_path).close()


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 500])
def test_what_is_no_store_is_refused_and_left(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "flagplot.db"
    path.write_bytes(content)
    with pytest.raises(Refused, match="damaged"):
        Store(tmp_path)
    assert path.read_bytes() == content


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "flagplot.db")
    connection.execute(f"PRAGMA user_version={SCHEMA + 1}")
    connection.close()
    with pytest.raises(Refused, match="newer"):
        Store(tmp_path)


def test_a_lost_database_with_its_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flagplot.db-wal").write_bytes(b"x")
    with pytest.raises(Refused, match="damaged"):
        Store(tmp_path)


def test_reserve(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path)
    reserve.take()
    assert (tmp_path / "reserve").stat().st_size == RESERVE_BYTES
    reserve.free()
    reserve.free()
    assert not (tmp_path / "reserve").exists()
