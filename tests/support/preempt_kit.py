"""Clusters in which jobs may preempt others."""

from __future__ import annotations

from typing import Any

import msgspec
from support.states import ROOT, World

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, Request, Status
from flagplot_wire.requests import ChangePolicy
from flagplotd.core import stimuli as st
from flagplotd.core.fairshare import Remembered
from flagplotd.core.state import Settings
from flagplotd.sched.plan import Policy
from flagplotd.sched.preempt import planned, preemption
from flagplotd.sched.priority import inputs
from flagplotd.sched.snapshot import Snapshot, take


class Preempting(World):
    """Two QoS: jobs of `high` may preempt those of `low`, which are requeued unless `mode` says otherwise."""

    def __init__(self, nodes: int = 2, mode: Any = "requeue", by: Any = "qos", exempt_s: int = 0, **more: Any) -> None:
        settings = Settings(preempt_mode=mode, preempt_by=by, preempt_exempt_s=exempt_s, enforce="off")
        super().__init__(nodes, settings, **more)
        self.change("add", "qos", "low")
        self.change("add", "qos", "high", priority="10", preempts="low")

    def change(self, verb: Any, kind: Any, name: str, **values: str) -> None:
        """Change policy as an admin."""
        words = {key.replace("_", "-"): value for key, value in values.items()}
        reply = self.do(st.ChangeRecords(ROOT, ChangePolicy(verb, kind, (name,), words))).reply
        assert reply is not None and not getattr(reply, "code", ""), reply
        assert not any(one.error for one in reply.results), reply  # type: ignore[union-attr]

    def snapshot(self, policy: Policy | None = None) -> Snapshot:
        """As a cycle of the controller takes it."""
        snapshot = take(self.state, self.now)
        snapshot.inputs = inputs(self.state, policy or Policy(), Remembered())
        snapshot.preemption = preemption(self.state, self.now)
        return snapshot

    def whole_cycle(self, policy: Policy | None = None) -> st.Planned:
        """One cycle with preemption, carried out; returns what it decided."""
        made = planned(self.snapshot(policy), policy or Policy())
        self.do(made)
        return made

    def job(self, number: int) -> Job:
        """A job's record."""
        return self.state.jobs[JobNumber(number)]

    def status(self, number: int) -> Status:
        """A job's status."""
        return self.job(number).status

    def low(self, request: Request | None = None, start: bool = True, **fields: Any) -> int:
        """A job that may be preempted; started at once."""
        number = self.submit(request or asks(8), qos="low", **fields)
        if start:
            self.whole_cycle()
            assert self.word(number) == "RUNNING"
        return number

    def high(self, request: Request | None = None, **fields: Any) -> int:
        """A job that may preempt."""
        return self.submit(request or asks(8), qos="high", **fields)

    def leave(self, *numbers: int) -> None:
        """The nodes report that stopped jobs have ended."""
        for number in numbers:
            for node in self.status(number).allocation.names:  # type: ignore[union-attr]
                if number in self.state.active:
                    self.end(number, cause="stopped", node=node)


def asks(cpus: int = 1, mem: int = 100, limit: int = 3_600, **more: Any) -> Request:
    """A small request."""
    return msgspec.structs.replace(Request(cpus_per_task=cpus, mem_per_node_mib=mem, time_limit_s=limit), **more)
