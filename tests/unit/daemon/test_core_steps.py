"""Steps in the core: layout, rights, records, and interactive jobs."""

from __future__ import annotations

from typing import Any

import pytest
from support.core_kit import ADMIN, ALICE, BOB, OPERATOR, Driver, part

from flagplot_wire.alloc import Allocation, NodeAlloc
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.replies import Acted, Failure, StepStarted
from flagplot_wire.steps import BATCH_STEP, Step, StepEnd, StepPart, StepSpec
from flagplotd.core import stimuli as st
from flagplotd.core.orders import AckStepOn, StopOn, StopStepOn
from flagplotd.core.steps import layout

SPEC = StepSpec("s", ("hostname",))


def nodes(*tasks: int) -> Allocation:
    """An allocation of n1, n2, … with so many tasks each."""
    return Allocation(tuple(NodeAlloc(f"n{place}", 4, "0-3", 100, (), count) for place, count in enumerate(tasks, 1)))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (StepSpec("s"), [("n1", 2, 0), ("n2", 2, 2), ("n3", 1, 4)]),
        (StepSpec("s", nodes=2), [("n1", 2, 0), ("n2", 2, 2)]),
        (StepSpec("s", tasks=2), [("n1", 1, 0), ("n2", 1, 1)]),
        (StepSpec("s", tasks=5), [("n1", 2, 0), ("n2", 2, 2), ("n3", 1, 4)]),
        (StepSpec("s", tasks=7), [("n1", 3, 0), ("n2", 2, 3), ("n3", 2, 5)]),
        (StepSpec("s", tasks_per_node=3, nodes=2), [("n1", 3, 0), ("n2", 3, 3)]),
        (StepSpec("s", nodelist=("n3",)), [("n3", 1, 0)]),
        (StepSpec("s", nodelist=("n3",), tasks=2), [("n3", 2, 0)]),
        (StepSpec("s", exclude=("n1",)), [("n2", 2, 0), ("n3", 1, 2)]),
        (StepSpec("s", pty=True), [("n1", 1, 0)]),
    ],
)
def test_layouts(spec: StepSpec, expected: list[tuple[str, int, int]]) -> None:
    assert layout(nodes(2, 2, 1), spec) == tuple(StepPart(*one) for one in expected)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (StepSpec("s", nodes=4), "wants 4 nodes"),
        (StepSpec("s", nodelist=("n9",)), "n9 is not one of the job's"),
        (StepSpec("s", tasks=2, nodes=3), "2 tasks cannot run on 3 nodes"),
        (StepSpec("s", tasks=9, tasks_per_node=2), "need more than 3"),
        (StepSpec("s", exclude=("n1", "n2", "n3")), "no node of the job is left"),
        (StepSpec("s", tasks_per_node=65_000), "at most 65536 tasks"),
    ],
)
def test_layouts_that_cannot_be(spec: StepSpec, words: str) -> None:
    with pytest.raises(Refused, match=words):
        layout(nodes(2, 2, 1), spec)


