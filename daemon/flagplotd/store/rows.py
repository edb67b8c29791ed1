"""Records and events as blobs: msgpack maps that ignore fields they do not know."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from flagplot_wire import events as ev
from flagplot_wire.job import Job, Payload
from flagplot_wire.node import Node, Partition
from flagplot_wire.policy import Record, Usage
from flagplot_wire.steps import Step
from flagplotd.core.usage import held_before

_encoder = msgspec.msgpack.Encoder()
body_decoder: msgspec.msgpack.Decoder[ev.Body] = msgspec.msgpack.Decoder(ev.Body)
job_decoder = msgspec.msgpack.Decoder(Job)
node_decoder = msgspec.msgpack.Decoder(Node)
partition_decoder = msgspec.msgpack.Decoder(Partition)
policy_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
usage_decoder = msgspec.msgpack.Decoder(Usage)
step_decoder = msgspec.msgpack.Decoder(Step)
payload_decoder = msgspec.msgpack.Decoder(Payload)


def blob(record: Struct) -> bytes:
    """One record as msgpack."""
    return _encoder.encode(record)


def event_row(event: ev.Event) -> tuple[int, int, str, int | None, str | None, bytes]:
    """An event as a row of the journal; `job` and `node` are there to be searched."""
    body = event.body
    job: int | None = None
    node: str | None = None
    match body:
        case ev.JobAdded():
            job = body.job.number
        case ev.JobChanged() | ev.JobSpecChanged():
            job = body.number
        case ev.StepChanged():
            job = body.step.number
        case ev.NodeChanged():
            node = body.node.name
        case ev.NodeRemoved():
            node = body.name
    return event.seq, event.time, str(body.__struct_config__.tag), job, node, blob(body)


def held(job: Job) -> tuple[int, int]:
    """The CPU- and GPU-seconds that a job held, all its attempts; 0 until it has ended."""
    status = job.status
    if not status.end_time:
        return 0, 0
    found = held_before(job, status.end_time)
    return found["before_cpu_s"], found["before_gpu_s"]


def job_row(job: Job, live: bool) -> tuple[object, ...]:
    """A job's current record as a row."""
    status = job.status
    return (
        job.number,
        int(live),
        job.user,
        job.spec.name,
        job.spec.partition,
        str(status.state),
        status.submit_time,
        status.start_time,
        status.end_time,
        job.array_number or None,
        job.array_index,
        blob(job),
        job.spec.account,
        *held(job),
    )
