"""Billing, charging once, and decay."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as some
from support.core_kit import BOB, Driver, alloc, fingerprint, part

from flagplot_wire import events as ev
from flagplot_wire.agentlink import AttemptEnd
from flagplot_wire.alloc import Allocation, GpuPart, NodeAlloc
from flagplot_wire.policy import Qos, Usage
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.state import Settings
from flagplotd.core.usage import ONE, decay_factor, rate

WEEK = 7 * 86_400
MOVES = ("start", "end", "requeue", "tick", "restart")


def driver(**settings: object) -> Driver:
    return Driver(**{"usage_half_life_s": 0, "usage_every_s": 300, "weight_gpu": 8_000, **settings})


def used(driver: Driver, key: str = "alice@physics") -> tuple[int, int, int]:
    entry = driver.state.usage.get(key, Usage(key, 0, 0))
    return entry.weighted, entry.gpu_seconds, entry.gpu_millis


def tick(driver: Driver, after: int = 0) -> None:
    driver.do(st.Tick(), after)


def run(driver: Driver, *parts: NodeAlloc, account: str = "physics", **fields: object) -> int:
    return driver.start(driver.submit(account=account, **fields), *parts)


def test_rates_of_parts_of_gpus_memory_and_qos() -> None:
    weights = Settings(weight_cpu=1_000, weight_memory_gib=250, weight_gpu=9_000)
    gpus = (GpuPart(0, 3, 8), GpuPart(1, 1, 3), GpuPart(2, 8, 8))
    of = rate(Allocation((NodeAlloc("n1", 4, "0-3", 1_536, gpus), NodeAlloc("n2", 2, "0-1", 512))), weights, 50)
    cards = Fraction(3, 8) + Fraction(1, 3) + 1
    assert Fraction(of.weighted, of.per) == (6_000 + 2 * 250 + cards * 9_000) / 2
    assert Fraction(of.gpu, of.per) == cards * 1_000 / 2


def test_a_short_job_is_charged_when_it_ends() -> None:
    on = driver()
    number = run(on, part(gpus={0: 8, 1: 4}))
    on.now += 40
    on.end(number)
    assert used(on) == (40 * (1_000 + 12_000), 60, 0)
    tick(on, 1_000)
    assert used(on) == (40 * 13_000, 60, 0), "and never again"


def test_a_long_job_is_charged_by_every_update_and_at_its_end() -> None:
    on = driver()
    number = run(on)
    seen = []
    for _ in range(13):
        tick(on, 50)
        seen.append(used(on)[0] // 50_000)
    assert seen == [1] * 6 + [7] * 6 + [13], "the first tick of all, then every 300 s"
    on.now += 17
    on.end(number)
    assert used(on)[0] == (13 * 50 + 17) * 1_000


def test_an_update_is_one_event_of_all_that_changed_and_none_when_nothing_did() -> None:
    on = driver(usage_half_life_s=WEEK)
    tick(on, 300)
    assert on.last.events == ()
    run(on)
    run(on, part(cpu_ids="1"), account="biology")
    on.start(on.submit(BOB, account="physics"), part("n2"))
    on.start(on.submit(BOB), part("n3"))
    tick(on, 300)
    assert [type(body) for body in on.last.events] == [ev.UsageUpdated]
    assert [(entry.key, entry.weighted) for entry in on.last.events[0].usage] == [  # type: ignore[union-attr]
        ("alice@biology", 300_000), ("alice@physics", 300_000), ("bob@physics", 300_000),
    ]  # fmt: skip
    tick(on, 299)
    assert on.last.events == ()


def test_an_end_that_is_told_late_gives_back_what_was_charged_beyond_it() -> None:
    on = driver()
    number = run(on)
    end = AttemptEnd(on.job(number).number, on.job(number).status.attempt, "exited", time=on.now + 100)
    tick(on, 900)
    assert used(on)[0] == 900_000
    on.do(st.AttemptEnded("n1", end), after=200)
    assert used(on)[0] == 100_000


def test_a_requeued_attempt_is_charged_before_its_times_are_gone() -> None:
    on = driver()
    number = run(on)
    on.now += 70
    on.act("requeue", number)
    on.now += 5
    on.end(number, cause="stopped")
    assert on.job(number).status.state == "PENDING" and used(on)[0] == 75_000
    on.start(number)
    on.now += 10
    on.end(number)
    assert used(on)[0] == 85_000


def test_a_restart_between_updates_neither_loses_nor_doubles() -> None:
    on = driver()
    number = run(on)
    tick(on, 310)
    on.now += 100
    after = on.replayed()
    assert fingerprint(after) == fingerprint(on.state)
    on.state = after
    tick(on, 300)
    on.now += 33
    on.end(number)
    assert used(on)[0] == (310 + 100 + 300 + 33) * 1_000
    assert fingerprint(on.replayed()) == fingerprint(on.state)


def test_a_clock_set_back_charges_by_the_clock_again() -> None:
    on = driver()
    number = run(on)
    tick(on, 600)
    on.now -= 400
    tick(on)
    assert used(on)[0] == 200_000
    on.now += 50
    on.end(number)
    assert used(on)[0] == 250_000


def test_a_qos_makes_usage_cheaper() -> None:
    on = driver()
    apply(on.state, ev.PolicyChanged(Qos("spare", usage_percent=25)))
    number = run(on, part(gpus={0: 8}), qos="spare")
    on.now += 80
    on.end(number)
    assert used(on) == (80 * 9_000 // 4, 20, 0)


def test_half_a_week_and_a_week() -> None:
    assert decay_factor(WEEK, WEEK) == ONE // 2
    assert abs(decay_factor(WEEK // 2, WEEK) ** 2 - ONE * ONE // 2) < ONE * 256
    assert decay_factor(5, 0) == decay_factor(0, WEEK) == decay_factor(-5, WEEK) == ONE


def test_usage_halves_in_a_half_life_of_updates() -> None:
    on = driver(usage_half_life_s=WEEK)
    number = run(on, part(gpus={0: 8, 1: 8}))
    on.now += 2_000_000
    on.end(number)
    before = used(on)
    for _ in range(WEEK // 300):
        tick(on, 300)
    after = used(on)
    assert abs(2 * after[0] - before[0]) <= before[0] // 10**6
    millis = before[1] * 1_000 + before[2]
    assert abs(2 * (after[1] * 1_000 + after[2]) - millis) <= millis // 10**6


def test_a_job_after_a_long_idle_time_does_not_decay_by_it() -> None:
    on = driver(usage_half_life_s=WEEK)
    number = run(on)
    on.now += 5
    on.end(number)
    while used(on)[0]:
        tick(on, 3 * WEEK)
    tick(on, 50 * WEEK)
    number = run(on)
    on.now += 60
    on.end(number)
    tick(on, 300)
    assert 59_970 < used(on)[0] < 60_000


@settings(max_examples=200, deadline=None, print_blob=True)
@given(some.integers(0, 10**7), some.integers(1, 10**7), some.integers(0, 10**6))
def test_decay_is_monotone_and_adds_up(elapsed: int, half_life: int, more: int) -> None:
    first, both = decay_factor(elapsed, half_life), decay_factor(elapsed + more, half_life)
    assert 0 <= both <= first <= ONE
    assert abs(first * decay_factor(more, half_life) // ONE - both) <= 256, "factors of parts multiply"
    exact = 2.0 ** (-elapsed / half_life)
    assert abs(first / ONE - exact) <= 1e-13


cards = some.lists(some.tuples(some.integers(1, 8), some.sampled_from([1, 2, 3, 7, 8])), max_size=3)


@settings(max_examples=100, deadline=None, print_blob=True)
@given(
    some.lists(some.integers(0, 700), min_size=1, max_size=12), cards, some.integers(0, 3_000), some.integers(0, 200)
)
def test_pieces_add_up_to_the_whole(
    steps: list[int], shares: list[tuple[int, int]], memory_mib: int, percent: int
) -> None:
    gpus = tuple(GpuPart(index, min(held, of), of) for index, (held, of) in enumerate(shares))
    where = alloc(NodeAlloc("n1", 2, "0-1", memory_mib, gpus))
    of = rate(where, Settings(weight_memory_gib=333), percent)
    cut = [0]
    for seconds in steps:
        cut.append(cut[-1] + seconds)
    pieces = [(of.until(end), of.until(start)) for start, end in pairwise(cut)]
    assert tuple(sum(end[kind] - start[kind] for end, start in pieces) for kind in (0, 1)) == of.until(cut[-1])


@settings(max_examples=40, deadline=None, print_blob=True)
@given(some.lists(some.tuples(some.sampled_from(MOVES), some.integers(0, 400)), max_size=25))
def test_all_seconds_of_all_attempts_are_charged_once(moves: list[tuple[str, int]]) -> None:
    on, number, seconds = driver(), 0, 0
    for move, after in moves:
        on.now += after
        seconds += after * bool(number and on.state.active)
        if move == "start" and not on.state.active:
            waits = bool(number) and not on.job(number).status.state.ended
            number = on.start(number if waits else on.submit(account="physics"), part(gpus={0: 3}))
        elif move == "end" and on.state.active:
            on.end(number)
        elif move == "requeue" and on.state.active:
            on.act("requeue", number)
            on.end(number, cause="stopped")
        elif move == "tick":
            tick(on)
        elif move == "restart":
            on.state = on.replayed()
    if on.state.active:
        on.end(number)
    millis = used(on)[1] * 1_000 + used(on)[2]
    assert (used(on)[0], millis) == (seconds * 4_000, seconds * 375)
