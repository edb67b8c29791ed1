"""Jobs as the rows of a queue, without a state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flagplot_wire.job import Job, Request
from flagplotd.core.apply import due_at
from flagplotd.sched.queue import Queue
from flagplotd.sched.table import Table


def queue_of(jobs: Sequence[Job]) -> tuple[Queue, list[Request]]:
    """The rows of these jobs in this order, and the requests of their shapes. Numbers may repeat."""
    requests = list(dict.fromkeys(job.spec.request for job in jobs))
    table = Table()
    rows = []
    for job in jobs:
        spec, status = job.spec, job.status
        names = {"partition": spec.partition, "qos": spec.qos, "whom": f"{job.user}@{spec.account}"}
        indices = [table.name(column, name) for column, name in {**names, "reservation": spec.reservation}.items()]
        head = (job.number, status.submit_time, status.eligible_time, status.priority, spec.nice, due_at(job), 0)
        rows.append((*head, requests.index(spec.request), 1, 0, *indices, False, True))
    objects = np.empty(len(jobs), object)
    objects[:] = list(jobs)
    found = Queue(np.array(rows, table.rows.dtype), objects, objects, table.names, np.zeros(len(jobs), np.int64))
    return found, requests
