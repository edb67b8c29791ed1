"""What nodes say of themselves: their own drains, a person's, prologs and epilogs that fail."""

from __future__ import annotations

from support.core_kit import Driver

from flagplotd.core import stimuli as st


def drain(drive: Driver, node: str = "n1") -> tuple[str, str, bool] | None:
    """(reason, who, health) of a node's drain."""
    found = drive.state.nodes[node].drain
    return None if found is None else (found.reason, found.who, found.health)


def test_a_node_drains_itself_and_follows_its_reasons() -> None:
    drive = Driver()
    drive.do(st.Checked("n1", ("disk /: full", "mount /data: missing")))
    assert drain(drive) == ("disk /: full; mount /data: missing", "health", True)
    since = drive.state.nodes["n1"].drain
    assert since is not None
    again = drive.do(st.Checked("n1", ("disk /: full", "mount /data: missing")), after=60)
    assert again.events == (), "nothing new is nothing to write down"
    drive.do(st.Checked("n1", ("disk /: full",)), after=60)
    assert drain(drive) == ("disk /: full", "health", True)
    now = drive.state.nodes["n1"].drain
    assert now is not None and now.since == since.since
    assert drive.do(st.Checked("gone", ("x",))).events == ()


def test_it_resumes_by_policy() -> None:
    drive = Driver()
    drive.do(st.Checked("n1", ("x",)))
    drive.do(st.Checked("n1", ()))
    assert drain(drive) == ("x", "health", True), "manual: a person resumes"
    assert drive.resume("n1").results[0].message == "resumed"
    assert drain(drive) is None
    drive.do(st.Checked("n1", ("x",), True))
    assert drain(drive) == ("x", "health", True)
    drive.do(st.Checked("n1", (), True))
    assert drain(drive) is None
    assert drive.do(st.Checked("n1", (), True)).events == ()


def test_a_persons_drain_is_never_touched() -> None:
    drive = Driver()
    drive.drain("n1", reason="fan")
    drive.do(st.Checked("n1", ("x",), True))
    assert drain(drive) == ("fan", "olga", False)
    drive.do(st.Checked("n1", (), True))
    assert drain(drive) == ("fan", "olga", False)
    drive.do(st.Checked("n2", ("x",), True))
    drive.drain("n2", reason="I look into it")
    drive.do(st.Checked("n2", (), True))
    assert drain(drive, "n2") == ("I look into it", "olga", False)


def test_a_node_resumed_while_something_is_wrong_drains_again() -> None:
    drive = Driver()
    drive.do(st.Checked("n1", ("x",)))
    drive.resume("n1")
    drive.do(st.Checked("n1", ("x",)), after=60)
    assert drain(drive) == ("x", "health", True)


def test_a_failed_prolog_drains_and_requeues() -> None:
    drive = Driver()
    number = drive.submit()
    drive.start(number)
    drive.end(number, cause="launch_failed", message="prolog /p ended with exit code 3", drain="prolog /p ended")
    assert drive.job(number).status.state == "PENDING" and drive.job(number).spec.hold == ""
    assert drain(drive) == ("prolog /p ended", "flagplotd", False)
    assert "prolog /p ended with exit code 3" in drive.job(number).status.message


def test_a_failed_epilog_drains_and_leaves_the_end() -> None:
    drive = Driver()
    number = drive.submit()
    drive.do(st.Checked("n1", ("x",), True))
    drive.start(number)
    drive.resume("n1")
    drive.start(number)
    drive.confirm(number)
    drive.do(st.Checked("n1", ("x",), True))
    drive.end(number, exit_code=0, drain="epilog /e ended with exit code 1")
    assert drive.job(number).status.state == "COMPLETED"
    assert drain(drive) == ("epilog /e ended with exit code 1", "flagplotd", False)
    drive.do(st.Checked("n1", (), True))
    assert drain(drive) == ("epilog /e ended with exit code 1", "flagplotd", False), "health does not end it"
