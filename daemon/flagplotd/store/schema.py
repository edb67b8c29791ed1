"""The tables and their migrations. A migration, once released, is never changed: old files load for ever."""

from __future__ import annotations

from sqlite_utils import Database, Migrations

from flagplotd.store.rows import held, job_decoder

SCHEMA = 4
"""Counts the migrations; a file that says more was written by a newer version."""

migrations = Migrations("flagplotd")


@migrations()
def m001_first_tables(db: Database) -> None:
    """Journal, current records, payloads and submit keys."""
    db.table("meta").create({"key": str, "value": str}, pk="key")
    db.table("events").create(
        {"seq": int, "time": int, "kind": str, "job": int, "node": str, "body": bytes},
        pk="seq",
        not_null={"time", "kind", "body"},
    )
    db.table("events").create_index(["job"])
    db.table("events").create_index(["node"])
    db.table("jobs").create(
        {
            "number": int,
            "live": int,
            "user": str,
            "name": str,
            "partition": str,
            "state": str,
            "submit_time": int,
            "start_time": int,
            "end_time": int,
            "array_number": int,
            "array_index": int,
            "record": bytes,
        },
        pk="number",
        not_null={"live", "user", "state", "record"},
    )
    db.table("jobs").create_index(["live"])
    db.table("jobs").create_index(["array_number"])
    db.table("jobs").create_index(["user", "end_time"])
    db.table("payloads").create({"number": int, "payload": bytes}, pk="number", not_null={"payload"})
    db.table("submit_keys").create(
        {"user": str, "key": str, "number": int, "time": int}, pk=("user", "key"), not_null={"number"}
    )
    db.table("nodes").create({"name": str, "record": bytes}, pk="name", not_null={"record"})
    db.table("partitions").create({"name": str, "record": bytes}, pk="name", not_null={"record"})
    db.table("probe").create({"id": int, "data": bytes}, pk="id")


@migrations()
def m002_policy(db: Database) -> None:
    """Accounts, associations, QoS and reservations by kind and key, and the decayed usage of associations."""
    db.table("policy").create({"kind": str, "key": str, "record": bytes}, pk=("kind", "key"), not_null={"record"})
    db.table("usage").create({"key": str, "record": bytes}, pk="key", not_null={"record"})


@migrations()
def m003_steps(db: Database) -> None:
    """Steps of jobs; -1 is the script's own."""
    db.table("steps").create({"number": int, "step": int, "record": bytes}, pk=("number", "step"), not_null={"record"})


@migrations()
def m004_held(db: Database) -> None:
    """What ended jobs held, in CPU- and GPU-seconds, for whom: usage is added up without reading records."""
    jobs = db.table("jobs")
    jobs.add_column("account", str)
    jobs.add_column("cpu_s", int)
    jobs.add_column("gpu_s", int)
    last = -1
    while rows := list(db.query("SELECT number, record FROM jobs WHERE number > ? ORDER BY number LIMIT 1000", [last])):
        known = [job_decoder.decode(row["record"]) for row in rows]
        db.conn.executemany(
            "UPDATE jobs SET account=?, cpu_s=?, gpu_s=? WHERE number=?",
            [(job.spec.account, *held(job), job.number) for job in known],
        )
        last = rows[-1]["number"]
    jobs.create_index(["end_time"])
