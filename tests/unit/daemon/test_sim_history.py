"""`flagplotd simulate history`: small pasts with results worked out by hand, from journals that the core itself wrote."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.states import ADA, ROOT, World

from flagplot_wire.errors import Refused
from flagplot_wire.events import Event
from flagplot_wire.job import ArraySpec, Dependency, DependencyTerm, GpuCount, Request, Transfer
from flagplot_wire.requests import ChangePolicy, DrainNodes, ResumeNodes
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.fairshare import Remembered
from flagplotd.core.orders import Outcome
from flagplotd.core.state import Settings, State, Who
from flagplotd.sched.plan import Policy, plan
from flagplotd.sched.priority import inputs
from flagplotd.sched.snapshot import take
from flagplotd.sim import compare, history, history_command
from flagplotd.sim.replay import Replay
from flagplotd.store import Batch, Store

BOB = Who("bob", 1001)
BEGIN = 1_000_000


class Recorded(World):
    """A world whose jobs end after given seconds, with the time of every event: what a controller would have lived."""

    def __init__(self, nodes: int = 1, policy: Policy | None = None, **more: Any) -> None:
        self.events: list[Event] = []
        self.policy = policy or Policy()
        self.memory = Remembered()
        self.lasts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        super().__init__(nodes, **more)

    def do(self, stimulus: st.Stimulus) -> Outcome:
        outcome = super().do(stimulus)
        for body in outcome.events:
            self.state.seq += 1
            self.events.append(Event(self.state.seq, self.now, body))
        return outcome

    def ask(self, runs: int, cpus: int = 8, who: Who = ADA, **more: Any) -> int:
        """Submit a job that runs so many seconds, and plan."""
        gpus = (GpuCount(more.pop("gpus")),) if "gpus" in more else ()
        request = Request(cpus_per_task=cpus, mem_per_node_mib=10, time_limit_s=runs, gpus_per_node=gpus)
        number = self.submit(request, who, **more)
        self.lasts[number] = runs
        self.plan()
        return number

    def plan(self) -> None:
        """Cycles until nothing starts."""
        while True:
            snapshot = take(self.state, self.now)
            snapshot.inputs = inputs(self.state, self.policy, self.memory)
            made = plan(snapshot, self.policy)
            if not self.do(st.Planned(made.starts, made.forecasts)).events:
                break
        for number in self.state.active - self.ends.keys():
            job = self.state.jobs[number]
            if not job.is_array:
                self.ends[number] = self.now + self.lasts[job.array_number or number]

    def until(self, time: int, last: bool = True) -> None:
        """Live on until `time` after the beginning. Without `last` somebody submits then: one plan is for all of a second."""
        goal = BEGIN + time
        while due := sorted((end, number) for number, end in self.ends.items() if end <= goal):
            self.now = due[0][0]
            for end, number in due:
                if end == self.now:
                    del self.ends[number]
                    self.end(number)
            if last or self.now < goal:
                self.plan()
        self.now = goal

    def past(self, since: int = 0, until: int = history.FOREVER) -> history.Past:
        return history.read(self.events, self.state.settings, since, until)


def replayed(world: Recorded, past: history.Past, policy: Policy | None = None, **settings: Any) -> Any:
    state = history.under(past, world.state, Settings(**settings) if settings else world.state.settings, (), ())
    return Replay(past, state, policy or world.policy).run()


def starts(stays: Any) -> dict[history.Key, list[int]]:
    return {key: [run.start - BEGIN for run in stay.runs] for key, stay in stays.items()}


def three(world: Recorded) -> Recorded:
    """100 s at 0, 100 s at 10 and 10 s at 20, each of the whole node; the last one's QoS is `high`."""
    world.do(st.ChangeRecords(ROOT, ChangePolicy("add", "qos", ("high",), {})))
    world.ask(100)
    world.until(10)
    world.ask(100, who=BOB)
    world.until(20)
    world.ask(10, qos="high", gpus=1)
    world.until(1_000)
    return world


