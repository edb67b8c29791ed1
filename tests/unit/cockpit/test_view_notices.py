"""Notices of one's own jobs: told once, to the right terminal, never with what a user wrote as a command."""

from __future__ import annotations

import pytest

from flagplot.client.mirror import Mirror
from flagplot.view.notices import Settings, Told, Watch, read, terminal_words, words
from flagplot.view.variables import environment, fill, values_of_job, values_of_nodes
from flagplot_wire.errors import Refused
from flagplot_wire.events import Event, JobAdded, JobChanged
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import ArraySpec, Job, JobSpec, State, Status
from flagplot_wire.replies import EventsPushed, SnapshotPart


def job(number: int, user: str = "ada", state: State = State.PENDING, name: str = "train", **more: object) -> Job:
    status = Status(state, start_time=0 if state is State.PENDING else 100, end_time=160 if state.ended else 0)
    return Job(JobNumber(number), user, 1000, JobSpec(name, "/home/ada", **more), status)  # type: ignore[arg-type]


def mirror(*jobs: Job) -> Mirror:
    made = Mirror()
    made.take(SnapshotPart(1, Epoch(1), first=True, last=True, jobs=jobs))
    return made


def push(to: Mirror, *bodies: object) -> None:
    to.take(EventsPushed(tuple(Event(to.seq + at, 0, body) for at, body in enumerate(bodies, 1))))  # type: ignore[arg-type]


def ends(number: int, state: State = State.COMPLETED, code: int = 0) -> JobChanged:
    return JobChanged(JobNumber(number), Status(state, start_time=100, end_time=160, exit_code=code), "ended")


def starts(number: int) -> JobChanged:
    return JobChanged(JobNumber(number), Status(State.RUNNING, start_time=100), "started")


def told(watch: Watch, seen: Mirror) -> list[tuple[str, int]]:
    return [(one.kind, int(one.job.number)) for one in watch.look(seen, "ada")]


def test_only_my_ends_are_told_and_once() -> None:
    seen, watch = mirror(job(1), job(2, "bob"), job(3, state=State.FAILED)), Watch()
    assert told(watch, seen) == []
    push(seen, starts(1), starts(2))
    assert told(watch, seen) == []
    push(seen, ends(1), ends(2))
    assert told(watch, seen) == [("END", 1)]
    assert told(watch, seen) == []


def test_a_job_that_came_and_went_between_two_looks_is_told() -> None:
    seen, watch = mirror(job(1)), Watch()
    told(watch, seen)
    push(seen, JobAdded(job(2)), starts(2), ends(2, State.FAILED, 1))
    assert told(watch, seen) == [("END", 2)]


def test_what_ended_while_the_line_was_down_is_told_from_the_snapshot() -> None:
    seen, watch = mirror(job(1), job(2)), Watch()
    told(watch, seen)
    jobs = (job(1, state=State.COMPLETED), job(2), job(3, state=State.FAILED), job(4, "bob", State.FAILED))
    seen.take(SnapshotPart(90, Epoch(1), first=True, last=True, jobs=jobs))
    assert told(watch, seen) == [("END", 1), ("END", 3)]
    seen.take(SnapshotPart(91, Epoch(1), first=True, last=True, jobs=jobs))
    assert told(watch, seen) == []


def test_begin_fail_and_short_jobs() -> None:
    seen = mirror(job(1), job(2))
    watch = Watch(Settings(on=("BEGIN", "FAIL"), at_least_s=600))
    told(watch, seen)
    push(seen, starts(1), starts(2))
    assert told(watch, seen) == [("BEGIN", 1), ("BEGIN", 2)]
    push(seen, ends(1), ends(2, State.TIMEOUT))
    assert told(watch, seen) == [("FAIL", 2)]


def test_an_array_is_told_as_a_whole() -> None:
    seen, watch = mirror(job(5, array=ArraySpec("0-1"))), Watch()
    told(watch, seen)
    element = job(6)
    push(seen, JobAdded(Job(element.number, "ada", 1000, element.spec, array_number=JobNumber(5), array_index=0)))
    push(seen, starts(6), ends(6))
    assert told(watch, seen) == []
    push(seen, ends(5))
    assert told(watch, seen) == [("END", 5)]


