"""The one connection that writes and checkpoints. Its methods must all be called from one thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field
from sqlite_utils import Database

from flagplot_wire import __version__
from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, Payload
from flagplot_wire.node import Node, Partition
from flagplot_wire.policy import Kind, Record, Usage, kind_of
from flagplot_wire.steps import Step
from flagplotd.store.rows import blob, event_row, job_row
from flagplotd.store.schema import SCHEMA, migrations

PROBE_BYTES = 256 * 1024


class Batch(Struct):
    """Everything of one transaction. `jobs` maps a number to its record and whether it is live; None in the others
    is a record that is gone. `usage_at` is 0 where the usage was not decayed."""

    events: list[ev.Event] = field(default_factory=list)
    jobs: dict[JobNumber, tuple[Job, bool]] = field(default_factory=dict)
    nodes: dict[str, Node | None] = field(default_factory=dict)
    partitions: dict[str, Partition | None] = field(default_factory=dict)
    policy: dict[tuple[Kind, str], Record | None] = field(default_factory=dict)
    usage: dict[str, Usage | None] = field(default_factory=dict)
    usage_at: int = 0
    steps: dict[tuple[JobNumber, int], Step] = field(default_factory=dict)
    payloads: dict[JobNumber, Payload] = field(default_factory=dict)
    keys: dict[tuple[str, str], JobNumber] = field(default_factory=dict)

    def add(self, event: ev.Event, jobs: dict[JobNumber, Job]) -> None:
        """Take an event that was just applied, with the records it left behind in `jobs`."""
        self.events.append(event)
        match event.body:
            case ev.JobAdded(job):
                self.jobs[job.number] = (jobs.get(job.number, job), True)
            case ev.JobChanged(number) | ev.JobSpecChanged(number):
                if number in jobs:
                    self.jobs[number] = (jobs[number], True)
            case ev.StepChanged(record):
                self.steps[record.number, record.step] = record
            case ev.NodeChanged(node):
                self.nodes[node.name] = node
            case ev.NodeRemoved(name):
                self.nodes[name] = None
            case ev.PartitionChanged(partition):
                self.partitions[partition.name] = partition
            case ev.PartitionRemoved(name):
                self.partitions[name] = None
            case ev.PolicyChanged(record=changed):
                self.policy[kind_of(changed), changed.key] = changed
            case ev.PolicyRemoved(kind, key):
                self.policy[kind, key] = None
                if kind == "user":
                    self.usage[key] = None
            case ev.UsageUpdated(time, usage):
                self.usage_at = time
                self.usage.update((entry.key, entry) for entry in usage)

    @property
    def empty(self) -> bool:
        """True when nothing needs to be made durable."""
        return not (self.events or self.payloads or self.keys)


def damaged(path: Path, why: str) -> Refused:
    """The refusal for a store that cannot be trusted."""
    return Refused(
        "damaged",
        f"the store {path} is damaged: {why}",
        f"nothing was changed; copy {path.parent} away, then restore flagplot.db from a backup, or recover it with "
        f"'sqlite3 flagplot.db .recover' into a new file",
    )


class Writer:
    """Opens the store, brings its schema up to date and commits batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if not path.exists():
                _create(path)
            self.connection = sqlite3.connect(path, isolation_level=None, timeout=10)
            try:
                self._open()
            except BaseException:
                self.connection.close()
                raise
        except sqlite3.DatabaseError as wrong:
            if _full(wrong):
                raise Refused("disk_full", f"there is no room to open {path}: {wrong}", "free some space") from wrong
            raise damaged(path, str(wrong)) from wrong

    def _open(self) -> None:
        run = self.connection.execute
        found = [row[0] for row in run("PRAGMA quick_check(3)")]
        if found != ["ok"]:
            raise damaged(self.path, "; ".join(found))
        version = int(run("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA:
            raise Refused(
                "wrong_version",
                f"{self.path} was written by a newer flagplotd (schema {version}, this one knows {SCHEMA})",
                "start the newer version",
            )
        if version == 0:
            raise damaged(self.path, "it is empty, though it exists")
        mode = run("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise Refused("unavailable", f"{self.path} cannot use a write-ahead log here", "use a local file system")
        run("PRAGMA synchronous=FULL")
        run("PRAGMA foreign_keys=OFF")
        migrations.apply(Database(self.connection, execute_plugins=False))
        run(f"PRAGMA user_version={SCHEMA}")
        run("INSERT OR REPLACE INTO meta VALUES ('written_by', ?)", (__version__,))
        run("DELETE FROM probe")

    def commit(self, batch: Batch) -> None:
        """Make a batch durable, all or nothing; raises sqlite3.Error when it is not."""
        run = self.connection
        run.execute("BEGIN IMMEDIATE")
        try:
            self._write(batch)
            run.execute("COMMIT")
        except BaseException:
            if run.in_transaction:
                run.execute("ROLLBACK")
            raise

    def _write(self, batch: Batch) -> None:
        run = self.connection
        run.executemany("INSERT INTO events VALUES (?,?,?,?,?,?)", map(event_row, batch.events))
        run.executemany(
            "INSERT OR REPLACE INTO jobs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (job_row(job, live) for job, live in batch.jobs.values()),
        )
        run.executemany(
            "INSERT OR REPLACE INTO payloads VALUES (?,?)",
            ((number, blob(payload)) for number, payload in batch.payloads.items()),
        )
        run.executemany(
            "INSERT OR REPLACE INTO steps VALUES (?,?,?)",
            ((number, step, blob(record)) for (number, step), record in batch.steps.items()),
        )
        time = batch.events[-1].time if batch.events else 0
        run.executemany(
            "INSERT OR REPLACE INTO submit_keys VALUES (?,?,?,?)",
            ((user, key, number, time) for (user, key), number in batch.keys.items()),
        )
        for event in batch.events:
            if isinstance(event.body, ev.JobsForgotten):
                self._forget(event.body.numbers)
            elif isinstance(event.body, ev.ControllerStarted):
                run.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (str(event.body.epoch),))
        self._put("nodes", ("name",), [((name,), node) for name, node in batch.nodes.items()])
        self._put("partitions", ("name",), [((name,), partition) for name, partition in batch.partitions.items()])
        self._put("policy", ("kind", "key"), list(batch.policy.items()))
        self._put("usage", ("key",), [((key,), usage) for key, usage in batch.usage.items()])
        if batch.usage_at:
            self.note("usage_at", str(batch.usage_at))

    def _put(self, table: str, key: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], Struct | None]]) -> None:
        """Write records by key, and delete those that are None. A changed record keeps its place in the order."""
        gone = [names for names, record in rows if record is None]
        kept = [(*names, blob(record)) for names, record in rows if record is not None]
        where = " AND ".join(f"{column}=?" for column in key)
        marks = ",".join("?" * (len(key) + 1))
        self.connection.executemany(f"DELETE FROM {table} WHERE {where}", gone)
        self.connection.executemany(
            f"INSERT INTO {table} VALUES ({marks}) ON CONFLICT({','.join(key)}) DO UPDATE SET record=excluded.record",
            kept,
        )

    def _forget(self, numbers: Iterable[JobNumber]) -> None:
        self.connection.executemany("UPDATE jobs SET live=0 WHERE number=?", ((number,) for number in numbers))

    def note(self, key: str, value: str) -> None:
        """Keep a small value in `meta`."""
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def probe(self) -> None:
        """Write and delete something; raises sqlite3.Error while the disk is full."""
        run = self.connection.execute
        run("INSERT OR REPLACE INTO probe VALUES (1, zeroblob(?))", (PROBE_BYTES,))
        run("DELETE FROM probe")

    def close(self) -> None:
        """Checkpoint and close."""
        self.connection.close()


def _create(path: Path) -> None:
    """Make a store beside its place and move it there, so that a half-made one is never taken for a real one."""
    if path.with_name(path.name + "-wal").exists():
        raise damaged(path, "the file is gone, but its write-ahead log is there")
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        fresh.chmod(0o600)
        migrations.apply(Database(connection, execute_plugins=False))
        connection.execute(f"PRAGMA user_version={SCHEMA}")
    finally:
        connection.close()
    fresh.rename(path)


def _full(wrong: sqlite3.Error) -> bool:
    return getattr(wrong, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def is_full(wrong: BaseException) -> bool:
    """True for errors that mean that the disk takes no more."""
    return isinstance(wrong, OSError) or (isinstance(wrong, sqlite3.Error) and _full(wrong))