def test_a_small_past_and_its_replay_are_what_was_worked_out_by_hand() -> None:
    world = three(Recorded())
    past = world.past()
    assert starts(past.stays) == {(1, None): [0], (2, None): [100], (3, None): [200]}
    assert [stay.wait_s for stay in past.stays.values()] == [0, 90, 180]
    assert starts(replayed(world, past)) == starts(past.stays)
    figures = compare.measure(past, past.stays, world.state)
    assert figures.waits == compare.Waits(3, 90.0, 90.0, 180)
    assert figures.by_user == {"ada": compare.Waits(2, 90.0, 90.0, 180), "bob": compare.Waits(1, 90.0, 90.0, 90)}
    assert list(figures.by_size) == ["2 to 16 CPUs", "1 GPU"]
    # The journal ends with the last job, at 210: every CPU was used all the time, one of two GPUs for 10 s.
    assert figures.cpu_utilisation == 1.0 and figures.gpu_utilisation == pytest.approx(10 / 420)
    # ada used 8 CPUs for 110 s and a GPU (worth 8 CPUs) for 10 s, bob 8 CPUs for 100 s.
    assert figures.fair_use == pytest.approx((960 + 800) ** 2 / (2 * (960**2 + 800**2)))
    # Bounded slowdowns: ada 1 and 19, so 10; bob 1.9.
    assert figures.fair_waits == pytest.approx(11.9**2 / (2 * (100 + 1.9**2)))


def test_another_qos_priority_turns_the_order_round() -> None:
    world = three(Recorded())
    past = world.past()
    world.do(st.ChangeRecords(ROOT, ChangePolicy("modify", "qos", ("high",), {"priority": "10"})))
    assert starts(replayed(world, past)) == {(1, None): [0], (2, None): [110], (3, None): [100]}


def test_a_wide_job_keeps_its_reservation_or_loses_it() -> None:
    world = Recorded()
    for runs, cpus in ((100, 4), (100, 8), (150, 4)):
        world.ask(runs, cpus)
    world.until(500)
    assert starts(world.past().stays) == {(1, None): [0], (2, None): [100], (3, None): [200]}
    again = starts(replayed(world, world.past(), Policy(reservations=0)))
    assert again == {(1, None): [0], (2, None): [150], (3, None): [0]}


def test_a_limit_of_the_present_holds_in_the_replay() -> None:
    world = Recorded()
    world.do(st.ChangeRecords(ROOT, ChangePolicy("add", "account", ("lab",), {})))
    for _ in range(3):
        world.ask(100, 1, account="lab")
    world.until(400)
    past = world.past()
    assert starts(past.stays) == {(number, None): [0] for number in (1, 2, 3)}
    world.do(st.ChangeRecords(ROOT, ChangePolicy("modify", "account", ("lab",), {"max-jobs": "1"})))
    assert starts(replayed(world, past)) == {(1, None): [0], (2, None): [100], (3, None): [200]}
    world.do(st.ChangeRecords(ROOT, ChangePolicy("modify", "account", ("lab",), {"max-jobs": "0"})))
    stays = replayed(world, past)
    assert stays == {} and compare.measure(past, stays, world.state).unstarted == 3


def test_arrays_requeues_dependencies_and_drains_come_again_as_they_were() -> None:
    world = Recorded(nodes=2)
    array = world.ask(50, array=ArraySpec("0-5", 3))
    world.until(20)
    after = world.ask(30, 2, dependency=Dependency((DependencyTerm("afterok", (str(array),)),)))
    world.do(st.Drain(ROOT, DrainNodes(("n2",), "fan")))
    world.until(60)
    world.do(st.Resume(ROOT, ResumeNodes(("n2",))))
    world.plan()
    lone = world.ask(40)
    world.until(500)
    never = world.ask(10, 9_999)
    past = world.past()
    again = starts(replayed(world, past))
    assert again == starts(past.stays) and len(again) == 8
    assert again[(after, None)] > again[(array, 5)] and (lone, None) in again
    assert (never, None) not in again and past.never_ran == 1


def test_a_job_waits_for_its_files_as_it_did() -> None:
    world = Recorded()
    number = world.ask(100, stage_in=(Transfer("/here", "/there"),))
    world.until(40)
    world.do(st.Staged(ADA, str(number)))
    world.plan()
    world.until(500)
    past = world.past()
    assert starts(past.stays) == starts(replayed(world, past)) == {(number, None): [40]}


def test_a_requeued_job_waits_and_runs_twice() -> None:
    world = Recorded()
    number = world.ask(100)
    world.until(30)
    world.act("requeue", str(number))
    del world.ends[number]
    world.end(number, cause="stopped")
    world.plan()
    world.until(500)
    past = world.past()
    assert starts(past.stays) == {(number, None): [0, 30]}
    assert starts(replayed(world, past)) == {(number, None): [0, 30]}


