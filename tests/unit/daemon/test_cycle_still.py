"""When a scheduling cycle may be left out."""

from __future__ import annotations

import pytest

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, Reason, Why
from flagplotd.service.cycle import STILL, still


def of(*why: Why) -> Forecast:
    return Forecast(JobNumber(1), tuple(map(Reason, why)))


def test_jobs_that_only_an_event_frees_need_no_cycle() -> None:
    assert still([], [])
    assert still([], [of(Why.HELD_USER), of(Why.HELD_ADMIN, Why.DEPENDENCY)])


def test_a_job_that_may_start_needs_cycles() -> None:
    assert not still([object()], [of(Why.HELD_USER)])


@pytest.mark.parametrize("why", [why for why in Why if why not in STILL])
def test_what_time_alone_frees_needs_cycles(why: Why) -> None:
    assert not still([], [of(Why.HELD_USER), of(Why.HELD_USER, why)])