def test_words_of_one_and_of_many() -> None:
    failed = job(7, state=State.FAILED, name="a\x1b]0;x\x07")
    assert words([Told("END", failed)]) == ("Job 7 FAILED", "a\u241b]0;x\u2407 after 1:00")
    many = [Told("END", failed), Told("END", job(8, state=State.COMPLETED)), Told("BEGIN", job(9))]
    assert words(many) == ("3 jobs", "1 COMPLETED (8), 1 FAILED (7), 1 started (9)")
    more = [Told("END", job(number, state=State.COMPLETED)) for number in range(1, 6)]
    assert words(more) == ("5 jobs", "5 COMPLETED (1 2 3 …)")


@pytest.mark.parametrize(
    ("environment_words", "settings", "wanted"),
    [
        ({"TERM": "xterm-256color"}, Settings(bell=False), "\x1b]9;flagplot: Job 7: a;b\x07"),
        ({"TERM": "foot"}, Settings(bell=False), "\x1b]777;notify;flagplot: Job 7;a,b\x07"),
        ({"TERM": "xterm", "TMUX": "/tmp/t"}, Settings(), "\x1bPtmux;\x1b\x1b]9;flagplot: Job 7: a;b\x07\x1b\\\x07"),
        ({"TERM": "screen.xterm"}, Settings(bell=False), "\x1bP\x1b]9;flagplot: Job 7: a;b\x07\x1b\\"),
        ({"TERM": "xterm"}, Settings(desktop="off"), "\x07"),
        ({"TERM": "tmux"}, Settings(desktop="osc9", through="off", bell=False), "\x1b]9;flagplot: Job 7: a;b\x07"),
    ],
)
def test_the_terminals_languages(environment_words: dict[str, str], settings: Settings, wanted: str) -> None:
    assert terminal_words("Job 7", "a;b", settings, environment_words) == wanted


def test_no_text_ends_a_sequence_early() -> None:
    made = terminal_words("x\x07\x1b\\", "\x1b[2J\x9c", Settings(desktop="both", bell=False), {})
    assert made.count("\x07") == 2 and made.count("\x1b") == 2


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("on = ['NOW']", "'NOW' is none of"),
        ("desktop = 'loud'", "desktop: 'loud'"),
        ("bel = true", "no setting bel"),
        ("bell = 1", "bell must be a bool"),
        ("command = 'x'", "command must be a list of texts"),
        ("command = ['x', '$JOBB']", "no variable $JOBB"),
        ("[on", "no TOML"),
    ],
)
def test_mistakes_in_the_settings_are_named(text: str, word: str) -> None:
    with pytest.raises(Refused, match=word.replace("$", r"\$")):
        read(text)


def test_variables_stay_within_their_argument() -> None:
    hostile = job(7, state=State.FAILED, name='x"; rm -rf $HOME $JOB `id` \n')
    values = values_of_job(hostile, "lab", ["7", "8"], "7")
    made = fill(["notify", "job $JOB: $NAME", "--all=$JOBS", "$JOBS", "$$5", "${STATE}"], values)
    assert made == [
        "notify", 'job 7: x"; rm -rf $HOME $JOB `id` \u240a', "--all=7,8", "7", "8", "$5", "FAILED",
    ]  # fmt: skip
    assert environment(values)["NAME"] == 'x"; rm -rf $HOME $JOB `id` \u240a'


def test_a_variable_makes_no_option_and_must_have_a_value() -> None:
    values = values_of_job(job(7, name="--delete"), "lab", [], "7")
    with pytest.raises(Refused, match="read as an option"):
        fill(["rsync", "$NAME"], values)
    assert fill(["rsync", "--", "x$NAME"], values)[2] == "x--delete"
    with pytest.raises(Refused, match=r"no \$NODE here"):
        fill(["ssh", "$NODE"], values)
    assert fill(["ssh", "$NODE", "echo $NODES"], values_of_nodes(["n1", "n2"], "ada", "lab")) == [
        "ssh",
        "n1",
        "echo n[1-2]",
    ]
