"""What attempts used and held, what the store adds up of it, and what limits leave."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from support.core_kit import ALICE, BOB, Driver, part

from flagplot_wire.accounting import Quota, UsedBy
from flagplot_wire.events import Event
from flagplot_wire.job import Used
from flagplotd.core.quotas import quotas
from flagplotd.core.state import Settings
from flagplotd.store import Batch, Store, accounting

HOUR = 3_600


def ran(driver: Driver, seconds: int, *parts: object, who: object = ALICE, **fields: object) -> int:
    """A job that ran for so long and ended well."""
    number = driver.start(driver.submit(who=who, **fields), *parts)  # type: ignore[arg-type]
    driver.now += seconds
    for name in driver.job(number).status.allocation.names:  # type: ignore[union-attr]
        driver.end(number, name, cpu_ms=seconds * 500, memory_peak_mib=40, gpu_percent=150)
    return number


async def stored(driver: Driver, folder: Path) -> Path:
    """A store of all that happened, closed."""
    store, batch = Store(folder), Batch()
    for seq, body in enumerate(driver.events, 1):
        batch.add(Event(seq, driver.now, body), driver.state.jobs)
    await store.commit(batch)
    store.close()
    return store.path


def test_what_the_parts_of_an_attempt_used_adds_up() -> None:
    on = Driver()
    number = ran(on, 100, part("n1", gpus={0: 8, 1: 8}), part("n2", gpus={0: 8}), nodes_min=2, nodes_max=2)
    assert on.job(number).status.used == Used(100_000, 80, 300)
    cpu_only = ran(on, 10, part("n1"))
    assert on.job(cpu_only).status.used == Used(5_000, 40, 0)


def test_what_one_node_did_not_measure_is_unknown() -> None:
    on = Driver()
    number = on.start(on.submit(nodes_min=2, nodes_max=2), part("n1", gpus={0: 8}), part("n2", gpus={0: 8}))
    on.end(number, "n1", cpu_ms=7, memory_peak_mib=3, gpu_percent=90)
    on.end(number, "n2", cpu_ms=7, memory_peak_mib=3)
    assert on.job(number).status.used == Used(14, 6, None)
    lost = on.start(on.submit(requeue=False), part("n1"))
    on.end(lost, "n1", cause="lost")
    assert on.job(lost).status.used == Used(None, None, None)


def test_earlier_attempts_are_kept_and_a_new_one_starts_at_nothing() -> None:
    on = Driver()
    number = on.start(on.submit(), part("n1", cpus=2, cpu_ids="0-1", gpus={0: 4}))
    on.now += 100
    on.end(number, "n1", cause="lost")
    status = on.job(number).status
    assert (status.state, status.before_cpu_s, status.before_gpu_s, status.used) == ("PENDING", 200, 50, None)
    on.now += 1_000
    on.start(number, part("n1"))
    on.now += 30
    on.end(number, "n1", cpu_ms=11)
    assert on.job(number).status.used == Used(11, 0, 0)
    on.act("requeue", number)
    assert on.job(number).status.before_cpu_s == 230
    assert on.replayed().jobs[number] == on.job(number)


async def test_who_used_what_by_time(tmp_path: Path) -> None:
    on = Driver()
    began = on.now
    ran(on, HOUR, part(cpus=4, cpu_ids="0-3", gpus={0: 8, 1: 2}), account="lab")
    ran(on, HOUR, part(), who=BOB)
    running = on.start(on.submit(account="lab"), part(gpus={0: 8}))
    on.now += 600
    never = on.submit(who=BOB)
    on.act("cancel", never, who=BOB)
    path = await stored(on, tmp_path)
    live = [on.job(running)]
    assert accounting.used(path, began, on.now, live) == [
        UsedBy("alice", "lab", 2, 4 * HOUR + 600, HOUR * 5 // 4 + 600),
        UsedBy("bob", "", 1, HOUR, 0),
    ]
    # Half of the first hour, and nothing of what began later.
    assert accounting.used(path, began, began + HOUR // 2, live) == [
        UsedBy("alice", "lab", 1, 2 * HOUR, HOUR * 5 // 8),
    ]
    assert accounting.used(path, on.now - 60, on.now, live) == [UsedBy("alice", "lab", 1, 60, 60)]


async def test_the_last_ended_jobs_of_a_user(tmp_path: Path) -> None:
    on = Driver()
    first = ran(on, 200, part("n1", memory_mib=100, gpus={0: 8, 1: 8}))
    ran(on, 10, part(), who=BOB)
    last = ran(on, 60, part(cpus=2, cpu_ids="0-1"))
    never = on.submit()
    on.act("cancel", never)
    path = await stored(on, tmp_path)
    found = accounting.ended(path, "alice", 10)
    assert [one.number for one in found] == [last, first]
    assert [one.number for one in accounting.ended(path, "alice", 1)] == [last]
    assert (found[0].cpus, found[0].cpu_ms, found[0].held_s, found[0].gpu_percent) == (2, 30_000, 60, None)
    assert (found[1].gpu_millis, found[1].gpu_percent, found[1].memory_peak_mib, found[1].memory_mib) == (
        2_000,
        75,
        40,
        100,
    )


async def test_an_older_store_learns_what_its_jobs_held(tmp_path: Path) -> None:
    on = Driver()
    began = on.now
    ran(on, HOUR, part(gpus={0: 8}), account="lab")
    path = await stored(on, tmp_path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP INDEX idx_jobs_end_time")
    for column in ("account", "cpu_s", "gpu_s"):
        connection.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
    connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'm004_held'")
    connection.execute("PRAGMA user_version=3")
    connection.close()
    store = Store(tmp_path)
    assert store.load(Settings()).jobs.keys() == on.state.jobs.keys()
    store.close()
    assert accounting.used(path, began, on.now, ()) == [UsedBy("alice", "lab", 1, HOUR, HOUR)]


def test_quotas_tell_every_limit_once_and_what_is_in_use() -> None:
    on = Driver()
    on.change("add", "account", "lab", max_gpus="8", max_submit="50")
    on.change("add", "user", "alice", account="lab", default="yes", max_jobs="2")
    on.change("add", "qos", "high", max_cpus="100", user_max_gpus="4")
    on.start(on.submit(gpus_per_node=(), qos="high"), part(gpus={0: 8}))
    on.submit()
    assert quotas(on.state, "alice", on.now) == [
        Quota("user alice in account lab", "jobs", 1, 2, "user:alice@lab"),
        Quota("account lab", "gpus", 0, 8, "account:lab"),
        Quota("account lab", "submitted", 2, 50, "account:lab"),
        Quota("QoS high", "cpus", 1, 100, "qos:high"),
        Quota("user alice in QoS high", "gpus", 0, 4, "qos:high:user:alice"),
    ]
    assert quotas(on.state, "bob", on.now) == [
        Quota("QoS high", "cpus", 1, 100, "qos:high"),
        Quota("user bob in QoS high", "gpus", 0, 4, "qos:high:user:bob"),
    ]
