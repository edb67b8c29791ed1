"""A whole cluster of model agents driven at random: lost frames, repeats, restarts, reboots, crashes.

After every step the invariants hold; no part of an attempt is executed twice, no job in two attempts at once,
no acknowledged job vanishes, and the journal alone brings the state back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import hypothesis.strategies as some
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.core_kit import ALICE, BOB, OPERATOR, fingerprint, inventory, part

from flagplot_wire import events as ev
from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.alloc import Allocation
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import ArraySpec, JobSpec, Request
from flagplot_wire.node import Partition
from flagplot_wire.policy import Qos
from flagplot_wire.replies import Submitted
from flagplot_wire.requests import Act, DrainNodes, RebootNodes, RemoveNodes, ResumeNodes, Update
from flagplot_wire.values import parse_dependency
from flagplotd.core import invariants
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.orders import AckOn, LaunchOn, Outcome, SignalOn, StopOn
from flagplotd.core.state import Settings, State
from flagplotd.core.step import step

NODES = ("n1", "n2", "n3")
LEASE = 60
PARTITIONS = (Partition("main", all_nodes=True, default=True),)
QOS = (Qos("low", grace_s=5), Qos("sleepy", preempt_mode="suspend"), Qos("high", preempts=("low", "sleepy")))
Key = tuple[int, int]
PICK = some.integers(0, 10**6)
RARELY = some.sampled_from((False, False, False, True))


@dataclass
class Agent:
    """What a real agent keeps: what it was told to run and the ends that are not acknowledged yet."""

    boot: int = 1
    connected: bool = False
    silent_since: int = 0
    running: set[Key] = field(default_factory=set)
    known: set[Key] = field(default_factory=set)
    ends: dict[Key, AttemptEnd] = field(default_factory=dict)
    inbox: list[LaunchOn | StopOn | AckOn | SignalOn] = field(default_factory=list)
    stopped: set[Key] = field(default_factory=set)


class Cluster(RuleBasedStateMachine):
    """The rules are what may happen to a cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.settings = Settings(
            lease_s=LEASE,
            keep_ended_s=300,
            keep_ended=6,
            max_launch_failures=3,
            launch_retry_s=2,
            preempt_mode="requeue",
        )
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
            if isinstance(order, LaunchOn | StopOn | AckOn | SignalOn) and self.agents[order.node].connected:
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
        qos=some.sampled_from(("", "low", "sleepy", "high", "high")),
        pick=PICK,
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
        qos: str,
        pick: int,
    ) -> None:
        if "{}" in dependency:
            dependency = dependency.format(self.some_job(pick)) if self.state.jobs else ""
        spec = JobSpec(
            "job",
            "/home",
            Request(nodes_min=nodes, nodes_max=nodes, launch=launch),
            requeue=requeue,
            qos=qos,
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
    @rule(pick=PICK)
    def submit_again(self, pick: int) -> None:
        stimulus, number = self.keys[pick % len(self.keys)]
        if (stimulus.who.user, stimulus.key) in self.state.by_key:
            outcome = self.do(stimulus)
            assert outcome.reply == Submitted(number, again=True) and not outcome.events

    def some_job(self, pick: int) -> str:
        numbers = sorted(self.state.jobs)
        job = self.state.jobs[numbers[-1 - pick % min(len(numbers), 12)]]
        if job.array_index is not None and pick % 2:
            return f"{job.array_number}_{job.array_index}"
        return str(job.number)

    @precondition(lambda self: self.state.jobs)
    @rule(
        verb=some.sampled_from(("cancel", "hold", "release", "release", "release", "requeue", "requeue")),
        who=some.sampled_from((ALICE, BOB, OPERATOR)),
        pick=PICK,
    )
    def act(self, verb: Any, who: Any, pick: int) -> None:
        self.do(st.ActOnJobs(who, Act(verb, (self.some_job(pick),))))

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
        pick=PICK,
    )
    def update(self, change: Any, pick: int) -> None:
        self.do(st.UpdateJobs(OPERATOR, Update((self.some_job(pick),), **change)))

    @rule(name=some.sampled_from(NODES), verb=some.sampled_from(("drain", "resume", "remove", "reboot")), rarely=RARELY)
    def nodes(self, name: str, verb: str, rarely: bool) -> None:
        if verb == "drain" and rarely:
            self.do(st.Drain(OPERATOR, DrainNodes((name,), "test")))
        elif verb == "reboot" and rarely:
            self.do(st.Reboot(OPERATOR, RebootNodes((name,), "test")))
        elif verb in ("resume", "drain"):
            self.do(st.Resume(OPERATOR, ResumeNodes((name,))))
        elif not self.agents[name].connected:
            self.do(st.Remove(OPERATOR, RemoveNodes((name,))))

    # The scheduler, which may be wrong or late

    @precondition(lambda self: self.state.pending)
    @rule(seed=some.integers(0, 2**32), wrong=RARELY, cards=RARELY)
    def plan(self, seed: int, wrong: bool, cards: bool) -> None:
        chance = Random(seed)
        starts = []
        taken = {name: self.state.use[name].cpus if name in self.state.use else 0 for name in NODES}
        for number in chance.sample(sorted(self.state.pending), min(len(self.state.pending), 6)):
            names = chance.sample(NODES, self.state.jobs[number].spec.request.nodes_min)
            held = sum((1 << cpu) for cpu in range(5) if any(taken[name] >> cpu & 1 for name in names))
            cpu = chance.randrange(5) if wrong else next(cpu for cpu in range(6) if not held >> cpu & 1)
            for name in names:
                taken[name] |= 1 << cpu
            gpus = {chance.randrange(2): chance.choice((3, 8))} if cards else {}
            parts = tuple(part(name, str(cpu), memory_mib=1900, gpus=gpus) for name in names)
            starts.append(st.Start(JobNumber(number), Allocation(parts), chance.choice((None, None, 1))))
        if chance.random() < 0.1:
            starts += starts
        before = {number: job.status.elements_running for number, job in self.state.jobs.items()}
        self.do(st.Planned(tuple(starts)))
        for number, running in before.items():
            array = self.state.jobs[number]
            if array.spec.array and array.spec.array.limit:
                assert array.status.elements_running <= max(array.spec.array.limit, running)

    @precondition(lambda self: self.state.pending and self.state.active)
    @rule(seed=some.integers(0, 2**32), room=some.booleans())
    def preempt(self, seed: int, room: bool) -> None:
        """A decision that may be wrong or late; what it does must keep what is promised."""
        chance, state = Random(seed), self.state
        preempts = []
        above = sorted(state.pending)
        below = sorted(state.active)
        if room:
            above = [number for number in above if state.jobs[number].spec.qos == "high"] or above
            below = [number for number in below if state.jobs[number].spec.qos in ("low", "sleepy")] or below
        for number in chance.sample(above, min(len(above), 4)):
            some = chance.sample(below, min(len(below), chance.choice((1, 1, 2))))
            attempts = tuple(Attempt(one, state.jobs[one].status.attempt - (chance.random() < 0.05)) for one in some)
            parts = [part(chance.choice(NODES), str(chance.randrange(5)), memory_mib=1900)]
            allocation = state.jobs[some[0]].status.allocation
            if room and allocation is not None:
                parts = list(allocation.nodes)
            preempts.append(st.Preempt(number, attempts, Allocation(tuple(parts))))
        given_up = tuple(chance.sample(sorted(state.given_room), chance.randint(0, len(state.given_room))))
        before = dict(state.jobs)
        self.do(st.Planned((), preempts=tuple(preempts), given_up=given_up))
        for number, job in self.state.jobs.items():
            was, by = before[number].status, before.get(job.status.preempted_by)
            if job.status.preempted_by and was.preempted_by != job.status.preempted_by:
                assert by is not None and by.spec.qos == "high" and job.spec.qos in ("low", "sleepy")
                assert was.state in ("RUNNING", "SUSPENDED")

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

    @rule(name=some.sampled_from(NODES), rarely=RARELY, twice=some.booleans())
    def connection_breaks(self, name: str, rarely: bool, twice: bool) -> None:
        if rarely:
            self.disconnect(name)
            if twice:
                self.do(st.AgentLost(name))
        else:
            self.reconnect(name)

    def disconnect(self, name: str) -> None:
        agent = self.agents[name]
        if agent.connected:
            agent.connected, agent.inbox, agent.silent_since = False, [], self.now
            self.do(st.AgentLost(name))

    @rule(name=some.sampled_from(NODES), rarely=RARELY)
    def reboot(self, name: str, rarely: bool) -> None:
        agent = self.agents[name]
        if not rarely:
            return
        self.disconnect(name)
        agent.boot += 1
        agent.running.clear()
        agent.stopped.clear()
        self.connect(name)

    @rule(names=some.lists(some.sampled_from(NODES), min_size=1, max_size=12))
    def frames_arrive(self, names: list[str]) -> None:
        for name in names:
            self.obey(name)

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
        if isinstance(order, SignalOn):
            if key in agent.running:
                (agent.stopped.add if order.signal == "STOP" else agent.stopped.discard)(key)
            return
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
        agent.stopped.discard(key)
        end = AttemptEnd(JobNumber(key[0]), key[1], cause, code, time=self.now)
        agent.ends[key] = end
        self.late.append((name, end))
        if agent.connected:
            self.do(st.AttemptEnded(name, end))

    @precondition(lambda self: any(agent.running for agent in self.agents.values()))
    @rule(
        cause=some.sampled_from(("exited", "exited", "exited", "timeout", "oom", "launch_failed", "lost")),
        code=some.sampled_from((0, 0, 1)),
        pick=PICK,
    )
    def job_ends(self, cause: str, code: int, pick: int) -> None:
        there = sorted((name, key) for name, agent in self.agents.items() for key in agent.running)
        name, key = there[pick % len(there)]
        self.finish(name, key, cause, code)

    @precondition(lambda self: self.late)
    @rule(pick=PICK)
    def end_again(self, pick: int) -> None:
        name, end = self.late[pick % len(self.late)]
        outcome = self.do(st.AttemptEnded(name, end))
        assert any(isinstance(order, AckOn) for order in outcome.orders)

    @rule(name=some.sampled_from(NODES))
    def heartbeat(self, name: str) -> None:
        agent = self.agents[name]
        if agent.connected:
            listed = sorted(agent.running | set(agent.ends))
            self.do(st.Reported(name, tuple(Attempt(JobNumber(number), attempt) for number, attempt in listed)))

    # Time and crashes

    @rule(seconds=some.sampled_from((1, 1, 5, 5, 31, 61, 400)))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        for name, agent in self.agents.items():
            if not agent.connected and self.now - agent.silent_since >= LEASE:
                for key in sorted(agent.running):
                    self.finish(name, key, "stopped", 0)
        self.do(st.Tick())

    @rule(rarely=RARELY, back=some.sets(some.sampled_from(NODES)))
    def crash(self, rarely: bool, back: set[str]) -> None:
        if rarely:
            self.restart_controller()
            for name in sorted(back):
                self.connect(name)

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
        self.do(st.Boot(Epoch(self.epoch), "1.0", PARTITIONS, NODES, QOS))

    @invariant()
    def all_is_well(self) -> None:
        assert invariants.check(self.state) == []
        assert self.acknowledged <= set(self.state.jobs)
        for name, agent in self.agents.items():
            for number, attempt in agent.running:
                job = self.state.jobs.get(JobNumber(number))
                if job is not None and job.status.attempt == attempt:
                    assert number in self.state.active, f"{name} runs {number}, which is {job.status.state}"
                    assert name not in job.status.parts_ended

    def all_are_stopped_or_go_on(self) -> None:
        """Once every agent has heard what it missed, the processes of suspended jobs are stopped and no others."""
        for _ in range(2):
            for name in NODES:
                while self.agents[name].inbox:
                    self.obey(name)
                self.heartbeat(name)
        for name, agent in self.agents.items():
            for number, attempt in agent.running:
                job = self.state.jobs.get(JobNumber(number))
                if job is not None and job.status.attempt == attempt and job.status.state != "COMPLETING":
                    stopped = (number, attempt) in agent.stopped
                    assert stopped == (job.status.state == "SUSPENDED"), f"{number} on {name} is {job.status.state}"

    def teardown(self) -> None:
        """Left alone, with every agent back, everything that runs comes to an end."""
        if not self.epoch:
            return
        for name in NODES:
            self.reconnect(name)
        self.all_are_stopped_or_go_on()
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


