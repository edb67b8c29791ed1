"""Reading the store: short-lived, read-only connections, never in the writer's way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from flagplot_wire.events import Event
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import Job, Payload
from flagplot_wire.steps import Step
from flagplotd.core.apply import put_job, put_record, put_step
from flagplotd.core.state import NodeUse, Settings, State
from flagplotd.store.rows import (
    body_decoder,
    job_decoder,
    node_decoder,
    partition_decoder,
    payload_decoder,
    policy_decoder,
    step_decoder,
    usage_decoder,
)

KEYS_KEPT = 200_000
"""Submit keys that a restarted controller still knows, the latest first."""


@contextmanager
def reading(path: Path) -> Iterator[Database]:
    """A read-only connection for a moment."""
    connection = sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True, timeout=10, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only=1")
        yield Database(connection, recursive_triggers=False, execute_plugins=False)
    finally:
        connection.close()


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def load(path: Path, settings: Settings) -> State:
    """The live state as of the last commit."""
    state = State(settings=settings)
    with reading(path) as db:
        db.conn.execute("BEGIN")
        for (record,) in db.execute("SELECT record FROM nodes"):
            node = node_decoder.decode(record)
            state.nodes[node.name] = node
            state.use.setdefault(node.name, NodeUse())
        for (record,) in db.execute("SELECT record FROM partitions ORDER BY rowid"):
            partition = partition_decoder.decode(record)
            state.partitions[partition.name] = partition
        for (record,) in db.execute("SELECT record FROM policy ORDER BY rowid"):
            put_record(state, policy_decoder.decode(record))
        for (record,) in db.execute("SELECT record FROM usage ORDER BY rowid"):
            usage = usage_decoder.decode(record)
            state.usage[usage.key] = usage
        state.usage_at = _scalar(db, "SELECT value FROM meta WHERE key='usage_at'")
        for (record,) in db.execute("SELECT record FROM jobs WHERE live=1 ORDER BY number"):
            put_job(state, job_decoder.decode(record))
        sql = "SELECT record FROM steps WHERE number IN (SELECT number FROM jobs WHERE live=1) ORDER BY number, step"
        for (record,) in db.execute(sql):
            put_step(state, step_decoder.decode(record))
        state.next_number = _scalar(db, "SELECT max(number) FROM jobs") + 1
        state.seq = _scalar(db, "SELECT max(seq) FROM events")
        state.epoch = Epoch(_scalar(db, "SELECT value FROM meta WHERE key='epoch'"))
        rows = db.execute("SELECT user, key, number FROM submit_keys ORDER BY number DESC LIMIT ?", (KEYS_KEPT,))
        state.by_key = {(user, key): JobNumber(number) for user, key, number in rows}
    return state


def meta(path: Path, key: str) -> str:
    """A small value kept beside the state; empty when there is none."""
    with reading(path) as db:
        row = db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return str(row[0]) if row else ""


def _scalar(db: Database, sql: str) -> int:
    row = db.execute(sql).fetchone()
    return int(row[0] or 0) if row else 0


def jobs(path: Path, number: int) -> list[Job]:
    """A job's last record whether live or not, and, for an array, those of its elements."""
    with reading(path) as db:
        rows = db.query(
            "SELECT record FROM jobs WHERE number=:number OR array_number=:number ORDER BY number", {"number": number}
        )
        return [job_decoder.decode(row["record"]) for row in rows]


def steps(path: Path, number: int) -> list[Step]:
    """The steps of a job, running or not."""
    with reading(path) as db:
        rows = db.execute("SELECT record FROM steps WHERE number=? ORDER BY step", (number,))
        return [step_decoder.decode(record) for (record,) in rows]


def element(path: Path, array: int, index: int) -> Job | None:
    """One element of an array."""
    with reading(path) as db:
        sql = "SELECT record FROM jobs WHERE array_number=? AND array_index=? ORDER BY number DESC LIMIT 1"
        rows = list(db.query(sql, [array, index]))
    return job_decoder.decode(rows[0]["record"]) if rows else None


def payload(path: Path, number: int) -> Payload | None:
    """What was submitted with a job."""
    with reading(path) as db:
        rows = list(db.query("SELECT payload FROM payloads WHERE number=?", [number]))
    return payload_decoder.decode(rows[0]["payload"]) if rows else None


def events(path: Path, after: int, limit: int, job: int = 0, node: str = "") -> list[Event]:
    """The last `limit` events with seq > `after`, in order; of a job (with its elements) or node where given."""
    where, values = ["seq > :after"], dict[str, Any](after=after, limit=limit)
    if job:
        where.append("job IN (SELECT number FROM jobs WHERE number = :job OR array_number = :job)")
        values["job"] = job
    if node:
        where.append("node = :node")
        values["node"] = node
    sql = f"SELECT seq, time, body FROM events WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT :limit"
    with reading(path) as db:
        rows = list(db.query(sql, values))
    return [Event(row["seq"], row["time"], body_decoder.decode(row["body"])) for row in reversed(rows)]


def journal(path: Path) -> Iterator[Event]:
    """Every event from the first on, as of one moment."""
    with reading(path) as db:
        for seq, time, body in db.execute("SELECT seq, time, body FROM events ORDER BY seq"):
            yield Event(seq, time, body_decoder.decode(body))
