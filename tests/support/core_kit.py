"""Short ways to make a cluster's state and to drive the core in tests."""

from __future__ import annotations

from typing import Any

from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.alloc import Allocation, GpuPart, NodeAlloc
from flagplot_wire.events import Body, Event
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import ArraySpec, Job, JobSpec, Request
from flagplot_wire.node import Gpu, Inventory, Partition
from flagplot_wire.replies import Acted, Failure, Submitted
from flagplot_wire.requests import Act, ChangePolicy, DrainNodes, RemoveNodes, ResumeNodes, Update
from flagplotd.core import invariants
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.orders import Outcome
from flagplotd.core.state import Settings, State, Who
from flagplotd.core.step import step
from flagplotd.store import Batch

ALICE = Who("alice", 1001, 1001)
BOB = Who("bob", 1002, 1002)
ADMIN = Who("root", 0, 0, ("user", "admin"))
OPERATOR = Who("olga", 1003, 1003, ("user", "operator"))


def inventory(boot: str = "boot-1", cpus: int = 4, gpus: int = 2, memory_mib: int = 8000) -> Inventory:
    """A small machine."""
    cards = tuple(Gpu(index, f"GPU-{index}", "h100", vram_mib=80_000) for index in range(gpus))
    return Inventory(boot, 1, cpus, 1, f"0-{cpus - 1}", memory_mib, gpus=cards)


def part(
    node: str = "n1", cpu_ids: str = "0", cpus: int = 1, memory_mib: int = 100, gpus: dict[int, int] | None = None
) -> NodeAlloc:
    """One node's part of an allocation; `gpus` maps an index to shards of 8."""
    cards = tuple(GpuPart(index, shards, 8, "h100", f"GPU-{index}") for index, shards in (gpus or {}).items())
    return NodeAlloc(node, cpus, cpu_ids, memory_mib, cards)


def alloc(*parts: NodeAlloc) -> Allocation:
    """An allocation; without parts CPU 0 of n1."""
    return Allocation(parts or (part(),))


def happen(state: State, *bodies: Body) -> Batch:
    """Apply events to a state; what the store is to write of them."""
    batch = Batch()
    for body in bodies:
        apply(state, body)
        state.seq += 1
        batch.add(Event(state.seq, 100, body), state.jobs)
    return batch


