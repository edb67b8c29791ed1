"""A whole cluster of model agents driven at random: lost frames, repeats, restarts, reboots, crashes.

After every step the invariants hold; no part of an attempt is executed twice, no job in two attempts at once,
no acknowledged job vanishes, and the journal alone brings the state back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as some
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.core_kit import ALICE, BOB, OPERATOR, fingerprint, inventory, part

from flagplot_wire import events as ev
from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.alloc import Allocation
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import ArraySpec, JobSpec, Request
from flagplot_wire.node import Partition
from flagplot_wire.replies import Submitted
from flagplot_wire.requests import Act, DrainNodes, RemoveNodes, ResumeNodes, Update
from flagplot_wire.values import parse_dependency
from flagplotd.core import invariants
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.orders import AckOn, LaunchOn, Outcome, StopOn
from flagplotd.core.state import Settings, State
from flagplotd.core.step import step

NODES = ("n1", "n2", "n3")
LEASE = 60
Key = tuple[int, int]


@dataclass
class Agent:
    """What a real agent keeps: what it was told to run and the ends that are not acknowledged yet."""

    boot: int = 1
    connected: bool = False
    silent_since: int = 0
    running: set[Key] = field(default_factory=set)
    known: set[Key] = field(default_factory=set)
    ends: dict[Key, AttemptEnd] = field(default_factory=dict)
    inbox: list[LaunchOn | StopOn | AckOn] = field(default_factory=list)


class Cluster(RuleBasedStateMachine):
    """The rules are what may happen to a cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.settings = Settings(lease_s=LEASE, keep_ended_s=300, keep_ended=6, max_launch_failures=3, launch_retry_s=2)
        self.state = State(settings=self.settings)
        self.journal: list[ev.Body] = []
        self.agents = {name: Agent() for name in NODES}
        self.executed: set[tuple[str, int, int]] = set()
        self.acknowledged: set[int] = set()
        self.keys: list[tuple[st.SubmitJob, int]] = []
        self.epoch = 0
        self.late: list[tuple[str, AttemptEnd]] = []

    @initialize()
    def boot(self) -> None:
        self.restart_controller()
        for name in NODES:
            self.connect(name)

    def do(self, stimulus: st.Stimulus) -> Outcome:
        ended = {number for number, job in self.state.jobs.items() if job.status.state.ended}
        outcome = step(self.state, stimulus, self.now)
        for event in outcome.events:
            if isinstance(event, ev.JobsForgotten):
                assert set(event.numbers) <= ended
                self.acknowledged -= set(event.numbers)
        self.journal += outcome.events
        for order in outcome.orders:
            if isinstance(order, LaunchOn | StopOn | AckOn) and self.agents[order.node].connected:
                self.agents[order.node].inbox.append(order)
        return outcome

    # People

    @rule(
        who=some.sampled_from((ALICE, BOB)),
        nodes=some.integers(1, 2),
        launch=some.sampled_from(("batch", "tasks")),
        requeue=some.booleans(),
        array=some.sampled_from(("", "", "0-2", "1,5")),
        limit=some.integers(0, 2),
        begin=some.sampled_from((0, 0, 20)),
        dependency=some.sampled_from(("", "", "singleton", "afterok:{}", "afterany:{}", "after:{}+1")),
        data=some.data(),
    )
    def submit(
        self,
        who: Any,
        nodes: int,
        launch: Any,
        requeue: bool,
        array: str,
        limit: int,
        begin: int,
        dependency: str,
        data: Any,
    ) -> None:
        if "{}" in dependency:
            dependency = dependency.format(self.some_job(data)) if self.state.jobs else ""
        spec = JobSpec(
            "job",
            "/home",
            Request(nodes_min=nodes, nodes_max=nodes, launch=launch),
            requeue=requeue,
            array=ArraySpec(array, limit) if array else None,
            begin=self.now + begin if begin else 0,
            dependency=parse_dependency(dependency) if dependency else None,
        )
        stimulus = st.SubmitJob(who, spec, f"key{len(self.keys)}")
        reply = self.do(stimulus).reply
        assert isinstance(reply, Submitted) and not reply.again
        self.acknowledged.add(reply.number)
        self.keys.append((stimulus, reply.number))

    @precondition(lambda self: self.keys)
    @rule(data=some.data())
    def submit_again(self, data: Any) -> None:
        stimulus, number = data.draw(some.sampled_from(self.keys))
        if (stimulus.who.user, stimulus.key) in self.state.by_key:
            outcome = self.do(stimulus)
            assert outcome.reply == Submitted(number, again=True) and not outcome.events

    def some_job(self, data: Any) -> str:
        job = self.state.jobs[data.draw(some.sampled_from(sorted(self.state.jobs)))]
        if job.array_index is not None and data.draw(some.booleans()):
            return f"{job.array_number}_{job.array_index}"
        return str(job.number)

    @precondition(lambda self: self.state.jobs)
    @rule(
        verb=some.sampled_from(("cancel", "cancel", "hold", "release", "requeue")),
        who=some.sampled_from((ALICE, BOB, OPERATOR)),
        data=some.data(),
    )
    def act(self, verb: Any, who: Any, data: Any) -> None:
        self.do(st.ActOnJobs(who, Act(verb, (self.some_job(data),))))

    @precondition(lambda self: self.state.jobs)
    @rule(
        change=some.sampled_from(
            (
                {"time_limit": "5"},
                {"name": "other"},
                {"array_limit": 1},
                {"begin": "now+30"},
                {"priority": 3},
                {"dependency": "singleton"},
            )
        ),
        data=some.data(),
    )
    def update(self, change: Any, data: Any) -> None:
        self.do(st.UpdateJobs(OPERATOR, Update((self.some_job(data),), **change)))

    @rule(name=some.sampled_from(NODES), verb=some.sampled_from(("drain", "resume", "resume", "remove")))
    def nodes(self, name: str, verb: str) -> None:
        if verb == "drain":
            self.do(st.Drain(OPERATOR, DrainNodes((name,), "test")))
        elif verb == "resume":
            self.do(st.Resume(OPERATOR, ResumeNodes((name,))))
        elif not self.agents[name].connected:
            self.do(st.Remove(OPERATOR, RemoveNodes((name,))))

    # The scheduler, which may be wrong or late

    @precondition(lambda self: self.state.pending)
    @rule(data=some.data())
    def plan(self, data: Any) -> None:
        starts = []
        for _ in range(data.draw(some.integers(1, 4))):
            number = data.draw(some.sampled_from(sorted(self.state.pending)))
            count = self.state.jobs[number].spec.request.nodes_min
            first = data.draw(some.integers(0, 2))
            names = [NODES[(first + offset) % 3] for offset in range(count)]
            cpu = str(data.draw(some.integers(0, 4)))
            gpus = {data.draw(some.integers(0, 1)): data.draw(some.sampled_from((3, 8)))} if cpu in "01" else {}
            parts = tuple(part(name, cpu, memory_mib=2500, gpus=gpus) for name in names)
            index = data.draw(some.sampled_from((None, None, 1)))
            starts.append(st.Start(JobNumber(number), Allocation(parts), index))
        before = {number: self.state.jobs[number].status.attempt for number in self.state.jobs}
        self.do(st.Planned(tuple(starts)))
        for number in self.state.jobs:
            array = self.state.jobs[number]
            if array.spec.array and array.spec.array.limit and array.status.elements_running > array.spec.array.limit:
                started = [n for n in self.state.elements[number].values() if before.get(n, 0) == 0]
                assert not [n for n in started if self.state.jobs[n].status.start_time == self.now and n not in before]

    # The agents

    def connect(self, name: str) -> None:
        agent = self.agents[name]
        agent.connected, agent.inbox = True, []
        running = tuple(Attempt(JobNumber(number), attempt) for number, attempt in sorted(agent.running))
        ends = tuple(agent.ends.values())
        self.do(st.AgentJoined(name, inventory(f"boot-{agent.boot}"), "1.0", running, ends))

    @rule(name=some.sampled_from(NODES))
    def reconnect(self, name: str) -> None:
        if not self.agents[name].connected:
            self.connect(name)

    @rule(name=some.sampled_from(NODES), noticed=some.booleans())
    def disconnect(self, name: str, noticed: bool) -> None:
        agent = self.agents[name]
        if agent.connected:
            agent.connected, agent.inbox, agent.silent_since = False, [], self.now
            self.do(st.AgentLost(name))
            if noticed:
                self.do(st.AgentLost(name))

    @rule(name=some.sampled_from(NODES))
    def reboot(self, name: str) -> None:
        agent = self.agents[name]
        self.disconnect(name, False)
        agent.boot += 1
        agent.running.clear()
        self.connect(name)

    @rule(name=some.sampled_from(NODES))
    def obey(self, name: str) -> None:
        agent = self.agents[name]
        if not agent.inbox:
            return
        order = agent.inbox.pop(0)
        if isinstance(order, AckOn):
            for attempt in order.ends:
                agent.ends.pop((attempt.number, attempt.attempt), None)
            return
        key = (int(order.number), order.attempt)
        if isinstance(order, StopOn):
            if key in agent.running:
                self.finish(name, key, "stopped", 0)
            return
        if key in agent.known:
            if key in agent.ends:
                self.do(st.AttemptEnded(name, agent.ends[key]))
            return
        agent.known.add(key)
        assert (name, *key) not in self.executed, "a part of an attempt was executed twice"
        self.executed.add((name, *key))
        for other_name, other in self.agents.items():
            for number, attempt in other.running:
                assert number != key[0] or attempt == key[1], f"two attempts of {number} at once, one on {other_name}"
        agent.running.add(key)
        self.do(st.AttemptStarted(name, JobNumber(key[0]), key[1], self.now))

    def finish(self, name: str, key: Key, cause: Any, code: int) -> None:
        agent = self.agents[name]
        agent.running.discard(key)
        end = AttemptEnd(JobNumber(key[0]), key[1], cause, code, time=self.now)
        agent.ends[key] = end
        self.late.append((name, end))
        if agent.connected:
            self.do(st.AttemptEnded(name, end))

    @precondition(lambda self: any(agent.running for agent in self.agents.values()))
    @rule(
        cause=some.sampled_from(("exited", "exited", "exited", "timeout", "oom", "launch_failed", "lost")),
        code=some.sampled_from((0, 0, 1)),
        data=some.data(),
    )
    def job_ends(self, cause: str, code: int, data: Any) -> None:
        there = sorted((name, key) for name, agent in self.agents.items() for key in agent.running)
        name, key = data.draw(some.sampled_from(there))
        self.finish(name, key, cause, code)

    @precondition(lambda self: self.late)
    @rule(data=some.data())
    def end_again(self, data: Any) -> None:
        name, end = data.draw(some.sampled_from(self.late))
        outcome = self.do(st.AttemptEnded(name, end))
        assert any(isinstance(order, AckOn) for order in outcome.orders)

    @rule(name=some.sampled_from(NODES))
    def heartbeat(self, name: str) -> None:
        agent = self.agents[name]
        if agent.connected:
            listed = sorted(agent.running | set(agent.ends))
            self.do(st.Reported(name, tuple(Attempt(JobNumber(number), attempt) for number, attempt in listed)))

    # Time and crashes

    @rule(seconds=some.sampled_from((1, 5, 31, 61, 400)))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        for name, agent in self.agents.items():
            if not agent.connected and self.now - agent.silent_since >= LEASE:
                for key in sorted(agent.running):
                    self.finish(name, key, "stopped", 0)
        self.do(st.Tick())

    @rule()
    def restart_controller(self) -> None:
        fresh = State(settings=self.settings)
        for event in self.journal:
            apply(fresh, event)
        assert fingerprint(fresh) == fingerprint(self.state)
        fresh.by_key = dict(self.state.by_key)
        self.state = fresh
        self.epoch += 1
        for agent in self.agents.values():
            if agent.connected:
                agent.connected, agent.inbox, agent.silent_since = False, [], self.now
        self.do(st.Boot(Epoch(self.epoch), "1.0", (Partition("main", all_nodes=True, default=True),), NODES))

    @invariant()
    def all_is_well(self) -> None:
        assert invariants.check(self.state) == []
        assert self.acknowledged <= set(self.state.jobs)

    def teardown(self) -> None:
        """Left alone, with every agent back, everything that runs comes to an end."""
        if not self.epoch:
            return
        for name in NODES:
            self.reconnect(name)
        for _ in range(200):
            if not self.state.active:
                break
            for name in NODES:
                while self.agents[name].inbox:
                    self.obey(name)
                for key in sorted(self.agents[name].running):
                    self.finish(name, key, "exited", 0)
                self.heartbeat(name)
            self.now += 10
            self.do(st.Tick())
        assert not self.state.active
        self.all_is_well()
        fresh = State(settings=self.settings)
        for event in self.journal:
            apply(fresh, event)
        assert fingerprint(fresh) == fingerprint(self.state)


TestCluster = Cluster.TestCase
TestCluster.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