def test_a_past_from_its_middle_begins_with_what_ran_and_waited_then() -> None:
    world = three(Recorded())
    past = world.past(BEGIN + 50)
    assert sorted(past.opening.active) == [1] and sorted(past.opening.pending) == [2, 3]
    assert starts(replayed(world, past)) == {(1, None): [0], (2, None): [100], (3, None): [200]}
    assert compare.measure(past, past.stays, world.state).waits.jobs == 2
    assert set(world.past(0, BEGIN + 15).stays) == {(1, None), (2, None)}


@pytest.mark.parametrize("seed", range(8))
def test_random_pasts_replayed_under_their_own_settings_start_alike(seed: int) -> None:
    print("seed", seed)
    dice = random.Random(seed)
    policy = Policy(weight_size=dice.choice((0, 1_000)), reservations=dice.choice((1, 100)))
    world = Recorded(nodes=3, policy=policy)
    time = 0
    for _ in range(60):
        time += dice.randrange(1, 30)
        world.until(time, last=False)
        more: dict[str, Any] = {"gpus": dice.randrange(1, 3)} if dice.random() < 0.5 else {}
        if dice.random() < 0.2:
            more["array"] = ArraySpec(f"0-{dice.randrange(1, 4)}")
        world.ask(dice.randrange(1, 200), dice.randrange(1, 9), dice.choice((ADA, BOB)), **more)
    world.until(20_000)
    past = world.past()
    assert starts(replayed(world, past)) == starts(past.stays)


async def stored(world: Recorded, folder: Path) -> None:
    """The world's journal in a store of its own."""
    store = Store(folder)
    state = State()
    for event in world.events:
        apply(state, event.body)
        batch = Batch()
        batch.add(event, state.jobs)
        await store.commit(batch)
    store.close()


async def test_the_command_prints_before_and_after(tmp_path: Path) -> None:
    await stored(three(Recorded()), tmp_path)
    file = tmp_path / "other.toml"
    file.write_text('[[qos]]\nname = "high"\npriority = 10\n')
    words = ["--policy", str(file), "--state", str(tmp_path)]
    told = json.loads(CliRunner().invoke(history_command.command, [*words, "--json"], catch_exceptions=False).output)
    assert told["before"] == told["present"] and told["never_ran"] == told["still_running"] == 0
    assert told["before"]["waits"] == {"jobs": 3, "mean_s": 90.0, "median_s": 90.0, "p95_s": 180}
    assert told["after"]["waits"] == {"jobs": 3, "mean_s": 60.0, "median_s": 80.0, "p95_s": 100}
    text = CliRunner().invoke(history_command.command, [*words, "--ascii"], catch_exceptions=False).output
    lines = text.splitlines()
    head = lines.index(next(line for line in lines if line.startswith("Waits ")))
    assert [line.split()[-4:] for line in lines[head + 1 : head + 4]] == [
        ["3", "1:30", "1:30", "3:00"], ["3", "1:30", "1:30", "3:00"], ["3", "1:00", "1:20", "1:40"],
    ]  # fmt: skip
    assert lines[head + 1].count("#") == 20 and lines[head + 3].count("#") == 13
    assert all(len(line) <= 80 for line in lines) and text.isascii()


async def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("[scheduler]\nreservations = 5\n")

    def says(*words: str) -> str:
        with pytest.raises(Refused) as wrong:
            command = ["--policy", str(file), "--state", str(tmp_path), *words]
            CliRunner().invoke(history_command.command, command, catch_exceptions=False)
        return wrong.value.message

    assert f"there is no store {tmp_path}" in says()
    await stored(Recorded(), tmp_path)
    assert "holds no job that ran: no job was submitted" in says()
    assert "--to is not after --from" in says("--from", "2026-01-02", "--to", "2026-01-01")
    file.write_text("[scheduler]\nreservation = 5\n")
    assert "other.toml: unknown key 'scheduler.reservation'" in says()


def test_jobs_that_came_and_ended_in_the_journals_first_second_count() -> None:
    world = Recorded()
    numbers = [world.ask(0), world.ask(0)]
    world.until(0)
    past = world.past()
    assert (past.since, past.until, past.never_ran) == (BEGIN, BEGIN, 0)
    assert starts(past.stays) == {(number, None): [0] for number in numbers}
    assert starts(replayed(world, past)) == starts(past.stays)
    assert world.past(since=BEGIN + 1).stays == {}