class World(Driver):
    """A running job of alice on n1 and n2."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.number = self.submit(nodes_min=2, nodes_max=2, **fields)
        self.start(self.number, part("n1"), part("n2"))

    def begin(self, who: Any = ALICE, as_owner: bool = False, spec: StepSpec = SPEC) -> Any:
        return self.do(st.BeginStep(who, str(self.number), spec, as_owner)).reply

    def end_part(self, node: str, cause: Any = "exited", code: int = 0, number: int = 0, step: int = 0) -> None:
        end = StepEnd(JobNumber(self.number), 1, step, node, cause, code, number, 0, self.now, 70, 5)
        self.do(st.StepPartEnded(node, end))

    def record(self) -> Step:
        return [event.step for event in self.events if hasattr(event, "step")][-1]


def test_a_step_ends_with_its_last_part() -> None:
    world = World()
    first = world.begin()
    assert isinstance(first, StepStarted) and first.step.id == f"{world.number}.0" and first.step.tasks == 2
    assert world.begin().step.step == 1
    world.end_part("n1", code=2)
    assert world.orders(AckStepOn) and world.record().state == "RUNNING"
    world.end_part("n1", code=9)
    assert world.record().exit_code == 2, "a repeated end counts once"
    world.end_part("n2")
    ended = world.record()
    assert (ended.state, ended.exit_code, ended.cpu_ms, ended.memory_peak_mib) == ("FAILED", 2, 140, 5)
    assert list(world.state.steps[JobNumber(world.number)]) == [1]
    world.end_part("n2")
    assert world.orders(AckStepOn) and not world.last.events


def test_who_may_start_a_step() -> None:
    world = World()
    assert world.begin(BOB).code == "not_permitted"
    assert world.begin(BOB, as_owner=True).code == "not_permitted"
    for who in (OPERATOR, ADMIN):
        assert world.begin(who).hint.startswith("--as-owner")
        step = world.begin(who, as_owner=True).step
        assert step.user == "alice" and step.message == f"started by {who.user}"
    assert isinstance(world.do(st.EndStep(BOB, str(world.number), 0)).reply, Failure)
    world.do(st.EndStep(ALICE, str(world.number), 0))
    assert [order.node for order in world.orders(StopStepOn)] == ["n1", "n2"]
    pending = world.submit()
    assert world.do(st.BeginStep(ALICE, str(pending), SPEC)).reply.code == "not_running"  # type: ignore[union-attr]


def test_a_terminal_belongs_to_one_task() -> None:
    reply = World().begin(spec=StepSpec("s", pty=True, tasks=2))
    assert reply.code == "bad_request" and "one task" in reply.message


def test_steps_end_with_their_job_and_the_script_has_its_own_record() -> None:
    world = World()
    world.begin()
    world.end(world.number, "n1", exit_code=3, cpu_ms=40, memory_peak_mib=9)
    batch = world.record()
    assert (batch.id, batch.step, batch.state, batch.exit_code) == (f"{world.number}.batch", BATCH_STEP, "FAILED", 3)
    world.end_part("n1", code=137, number=9)
    world.end_part("n2", code=137, number=9)
    assert world.record().state == "CANCELLED", "it was killed with its job"
    world = World()
    world.begin()
    world.end(world.number, "n1")
    world.end(world.number, "n2", "stopped")
    assert world.job(world.number).status.state == "COMPLETED" and not world.state.steps
    assert world.record().state == "CANCELLED"


def test_numbers_go_on_after_a_requeue() -> None:
    world = World()
    world.begin()
    world.end(world.number, "n1", "lost")
    world.end(world.number, "n2", "stopped")
    world.start(world.number, part("n1"), part("n2"))
    assert world.begin().step.step == 1


def test_an_interactive_job_ends_by_its_client() -> None:
    world = World(launch="interactive")
    text = str(world.number)
    assert isinstance(world.do(st.EndInteractive(BOB, text)).reply, Failure)
    assert isinstance(world.do(st.EndInteractive(ALICE, text, 4)).reply, Acted)
    assert [order.node for order in world.orders(StopOn)] == ["n1", "n2"]
    world.end(world.number, "n1", "stopped")
    world.end(world.number, "n2", "stopped")
    status = world.job(world.number).status
    assert (status.state, status.exit_code) == ("FAILED", 4)
    assert world.try_submit(launch="interactive", array="0-3").code == "bad_array"
    waiting = world.submit(launch="interactive")
    world.do(st.EndInteractive(None, str(waiting), why="the client is gone"))
    assert world.job(waiting).status.state == "CANCELLED"
    assert world.do(st.EndInteractive(ALICE, str(world.submit()))).reply.code == "bad_request"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("exit_code", "kills", "state"), [(137, 1, "OUT_OF_MEMORY"), (137, 0, "FAILED"), (0, 1, "COMPLETED")]
)
def test_an_interactive_job_that_failed_for_memory(exit_code: int, kills: int, state: str) -> None:
    world = World(launch="interactive")
    world.do(st.EndInteractive(ALICE, str(world.number), exit_code))
    world.end(world.number, "n1", "stopped")
    world.end(world.number, "n2", "stopped", message="its limit was reached", oom_kills=kills)
    status = world.job(world.number).status
    assert (status.state, status.exit_code, status.message) == (state, exit_code, "its limit was reached")


def test_a_script_that_failed_as_a_step_elsewhere_was_killed_for_memory() -> None:
    world = World()
    world.end(world.number, "n1", exit_code=1)
    world.end(world.number, "n2", "stopped", message="its limit was reached", oom_kills=2)
    status = world.job(world.number).status
    assert (status.state, status.exit_code, status.message) == ("OUT_OF_MEMORY", 1, "its limit was reached")


def test_a_cancelled_job_stays_so_whatever_was_killed() -> None:
    world = World(launch="interactive")
    world.act("cancel", world.number)
    world.end(world.number, "n1", "stopped", oom_kills=1)
    world.end(world.number, "n2", "stopped", oom_kills=1)
    assert world.job(world.number).status.state == "CANCELLED"
