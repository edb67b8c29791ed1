"""Interactive jobs end a while after the client that made them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from support.core_kit import Driver, part

from flagplot_wire.ids import JobNumber
from flagplotd.core.stimuli import EndInteractive
from flagplotd.service import claims, clock
from flagplotd.service.loop import Loop


class Posts:
    """What `Claims` needs of the loop."""

    def __init__(self, drive: Driver) -> None:
        self.state = drive.state
        self.posted: list[Any] = []

    def post(self, stimulus: Any) -> None:
        self.posted.append(stimulus)


def test_a_job_that_nobody_holds_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(clock, "ticks", lambda: now)
    drive = Driver()
    held, plain = drive.submit(launch="interactive"), drive.submit()
    drive.start(held, part("n1"))
    drive.start(plain, part("n2"))
    posts = Posts(drive)
    watch = claims.Claims(cast(Loop, posts))
    first, second = object(), object()
    watch.take(JobNumber(held), first)
    now += 10 * claims.GRACE_S
    watch.look()
    watch.leave(first)
    watch.look()
    now += claims.GRACE_S
    watch.look()
    assert posts.posted == [], "the grace is not over"
    watch.take(JobNumber(held), second)
    now += 10 * claims.GRACE_S
    watch.look()
    watch.leave(second)
    watch.look()
    now += claims.GRACE_S + 1
    watch.look()
    assert [(one.job, one.who, bool(one.why)) for one in posts.posted] == [(str(held), None, True)]
    assert isinstance(posts.posted[0], EndInteractive)
    drive.do(posts.posted[0])
    drive.end(held, "n1", "stopped")
    now += 10 * claims.GRACE_S
    watch.look()
    assert len(posts.posted) == 1 and drive.job(held).status.state == "CANCELLED"


def test_while_nothing_happens_jobs_are_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(clock, "ticks", lambda: now)
    drive = Driver()
    posts = Posts(drive)
    watch = claims.Claims(cast(Loop, posts))
    watch.look()
    seq = drive.state.seq
    late = drive.submit(launch="interactive")
    drive.state.seq = seq
    now += claims.SEARCH_S
    watch.look()
    now += claims.GRACE_S + 1
    watch.look()
    assert posts.posted == [], "no event, no search"
    drive.state.seq = seq + 1
    watch.look()
    now += claims.GRACE_S + 1
    watch.look()
    assert [one.job for one in posts.posted] == [str(late)]
