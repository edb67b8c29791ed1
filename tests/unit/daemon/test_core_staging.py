"""A job whose files are on their way waits for them, through restarts, and only its owner says that they came."""

from __future__ import annotations

from typing import Any

from support.core_kit import ALICE, BOB, OPERATOR, Driver, alloc, part

from flagplot_wire.job import Transfer, Why
from flagplotd.core import stimuli as st
from flagplotd.core.recheck import why_not
from flagplotd.sched.eligible import why_waiting

STAGE = (Transfer("/home/alice/data", "/scratch/data"),)


def blocked(driver: Driver, number: int) -> list[Why]:
    return [reason.why for reason in why_waiting(driver.state, driver.job(number), driver.now)]


def test_it_waits_until_its_owner_says_so() -> None:
    driver = Driver()
    number = driver.submit(stage_in=STAGE)
    assert blocked(driver, number) == [Why.STAGE_IN]
    start = st.Start(driver.job(number).number, alloc(part("n1")))
    assert why_not(driver.state, start, driver.now) == "the job may not start yet"
    driver.act("release", number)
    for who in (BOB, OPERATOR):
        assert driver.do(st.Staged(who, str(number))).reply.code == "not_permitted"  # type: ignore[union-attr]
    assert blocked(driver, number) == [Why.STAGE_IN] and driver.replayed().jobs[number].status.staging  # type: ignore[index]
    driver.do(st.Staged(ALICE, str(number)))
    assert blocked(driver, number) == [] and why_not(driver.state, start, driver.now) == ""
    assert driver.do(st.Staged(ALICE, str(number))).events == ()
    driver.start(number, part("n1"))
    driver.confirm(number)
    driver.act("requeue", number)
    driver.end(number, cause="stopped")
    assert blocked(driver, number) in ([], [Why.REQUEUE_DELAY]), "a requeued job has its files"


def test_a_job_that_comes_with_nothing_does_not_wait() -> None:
    driver = Driver()
    assert blocked(driver, driver.submit(stage_out=STAGE)) == []


def test_what_can_be_no_transfer() -> None:
    driver = Driver()

    def refused(**fields: Any) -> str:
        return str(driver.try_submit(**fields).message)

    assert "absolute path" in refused(stage_in=(Transfer("a", "b"),))
    assert "at most 64" in refused(stage_out=STAGE * 65)
    assert "NUL" in refused(stage_in=(Transfer("a\0", "/b"),))
    assert "is empty" in refused(stage_out=(Transfer("", "/b"),))