def walk(seed: int, steps: int) -> Cluster:
    """A long random walk over the same rules, with a busy cluster most of the time."""
    chance = Random(seed)
    cluster = Cluster()
    cluster.boot()

    def rarely() -> bool:
        return chance.random() < 0.03

    def pick() -> int:
        return chance.randrange(10**6)

    for _ in range(steps):
        match chance.randrange(18):
            case 0 | 1:
                if len(cluster.state.pending) < 30:
                    cluster.submit(
                        who=chance.choice((ALICE, BOB)),
                        nodes=chance.choice((1, 1, 2, 3)),
                        launch=chance.choice(("batch", "tasks")),
                        requeue=chance.random() < 0.5,
                        array=chance.choice(("", "", "0-2", "1,5", "0-20")),
                        limit=chance.randrange(3),
                        begin=chance.choice((0, 0, 0, 20)),
                        dependency=chance.choice(("", "", "", "singleton", "afterok:{}", "afterany:{}", "after:{}+1")),
                        qos=chance.choice(("", "low", "low", "sleepy", "high", "high")),
                        pick=pick(),
                    )
            case 2 | 3 | 4 if cluster.state.pending:
                cluster.plan(pick(), rarely(), chance.random() < 0.3)
            case 5 | 6 | 7 | 8:
                cluster.frames_arrive([chance.choice(NODES) for _ in range(8)])
            case 9 | 10 if any(agent.running for agent in cluster.agents.values()):
                causes = ("exited", "exited", "exited", "exited", "timeout", "oom", "launch_failed", "lost")
                cluster.job_ends(chance.choice(causes), chance.choice((0, 0, 1)), pick())
            case 11 if cluster.state.jobs and chance.random() < 0.5:
                verb = chance.choice(("cancel", "hold", "release", "release", "requeue", "requeue"))
                cluster.act(verb, chance.choice((ALICE, BOB, OPERATOR)), pick())
            case 12:
                cluster.heartbeat(chance.choice(NODES))
                if cluster.late:
                    cluster.end_again(pick())
            case 13:
                cluster.wait(chance.choice((1, 1, 2, 3, 5, 12, 25, 45, 400 if rarely() else 3)))
            case 14:
                name = chance.choice(NODES)
                cluster.connection_breaks(name, chance.random() < 0.15, True)
                cluster.reboot(name, rarely())
                cluster.nodes(name, chance.choice(("drain", "resume", "remove")), rarely())
            case 16 | 17 if cluster.state.pending and cluster.state.active:
                cluster.preempt(pick(), chance.random() < 0.8)
            case 15 if chance.random() < 0.1:
                cluster.crash(True, {name for name in NODES if chance.random() < 0.8})
        cluster.all_is_well()
    return cluster


@pytest.mark.parametrize("seed", range(12))
def test_long_walks(seed: int) -> None:
    cluster = walk(seed, 800)
    causes = {event.cause for event in cluster.journal if isinstance(event, ev.JobChanged)}
    assert {"started", "ended", "split", "requeued", "part ended", "ending"} <= causes
    cluster.teardown()


def test_walks_meet_every_kind_of_preemption() -> None:
    causes = set[str]()
    for seed in range(2, 6):
        cluster = walk(seed, 1_200)
        causes |= {event.cause for event in cluster.journal if isinstance(event, ev.JobChanged)}
        cluster.teardown()
    assert {"makes room", "preempted", "suspended", "resumed", "room is not kept"} <= causes
