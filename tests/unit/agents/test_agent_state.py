"""What an agent decides about starts and ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flagplot_agent.state import AgentState
from flagplot_wire.agentlink import AttemptEnd
from flagplot_wire.ids import Epoch, JobNumber


def end(number: int, attempt: int = 1) -> AttemptEnd:
    return AttemptEnd(JobNumber(number), attempt, "exited")


def test_a_start_is_carried_out_once() -> None:
    state = AgentState(Epoch(3))
    assert state.decide(Epoch(3), 1, 1) == "start"
    state.running[1, 1] = 10
    assert state.decide(Epoch(3), 1, 1) == "answer_started"
    state.end(end(1))
    assert state.decide(Epoch(4), 1, 1) == "answer_ended" and not state.running
    assert state.decide(Epoch(3), 1, 2) == "start"


def test_older_epochs_and_older_attempts_are_refused() -> None:
    state = AgentState(Epoch(3))
    assert state.decide(Epoch(2), 1, 1) == "refuse"
    state.running[1, 5] = 10
    assert state.decide(Epoch(3), 1, 4) == "refuse"


def test_ends_are_repeated_until_acknowledged() -> None:
    state = AgentState()
    state.end(end(1))
    state.end(end(2))
    state.told = {(1, 1)}
    assert [one.number for one in state.overdue()] == [2]
    assert [one.number for one in state.overdue()] == [1, 2]
    state.acknowledge(1, 1)
    assert [one.number for one in state.overdue()] == [2]
    state.acknowledge(9, 9)
    assert (9, 9) not in state.acknowledged


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from(["launch", "end", "ack"]))))
def test_no_order_of_messages_starts_an_attempt_twice(steps: list[tuple[int, int, str]]) -> None:
    state, starts = AgentState(Epoch(1)), []
    for number, attempt, what in steps:
        key = (number, attempt)
        if what == "launch" and state.decide(Epoch(1), number, attempt) == "start":
            starts.append(key)
            state.running[key] = 1
        elif what == "end" and key in state.running:
            state.end(end(number, attempt))
        elif what == "ack":
            state.acknowledge(number, attempt)
    assert len(starts) == len(set(starts))
    assert {(one.number, one.attempt) for one in state.unacknowledged()} == set(state.ended) - set(state.acknowledged)


def test_only_the_longest_acknowledged_are_forgotten() -> None:
    state = AgentState()
    for number in (3, 1, 2, 4):
        state.end(end(number))
    for number in (2, 3, 1):
        state.acknowledge(number, 1)
    assert state.forget(2) == [(2, 1)] and state.forget(2) == []
    assert set(state.ended) == {(1, 1), (3, 1), (4, 1)}
