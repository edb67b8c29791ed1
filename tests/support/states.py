"""States of small clusters, made by the real core."""

from __future__ import annotations

from typing import Any

from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import JobSpec, Request
from flagplot_wire.node import Gpu, Inventory, Partition
from flagplot_wire.replies import Acted, Failure, Submitted
from flagplot_wire.requests import Act
from flagplotd.core import invariants
from flagplotd.core import stimuli as st
from flagplotd.core.orders import Outcome
from flagplotd.core.state import Settings, State, Who
from flagplotd.core.step import step
from flagplotd.sched.plan import Policy, plan
from flagplotd.sched.snapshot import take

ADA = Who("ada", 1000)
ROOT = Who("root", 0, roles=("user", "admin"))


def inventory(cpus: int = 8, memory: int = 8_000, gpus: int = 2, kind: str = "a100", boot: str = "b1") -> Inventory:
    """A node's hardware."""
    cards = tuple(Gpu(index, f"GPU-{kind}-{index}", kind, vram_mib=8_000) for index in range(gpus))
    return Inventory(boot, 1, cpus, 1, f"0-{cpus - 1}", memory, gpus=cards)


class World:
    """A cluster in memory: `do` steps it and checks every invariant afterwards."""

    def __init__(self, nodes: int = 2, settings: Settings | None = None, **hardware: Any) -> None:
        self.state = State(settings or Settings())
        self.now = 1_000_000
        self.journal: list[Any] = []
        self.orders: list[Any] = []
        self.keys = 0
        partition = Partition("main", all_nodes=True, default=True)
        self.do(st.Boot(Epoch(1), "0", (partition,)))
        for index in range(nodes):
            self.do(st.AgentJoined(f"n{index + 1}", inventory(**hardware), "0"))

    def do(self, stimulus: st.Stimulus) -> Outcome:
        """One step."""
        outcome = step(self.state, stimulus, self.now)
        self.journal += outcome.events
        self.orders += outcome.orders
        assert invariants.check(self.state) == [], (stimulus, invariants.check(self.state))
        return outcome

    def submit(self, request: Request | None = None, who: Who = ADA, **fields: Any) -> int:
        """Submit a job that must be accepted; returns its number."""
        reply = self.try_submit(request, who, **fields)
        assert isinstance(reply, Submitted), reply
        return reply.number

    def try_submit(self, request: Request | None = None, who: Who = ADA, **fields: Any) -> Submitted | Failure:
        """Submit a job."""
        self.keys += 1
        spec = JobSpec(fields.pop("name", "job"), "/tmp", request or Request(mem_per_node_mib=100), **fields)
        reply = self.do(st.SubmitJob(who, spec, f"key{self.keys}")).reply
        assert isinstance(reply, Submitted | Failure)
        return reply

    def cycle(self, policy: Policy | None = None) -> list[int]:
        """One scheduling cycle; returns the numbers that started (an array's own number for its elements)."""
        made = plan(take(self.state, self.now), policy or Policy())
        self.do(st.Planned(made.starts, made.forecasts))
        return [start.number for start in made.starts]

    def cycle_one(self, start: st.Start) -> None:
        """Commit one planned start."""
        self.do(st.Planned((start,)))

    def end(self, number: int, exit_code: int = 0, cause: Any = "exited", node: str = "", message: str = "") -> Outcome:
        """The first (or the named) node reports the end of a job's attempt."""
        job = self.state.jobs[JobNumber(number)]
        assert job.status.allocation is not None
        end = AttemptEnd(job.number, job.status.attempt, cause, exit_code, time=self.now, message=message)
        return self.do(st.AttemptEnded(node or job.status.allocation.names[0], end))

    def act(self, verb: Any, *jobs: str, who: Who = ADA) -> Acted:
        """cancel, hold, release or requeue."""
        reply = self.do(st.ActOnJobs(who, Act(verb, jobs))).reply
        assert isinstance(reply, Acted)
        return reply

    def word(self, number: int) -> str:
        """A job's state."""
        return str(self.state.jobs[JobNumber(number)].status.state)

    def running_on(self, node: str) -> tuple[Attempt, ...]:
        """What an agent on this node would report."""
        return tuple(
            Attempt(number, self.state.jobs[number].status.attempt) for number in sorted(self.state.use[node].jobs)
        )