class Driver:
    """A state with everything that was decided; checks the invariants and the replay after each step."""

    def __init__(self, nodes: tuple[str, ...] = ("n1", "n2", "n3"), **settings: Any) -> None:
        self.now = 1_000_000
        self.state = State(settings=Settings(**settings))
        self.events: list[Body] = []
        self.last = Outcome()
        self.keys = 0
        partitions = (
            Partition("main", all_nodes=True, default=True),
            Partition("short", all_nodes=True, max_time_s=3600, default_time_s=600, max_nodes=2),
            Partition("vip", nodes=("n1",), allow_users=("bob",)),
        )
        self.do(st.Boot(Epoch(1), "1.0", partitions, nodes))
        for name in nodes:
            self.join(name)

    def do(self, stimulus: st.Stimulus, after: int = 0) -> Outcome:
        """One step, `after` seconds later."""
        self.now += after
        self.last = step(self.state, stimulus, self.now)
        self.events += self.last.events
        assert invariants.check(self.state) == []
        for event in self.last.events[-3:]:
            before = fingerprint(self.state) if event is self.last.events[-1] else None
            if before is not None:
                apply(self.state, event)
                assert fingerprint(self.state) == before, "an event applied twice changes nothing"
        return self.last

    def join(self, name: str, boot: str = "boot-1", **changes: Any) -> Outcome:
        """An agent connects."""
        return self.do(st.AgentJoined(name, inventory(boot), "1.0", **changes))

    def orders(self, kind: type[Any]) -> list[Any]:
        """The last step's orders of a kind."""
        return [order for order in self.last.orders if isinstance(order, kind)]

    def job(self, number: int) -> Job:
        """A job by number."""
        return self.state.jobs[JobNumber(number)]

    def submit(self, who: Who = ALICE, array: str = "", limit: int = 0, **fields: Any) -> int:
        """Submit and return the number; `Request` fields and `JobSpec` fields may be mixed."""
        reply = self.try_submit(who, array, limit, **fields)
        assert isinstance(reply, Submitted), reply
        return reply.number

    def try_submit(self, who: Who = ALICE, array: str = "", limit: int = 0, **fields: Any) -> Any:
        """Submit and return the reply."""
        self.keys += 1
        extra = {name: fields.pop(name) for name in ("never", "dry_run") if name in fields}
        key = fields.pop("key", f"key-{self.keys}")
        wanted = {name: fields.pop(name) for name in Request.__struct_fields__ if name in fields}
        fields.setdefault("name", "job")
        fields.setdefault("work_dir", "/home/alice")
        if array:
            fields["array"] = ArraySpec(array, limit)
        return self.do(st.SubmitJob(who, JobSpec(request=Request(**wanted), **fields), key, **extra)).reply

    def start(self, number: int, *parts: NodeAlloc, index: int | None = None) -> int:
        """Plan a start; returns the number of the job that runs (an element's own), or 0 when it was skipped."""
        before = set(self.state.active)
        self.do(st.Planned((st.Start(JobNumber(number), alloc(*parts), index),)))
        return next(iter(self.state.active - before), 0)

    def confirm(self, number: int, node: str = "n1") -> None:
        """A node confirms a start."""
        self.do(st.AttemptStarted(node, JobNumber(number), self.job(number).status.attempt, self.now))

    def end(self, number: int, node: str = "n1", cause: Any = "exited", **fields: Any) -> Outcome:
        """A node reports an end."""
        attempt = fields.pop("attempt", self.job(number).status.attempt)
        return self.do(st.AttemptEnded(node, AttemptEnd(JobNumber(number), attempt, cause, time=self.now, **fields)))

    def heartbeat(self, node: str, *numbers: int, after: int = 5) -> Outcome:
        """A heartbeat that lists these jobs with their attempts of now."""
        running = tuple(Attempt(JobNumber(number), self.job(number).status.attempt) for number in numbers)
        return self.do(st.Reported(node, running), after)

    def act(self, verb: Any, *jobs: int | str, who: Who = ALICE, signal: str = "") -> list[tuple[str, str]]:
        """Act on jobs; returns (error, message) of each."""
        reply = self.do(st.ActOnJobs(who, Act(verb, tuple(map(str, jobs)), signal))).reply
        assert isinstance(reply, Acted), reply
        return [(result.error, result.message) for result in reply.results]

    def update(self, *jobs: int | str, who: Who = ALICE, **fields: Any) -> list[tuple[str, str]]:
        """Update jobs; returns (error, message) of each."""
        reply = self.do(st.UpdateJobs(who, Update(tuple(map(str, jobs)), **fields))).reply
        assert isinstance(reply, Acted), reply
        return [(result.error, result.message) for result in reply.results]

    def drain(self, *nodes: str, reason: str = "broken fan", who: Who = OPERATOR) -> Any:
        """Drain nodes; returns the reply."""
        return self.do(st.Drain(who, DrainNodes(nodes, reason))).reply

    def resume(self, *nodes: str, who: Who = OPERATOR) -> Any:
        """Resume nodes; returns the reply."""
        return self.do(st.Resume(who, ResumeNodes(nodes))).reply

    def remove(self, *nodes: str, who: Who = OPERATOR) -> Any:
        """Remove nodes; returns the reply."""
        return self.do(st.Remove(who, RemoveNodes(nodes))).reply

    def change(self, verb: Any, kind: Any, *names: str, who: Who = ADMIN, **values: str) -> list[str]:
        """Change policy; returns the words of what was done, or error and sentence, of each name (or once of all)."""
        request = ChangePolicy(verb, kind, names, {key.replace("_", "-"): value for key, value in values.items()})
        reply = self.do(st.ChangeRecords(who, request)).reply
        if isinstance(reply, Failure):
            return [f"{reply.code}: {reply.message} ({reply.hint})"]
        assert isinstance(reply, Acted), reply
        return [f"{one.error}: {one.message}" if one.error else one.message for one in reply.results]

    def replayed(self) -> State:
        """A fresh state made from the events alone."""
        state = State(settings=self.state.settings)
        for event in self.events:
            apply(state, event)
        return state


def fingerprint(state: State) -> dict[str, Any]:
    """What a replay must bring back."""
    return {
        "jobs": dict(state.jobs),
        "nodes": dict(state.nodes),
        "partitions": dict(state.partitions),
        "use": {name: (use.cpus, use.memory_mib, [*use.gpu_shards], set(use.jobs)) for name, use in state.use.items()},
        "pending": set(state.pending),
        "active": set(state.active),
        "elements": {number: dict(elements) for number, elements in state.elements.items()},
        "names": {key: list(numbers) for key, numbers in state.names.items()},
        "accounts": dict(state.accounts),
        "associations": dict(state.associations),
        "qos": dict(state.qos),
        "reservations": dict(state.reservations),
        "usage": (state.usage_at, dict(state.usage)),
        "default_accounts": dict(state.default_accounts),
        "submitted": dict(state.submitted),
        "next_number": state.next_number,
        "epoch": state.epoch,
        "usage_at": state.usage_at,
    }
