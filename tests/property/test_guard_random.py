"""The VRAM guard over random lives of jobs on shared GPUs: whom it may touch, and when it must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flagplot_agent.guard import FREEING_MS, Action, Policy, Process, Share, Standings, judge, parse_policy
from flagplot_wire.errors import Refused

LIMIT = 1_000
STEP_MS = 500
amounts = some.none() | some.integers(0, 1_500)
looks = some.lists(some.tuples(*[some.lists(amounts, max_size=4)] * 3), min_size=1, max_size=25)
policies = some.sampled_from(
    [Policy("warn"), Policy("kill-youngest"), Policy("kill-after", 0), Policy("kill-after", 2_000)]
)


def shares_of(look: tuple[list[int | None], ...]) -> list[Share]:
    """Job n has the pids 10 n, 10 n + 1 …, the later the younger."""
    return [
        Share(job, 1, 0, LIMIT, tuple(Process(job * 10 + at, at, mib) for at, mib in enumerate(use)))
        for job, use in enumerate(look, 1)
    ]


def total(share: Share) -> int:
    return sum(one.memory_mib or 0 for one in share.processes)


def lives(history: list[tuple[list[int | None], ...]], policy: Policy) -> list[tuple[list[Share], list[Action]]]:
    found, standings = [], Standings()
    for at, look in enumerate(history):
        shares = shares_of(look)
        actions, standings = judge(shares, standings, policy, at * STEP_MS)
        found.append((shares, actions))
    return found


@given(looks, policies)
def test_only_who_overruns_is_touched_and_only_as_the_policy_says(
    history: list[tuple[list[int | None], ...]], policy: Policy
) -> None:
    for shares, actions in lives(history, policy):
        by_job = {share.number: share for share in shares}
        for action in actions:
            share = by_job[action.number]
            if action.do == "warn":
                continue
            assert total(share) > LIMIT and policy.act != "warn"
            if action.do == "kill":
                victim = next(one for one in share.processes if one.pid == action.pid)
                measured = [one for one in share.processes if one.memory_mib is not None]
                assert policy.act == "kill-youngest" and victim == max(measured, key=lambda one: one.started)
            else:
                assert policy.act == "kill-after"


@given(looks, policies)
def test_a_job_is_judged_as_if_it_were_alone(history: list[tuple[list[int | None], ...]], policy: Policy) -> None:
    together = [[one for one in actions if one.number == 1] for _, actions in lives(history, policy)]
    alone = [actions for _, actions in lives([(first, [], []) for first, _, _ in history], policy)]
    assert together == alone


@given(looks, some.sampled_from([0, 500, 2_000]))
def test_kill_after_ends_at_the_first_look_after_so_long_and_never_before(
    history: list[tuple[list[int | None], ...]], after_ms: int
) -> None:
    over_for: dict[int, int | None] = {}
    for shares, actions in lives(history, Policy("kill-after", after_ms)):
        for share in shares:
            before = over_for.get(share.number)
            lasts = (0 if before is None else before + STEP_MS) if total(share) > LIMIT else None
            over_for[share.number] = lasts
            ended = any(one.do == "end" and one.number == share.number for one in actions)
            assert ended == (lasts is not None and lasts >= after_ms)


@given(looks)
def test_kill_youngest_acts_at_the_first_look_and_then_waits_for_the_memory(
    history: list[tuple[list[int | None], ...]],
) -> None:
    killed: dict[int, tuple[Process, int]] = {}
    for at, (shares, actions) in enumerate(lives(history, Policy("kill-youngest"))):
        for share in shares:
            if total(share) <= LIMIT:
                killed.pop(share.number, None)
                continue
            victim, when = killed.get(share.number, (None, 0))
            there = victim is not None and any(one.pid == victim.pid for one in share.processes)
            waits = there and at * STEP_MS - when < FREEING_MS
            kills = [one for one in actions if one.do == "kill" and one.number == share.number]
            assert len(kills) == (0 if waits else 1)
            if kills:
                killed[share.number] = (next(one for one in share.processes if one.pid == kills[0].pid), at * STEP_MS)


def test_a_warning_comes_once_at_90_per_cent_and_again_only_after_a_calm() -> None:
    told = [
        [one.do for one in actions]
        for _, actions in lives([([mib], [], []) for mib in (899, 900, 950, 850, 920, 799, 900)], Policy())
    ]
    assert told == [[], ["warn"], [], [], [], [], ["warn"]]


def test_policies_are_read_or_refused() -> None:
    assert parse_policy("kill-after=30") == Policy("kill-after", 30_000) and parse_policy("warn").act == "warn"
    for wrong in ("", "kill", "kill-after=", "kill-after=-1", "kill-after=1s"):
        with pytest.raises(Refused):
            parse_policy(wrong)
