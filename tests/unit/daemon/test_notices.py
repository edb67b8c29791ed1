"""Which changes of jobs are told by mail and webhook, in which words, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagplot_wire.errors import Refused
from flagplot_wire.events import Event, JobChanged
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import ArraySpec, Job, JobSpec, Request, Status
from flagplot_wire.job import State as JobState
from flagplot_wire.mail import check_mail_user, parse_mail_type
from flagplotd.config import load_config
from flagplotd.core.notices import Noticing, body, subject
from flagplotd.core.state import State

NOW = 1_000_000


def job(number: int = 7, *types: str, name: str = "train", **more: object) -> Job:
    spec = JobSpec(name, "/home/ada", Request(time_limit_s=100), mail_type=types, **more)  # type: ignore[arg-type]
    return Job(JobNumber(number), "ada", 1000, spec)


def event(number: int, status: Status, cause: str, seq: int = 1) -> Event:
    return Event(seq, NOW, JobChanged(JobNumber(number), status, cause))


def told(noticing: Noticing, state: State, *events: Event) -> list[tuple[str, str]]:
    return [(one.by, one.kind) for one in noticing.of(state, events)]


def status(state: JobState, **more: object) -> Status:
    return Status(state, attempt=1, start_time=NOW - 62, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "end", "kinds"),
    [
        (("BEGIN",), JobState.COMPLETED, ["BEGIN"]),
        (("END",), JobState.COMPLETED, ["END"]),
        (("END",), JobState.FAILED, ["END"]),
        (("FAIL",), JobState.COMPLETED, []),
        (("FAIL", "END"), JobState.OUT_OF_MEMORY, ["FAIL"]),
        (("TIME_LIMIT",), JobState.TIMEOUT, ["TIME_LIMIT"]),
        (("BEGIN", "END", "FAIL"), JobState.CANCELLED, ["BEGIN", "FAIL"]),
        ((), JobState.FAILED, []),
    ],
)
def test_one_notice_for_each_change(types: tuple[str, ...], end: JobState, kinds: list[str]) -> None:
    state = State()
    state.jobs[JobNumber(7)] = job(7, *types)
    began = event(7, status(JobState.RUNNING), "started")
    ended = event(7, status(end, end_time=NOW), "ended", 2)
    noticing = Noticing()
    assert [kind for _, kind in told(noticing, state, began, ended)] == kinds
    assert told(noticing, state, ended) == []


def test_an_array_is_told_of_as_a_whole_unless_its_tasks_are_wanted() -> None:
    state = State()
    first = event(7, Status(JobState.PENDING, start_time=NOW, elements_running=1, waiting="1"), "split")
    element = event(8, status(JobState.RUNNING), "started", 2)
    for types, wanted in ((("BEGIN",), [7]), (("BEGIN", "ARRAY_TASKS"), [8])):
        state.jobs[JobNumber(7)] = job(7, *types, array=ArraySpec("0-1"))
        inner = job(8, *types)
        state.jobs[JobNumber(8)] = Job(inner.number, "ada", 1000, inner.spec, array_number=JobNumber(7), array_index=0)
        assert [int(one.job.number) for one in Noticing().of(state, [first, element])] == wanted


def test_part_of_the_time_limit_is_told_once_and_not_belatedly() -> None:
    state = State()
    running = job(7, "TIME_LIMIT_50", "TIME_LIMIT_90")
    state.jobs[JobNumber(7)] = Job(running.number, "ada", 1000, running.spec, Status(JobState.RUNNING, start_time=NOW))
    state.active.add(JobNumber(7))
    noticing = Noticing()
    found = [[one.kind for one in noticing.due(state, NOW + after)] for after in (49, 50, 51, 95, 99)]
    assert found == [[], ["TIME_LIMIT_50"], [], ["TIME_LIMIT_90"], []]


def test_the_webhook_has_its_own_types() -> None:
    state = State()
    state.jobs[JobNumber(7)] = job(7, "END")
    ended = event(7, status(JobState.FAILED, end_time=NOW, exit_code=3), "ended")
    assert told(Noticing(("FAIL",)), state, ended) == [("mail", "END"), ("webhook", "FAIL")]


def test_words_are_slurms_and_no_line_begins_with_what_a_user_wrote() -> None:
    state = State()
    state.jobs[JobNumber(7)] = job(7, "END", name="a\nBcc: eve@example.org\n~!id")
    ended = event(7, status(JobState.COMPLETED, end_time=NOW, exit_code=0, message="~!rm"), "ended")
    (notice,) = Noticing().of(state, [ended])
    assert subject(notice, NOW) == (
        "Flagplot Job_id=7 Name=a\u240aBcc: eve@example.org\u240a~!id Ended, Run time 1:02, COMPLETED, ExitCode 0"
    )
    text = body(notice, "lab")
    assert "\nMessage: ~!rm\n" in text and not [line for line in text.splitlines() if line[:1] in "~B"]


def test_types_as_sbatch_takes_them() -> None:
    assert parse_mail_type("fail,END,end") == (("END", "FAIL"), ())
    assert parse_mail_type("ALL") == (("BEGIN", "END", "FAIL", "REQUEUE"), ())
    assert parse_mail_type("NONE") == ((), ())
    assert parse_mail_type("END,STAGE_OUT") == (("END",), ("STAGE_OUT",))
    with pytest.raises(Refused, match="NEVER"):
        parse_mail_type("END,NEVER")


@pytest.mark.parametrize(
    "text", ["-oQ/tmp", "|sh", "/etc/passwd", "a b", "a@b;c", "a\nb", "a@-b", "$(id)", ",".join("abcdefghijk")]
)
def test_addresses_that_mean_something_to_a_program_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        check_mail_user(text)


def test_addresses() -> None:
    assert check_mail_user("ada, bob+flag@example.org") == "ada,bob+flag@example.org"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("webhook = 'file:///etc/passwd'", "notices.webhook: must be an http or https address"),
        ("mail_program = 'sendmail'", "notices.mail_program: must be an absolute path"),
        ("webhook_on = ['OFTEN']", "notices.webhook_on: 'OFTEN' is no type of mail"),
        ("mail_domain = 'a b'", "notices.mail_domain"),
        ("mailprog = '/bin/mail'", "unknown key 'notices.mailprog'"),
    ],
)
def test_the_configuration_is_checked(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "flagplotd.toml"
    path.write_text(f"[notices]\n{text}\n")
    with pytest.raises(Refused) as refused:
        load_config(path)
    assert words in refused.value.message
