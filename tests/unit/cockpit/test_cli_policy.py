"""The commands for policy: what they ask the controller, what they print, how they end."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flagplot.cli import common
from flagplot.cli.main import entry
from flagplot_wire import replies, requests
from flagplot_wire.accounting import Efficiency, Quota, UsedBy
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, JobSpec, LicenseCount, Request
from flagplot_wire.node import Partition
from flagplot_wire.policy import (
    USE_PARENT,
    Account,
    Association,
    FairshareRow,
    Limits,
    PriorityRow,
    Qos,
    Reservation,
)
from flagplot_wire.requests import ChangePolicy, GetFairshare, GetPolicy, GetPriority, Update

SUMMER = 1_782_900_000
"""2026-07-01 10:00 UTC: 12:00 in Berlin, two hours ahead; in December it is one."""
HOSTILE = "a\x1b]0;X\x07b\u202egnp\x9b31m\r\u200b"
Run = Callable[..., tuple[int, str, str]]


class FakeController:
    """Keeps what was asked and answers in the order of `answers`; a change is done for every name without one."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: list[replies.Reply | Refused] = []
        self.closed = 0

    async def ask(self, request: Any) -> replies.Reply:
        self.asked.append(request)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Refused):
                raise answer
            return answer
        assert isinstance(request, ChangePolicy)
        return replies.Acted(tuple(replies.ActedOn(name, message=request.verb) for name in request.names))

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> FakeController:
    fake = FakeController()

    async def open_it(*_: Any) -> FakeController:
        return fake

    monkeypatch.setattr(common.Connection, "open", open_it)
    return fake


@pytest.fixture
def run(controller: FakeController, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> Iterator[Run]:
    """Runs the program on the fake controller; returns exit code, standard output and standard error."""

    def call(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["flagplot", "--data-dir", str(tmp_path), *args])
        code = 0
        try:
            entry()
        except SystemExit as done:
            code = int(done.code or 0)
        return code, *capsys.readouterr()

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield call
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("args", "request_sent"),
    [
        ("account add physics --shares 3 --max-gpus 64",
         ChangePolicy("add", "account", ("physics",), {"shares": "3", "max-gpus": "64"})),
        ("account modify ml nlp --qos +high,-low --max-wall 1-0",
         ChangePolicy("modify", "account", ("ml", "nlp"), {"qos": "+high,-low", "max-wall": "1-0"})),
        ("account modify ml --qos -low", ChangePolicy("modify", "account", ("ml",), {"qos": "-low"})),
        ("account modify ml --max-gpus=", ChangePolicy("modify", "account", ("ml",), {"max-gpus": ""})),
        ("account remove ml", ChangePolicy("remove", "account", ("ml",))),
        ("user add ada ben --account ml --default",
         ChangePolicy("add", "user", ("ada", "ben"), {"account": "ml", "default": "yes"})),
        ("user add ada@ml --priority 5", ChangePolicy("add", "user", ("ada@ml",), {"priority": "5"})),
        ("user modify ada --no-default --account ml",
         ChangePolicy("modify", "user", ("ada",), {"account": "ml", "default": "no"})),
        ("user remove ada --account ml", ChangePolicy("remove", "user", ("ada",), {"account": "ml"})),
        ("user remove ada", ChangePolicy("remove", "user", ("ada",))),
        ("qos add high --user-max-gpus 8 --account-gpu-minutes 60 --preempt-mode requeue --grace 5m",
         ChangePolicy("add", "qos", ("high",), {"user-max-gpus": "8", "account-gpu-minutes": "60",
                                               "preempt-mode": "requeue", "grace": "5m"})),
        ("partition modify gpu --state down --allow-users=",
         ChangePolicy("modify", "partition", ("gpu",), {"state": "down", "allow-users": ""})),
        ("reservation add r --start now+2hours --duration 1:00:00 --nodes ALL --flags maint,daily",
         ChangePolicy("add", "reservation", ("r",), {"start": str(SUMMER + 7_200), "duration": "1:00:00",
                                                    "nodes": "ALL", "flags": "maint,daily"})),
        ("reservation modify r --end 1790000000", ChangePolicy("modify", "reservation", ("r",), {"end": "1790000000"})),
        ("reservation modify r --start=", ChangePolicy("modify", "reservation", ("r",), {"start": ""})),
    ],
)  # fmt: skip
def test_a_change_travels_as_it_was_written(
    run: Run, controller: FakeController, monkeypatch: pytest.MonkeyPatch, args: str, request_sent: ChangePolicy
) -> None:
    monkeypatch.setattr(common.time, "time", lambda: SUMMER)
    code, out, err = run(*args.split())
    assert controller.asked == [request_sent]
    assert (code, err, controller.closed) == (0, "", 1)
    assert out == "".join(f"{name}: {request_sent.verb}\n" for name in request_sent.names)


@pytest.mark.parametrize(
    ("text", "epoch"),
    [("2026-12-24T18:00", 1_798_131_600), ("2026-07-24T18:00", 1_784_908_800), ("13:30", SUMMER + 5_400)],
)
def test_times_are_of_the_persons_zone_as_it_is_then(
    run: Run, controller: FakeController, monkeypatch: pytest.MonkeyPatch, text: str, epoch: int
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    monkeypatch.setattr(common.time, "time", lambda: SUMMER)
    run("reservation", "add", "r", "--start", text)
    assert controller.asked[0].values == {"start": str(epoch)}


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ("account modify ml", 2, "nothing to change was given"),
        ("user modify ada --account ml", 2, "flagplot user modify --help"),
        ("user add eve", 2, "flagplot user add eve --account ACCOUNT"),
        ("user add eve --account=", 2, "no account was given for eve"),
        ("user add ada@ml eve", 2, "no account was given for eve"),
        ("account add", 2, "NAME"),
        ("account remove ml --shares 3", 2, "--shares"),
        ("reservation add r --start soon", 3, "'soon' is no time"),
    ],
)
def test_what_cannot_be_meant_is_not_sent(
    run: Run, controller: FakeController, args: str, code: int, words: str
) -> None:
    done = run(*args.split())
    assert (done[0], controller.asked) == (code, [])
    assert words in done[2]


def test_each_name_has_its_result_and_the_first_error_its_exit_code(run: Run, controller: FakeController) -> None:
    acted = replies.Acted((
        replies.ActedOn("a", message="removed"),
        replies.ActedOn("b", "not_found", f"there is no account {HOSTILE}"),
        replies.ActedOn("c", "in_use", "user ada is in it"),
    ))  # fmt: skip
    controller.answers = [acted, acted]
    code, out, err = run("account", "remove", "a", "b", "c")
    assert (code, out) == (4, "a: removed\n")
    assert err.startswith("flagplot: b: there is no account a␛]0;X␇b") and "flagplot: c: user ada is in it" in err
    assert not {"\x1b", "\x9b", "\u202e", "\r"} & set(err)
    code, out, _ = run("account", "remove", "a", "b", "c", "--json")
    assert code == 4
    assert [(one["target"], one["error"]) for one in json.loads(out)] == [
        ("a", ""),
        ("b", "not_found"),
        ("c", "in_use"),
    ]


def test_a_refusal_of_all_ends_with_its_code(run: Run, controller: FakeController) -> None:
    controller.answers = [Refused("not_permitted", "only admins change accounts; you are eve")]
    assert run("account", "add", "x") == (6, "", "flagplot: only admins change accounts; you are eve\n")


def test_accounts_are_a_tree_without_empty_columns(run: Run, controller: FakeController) -> None:
    controller.answers = [replies.Policies((
        Account("bio", shares=5),
        Account("ml", "physics", description="grants"),
        Account("nlp", "ml", limits=Limits(gpus=0, memory_mib=8_192, job_wall_s=86_400)),
        Account("physics", qos=("high", "low"), coordinators=("ada",)),
    ))]  # fmt: skip
    code, out, err = run("account", "show")
    assert (code, err, controller.asked) == (0, "", [GetPolicy("account")])
    assert out.splitlines() == [
        "ACCOUNT  SHARES  QOS       COORDINATORS  MAX-GPUS  MAX-MEM    MAX-WALL  DESCRIPTION",
        "bio           5",
        "physics       1  high,low  ada",
        "  ml          1                                                         grants",
        "    nlp       1                                 0       8G  1-00:00:00",
    ]


def test_other_records_are_tables(run: Run, controller: FakeController) -> None:
    controller.answers = [
        replies.Policies((Association("ada", "ml", 2, True, priority=5), Association("ada", "bio"))),
        replies.Policies((Qos("high", 10, ("low",), "requeue", 300, user_limits=Limits(gpus=8)), Qos("low"))),
        replies.Policies((
            Reservation("r", 1_782_900_000, 1_782_986_400, ("n1", "n2"), gpus=2, users=("ada",), repeat_s=86_400),
            Reservation("stop", 1_783_000_000, 1_783_000_060, all_nodes=True, licenses=(("matlab", 2),), maintenance=True),
        )),
        replies.Partitions((
            Partition("gpu", ("n1", "n2"), default=True, max_time_s=86_400, qos="high"),
            Partition("all", all_nodes=True, up=False),
        )),
    ]  # fmt: skip
    printed = [run(kind, "show")[1].splitlines() for kind in ("user", "qos", "reservation", "partition")]
    assert printed == [
        [
            "USER  ACCOUNT  DEFAULT  SHARES  PRIORITY",
            "ada   ml       yes           2         5",
            "ada   bio                    1",
        ],
        [
            "QOS   PRIORITY  PREEMPTS  PREEMPT-MODE  GRACE  USER-MAX-GPUS",
            "high        10  low       requeue          5m              8",
            "low          0",
        ],
        [
            "RESERVATION  START                END                  NODES   GPUS  LICENSES  USERS  FLAGS",
            "r            2026-07-01T10:00:00  2026-07-02T10:00:00  n[1-2]     2            ada    daily",
            "stop         2026-07-02T13:46:40  2026-07-02T13:47:40  ALL           matlab:2         maint",
        ],
        [
            "PARTITION  DEFAULT  STATE    MAX-TIME  TIER  NODES   QOS",
            "gpu        yes      up     1-00:00:00     1  n[1-2]  high",
            "all                 down    UNLIMITED     1  ALL",
        ],
    ]


def test_nothing_to_show_is_a_heading_and_an_empty_list(run: Run, controller: FakeController) -> None:
    controller.answers = [replies.Policies(), replies.Policies()]
    assert run("qos", "show") == (0, "QOS\n", "")
    assert run("qos", "show", "--json") == (0, "[]\n", "")


def test_records_as_json_have_every_field(run: Run, controller: FakeController) -> None:
    controller.answers = [
        replies.Policies((Association("ada", "ml", limits=Limits(gpus=4)),)),
        replies.Policies((Reservation("r", 1, 2, licenses=(("matlab", 2),)), Reservation("s", 1, 2))),
        replies.Partitions((Partition("gpu"), Partition("cpu"))),
    ]
    (user,) = json.loads(run("user", "show", "ada", "--json")[1])
    assert set(user) == set(Association.__struct_fields__)
    assert user["limits"] == {**dict.fromkeys(Limits.__struct_fields__), "gpus": 4}
    found = json.loads(run("reservation", "show", "--json")[1])
    assert [one["licenses"] for one in found] == [{"matlab": 2}, {}]
    (partition,) = json.loads(run("partition", "show", "cpu", "--json")[1])
    assert set(partition) == set(Partition.__struct_fields__) and partition["name"] == "cpu"


@pytest.mark.parametrize(
    ("args", "answer", "code"),
    [
        ("user show ada", replies.Policies((Association("ada", "ml"),)), 0),
        ("user show ada@ml", replies.Policies((Association("ada", "ml"),)), 0),
        ("user show ada eve", replies.Policies((Association("ada", "ml"),)), 4),
        ("qos show low", replies.Policies(), 4),
        ("partition show gpu", replies.Partitions((Partition("cpu"),)), 4),
    ],
)
def test_a_name_that_is_not_there_is_told(
    run: Run, controller: FakeController, args: str, answer: replies.Reply, code: int
) -> None:
    controller.answers = [answer]
    done = run(*args.split())
    assert done[0] == code
    assert (f"there is no {args.split()[0]} {args.split()[-1]!r}" in done[2]) == (code == 4)


def test_hostile_text_is_shown_harmless(run: Run, controller: FakeController) -> None:
    row = PriorityRow(1, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 5)
    answers: list[replies.Reply] = [
        replies.Policies((Account(HOSTILE, description=HOSTILE),)),
        replies.Policies((Reservation("r", 1, 2, users=(HOSTILE,), comment=HOSTILE),)),
        replies.Partitions((Partition(HOSTILE, (HOSTILE,), comment=HOSTILE),)),
        replies.Priorities((row,)),
        replies.Fairshares((FairshareRow(HOSTILE, HOSTILE, 1, 1, 1, 1, 1),)),
    ]
    controller.answers = list(answers)
    calls = (
        ("account", "show"),
        ("reservation", "show"),
        ("partition", "show"),
        ("show", "priority"),
        ("show", "fairshare"),
    )
    for call in calls:
        code, out, _ = run(*call)
        assert code == 0 and "a␛]0;X␇b" in out
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u200b", "\r"} & set(out)
        assert len(out.splitlines()) == 2


def test_priorities_come_page_by_page(run: Run, controller: FakeController) -> None:
    rows = [
        PriorityRow(7, "7", "ada", "ml", "gpu", "high", 1_540, 10, 500, 30, 1_000, 100, 5, -5, 1, 2),
        PriorityRow(41, "40_[1-9]", "ben", "", "gpu", "", 12),
    ]
    pages = [replies.Priorities((rows[0],), more=True), replies.Priorities((rows[1],))]
    controller.answers = [*pages, *pages]
    code, out, _ = run("show", "priority", "7", "40")
    assert (code, controller.asked) == (0, [GetPriority(("7", "40")), GetPriority(("7", "40"), 1)])
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "JOB USER ACCOUNT PARTITION QOS PRIORITY AGE FAIRSHARE JOBSIZE PARTITION QOS TRES NICE SITE ASSOC",
        "7 ada ml gpu high 1540 10 500 30 1000 100 5 -5 1 2",
        "40_[1-9] ben gpu 12 0 0 0 0 0 0 0 0 0",
    ]
    first = json.loads(run("show", "priority", "--json")[1])[0]
    assert first == {
        "job_id": 7, "display_id": "7", "user": "ada", "account": "ml", "partition": "gpu", "qos": "high",
        "priority": 1_540, "age": 10, "fairshare": 500, "job_size": 30, "partition_part": 1_000, "qos_part": 100,
        "tres": 5, "nice": -5, "site": 1, "assoc": 2,
    }  # fmt: skip


def test_records_come_page_by_page(run: Run, controller: FakeController) -> None:
    first, second = (Association("ada", name, default=name == "ml") for name in ("ml", "nlp"))
    parent = Association("ben", "ml", USE_PARENT)
    controller.answers = [replies.Policies((first, second), more=True), replies.Policies((second, parent))]
    code, out, _ = run("user", "show")
    assert (code, controller.asked) == (0, [GetPolicy("user"), GetPolicy("user", skip=2)])
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["ada", "ml", "yes", "1"], ["ada", "nlp", "1"], ["ben", "ml", "parent"],
    ]  # fmt: skip


def test_a_job_gets_another_account_qos_reservation_and_licenses(run: Run, controller: FakeController) -> None:
    whole = Update(("7",), account="ml", qos="", reservation="r", licenses="matlab:2", site_factor=-5)
    for line in (
        "update 7 -A ml --qos= --reservation r -L matlab:2 --site-factor -5",
        "update 7 Account=ml QOS= ReservationName=r Licenses=matlab:2 SiteFactor=-5",
    ):
        controller.answers = [replies.Acted((replies.ActedOn("7", "", "changed"),))]
        assert run(*line.split())[0] == 0 and controller.asked[-1] == whole, line
    code, _, err = run("update", "7", "SiteFactor=99999999999999999999")
    assert code == 2 and "the number is out of range" in err


def test_the_fair_tree_is_indented(run: Run, controller: FakeController) -> None:
    rows = (
        FairshareRow("root", "", 0, 1, 1_000_000, 900, 1_000_000),
        FairshareRow("ml", "", 1, 3, 750_000, 900, 1_000_000, 750_000),
        FairshareRow("ml", "ada", 2, 1, 500_000, 900, 1_000_000, 500_000, 500_000),
        FairshareRow("ml", "ben", 2, 1, 500_000, 0, 0, None, 1_000_000),
    )
    controller.answers = [
        replies.Fairshares(rows[:2], more=True),
        replies.Fairshares(rows[2:]),
        replies.Fairshares(rows[1:]),
    ]
    code, out, _ = run("show", "fairshare")
    assert (code, controller.asked) == (0, [GetFairshare(), GetFairshare(skip=2)])
    assert out.splitlines() == [
        "Account  User  RawShares  NormShares  RawUsage  EffectvUsage   LevelFS  FairShare",
        "root                   1    1.000000       900      1.000000",
        "  ml                   3    0.750000       900      1.000000  0.750000",
        "    ml   ada           1    0.500000       900      1.000000  0.500000   0.500000",
        "    ml   ben           1    0.500000         0      0.000000       inf   1.000000",
    ]
    objects = json.loads(run("show", "fairshare", "-u", "ada", "-u", "ben", "-A", "ml", "--json")[1])
    assert controller.asked[-1] == GetFairshare(("ml",), ("ada", "ben"))
    assert [(one["user"], one["level_fs"], one["fairshare"]) for one in objects] == [
        ("", 0.75, None), ("ada", 0.5, 0.5), ("ben", None, 1.0),
    ]  # fmt: skip


def test_a_part_of_the_tree_starts_at_the_left(run: Run, controller: FakeController) -> None:
    controller.answers = [
        replies.Fairshares((FairshareRow("nlp", "", 3, 1, 1, 1, 1, 1), FairshareRow("nlp", "a", 4, 1, 1, 1, 1, 1, 1)))
    ]
    lines = run("show", "fairshare", "-A", "nlp")[1].splitlines()
    assert [line[:6] for line in lines[1:]] == ["nlp   ", "  nlp "]


def test_submit_tells_what_the_job_belongs_to(run: Run, controller: FakeController) -> None:
    words = ("submit", "-A", f"ml{HOSTILE}", "--qos=high", "--reservation=r", "-L", "matlab:2", "--wrap", "true")
    controller.answers = [replies.Submitted(JobNumber(7)) for _ in range(4)]
    code, out, err = run(*words)
    assert (code, out) == (0, "Submitted batch job 7\n")
    assert err.startswith("flagplot: account mla␛]0;X␇b") and ", QoS high, reservation r, licenses matlab:2\n" in err
    assert "\x1b" not in err
    assert run("submit", "--wrap", "true")[1:] == ("Submitted batch job 7\n", "")
    assert run("submit", "--parsable", "-A", "ml", "--wrap", "true")[1:] == ("7\n", "")
    assert json.loads(run("submit", "--json", "-A", "ml", "-L", "matlab:2", "--wrap", "true")[1]) == {
        "job_id": 7, "warnings": [], "account": "ml", "qos": "", "reservation": "", "licenses": {"matlab": 2},
    }  # fmt: skip


def test_show_job_tells_it_too(run: Run, controller: FakeController) -> None:
    request = Request(licenses=(LicenseCount("matlab", 2),))
    job = Job(JobNumber(7), "ada", 1_000, JobSpec("x", "/", request, "gpu", "ml", "high", "r"))
    controller.answers = [replies.Jobs((job,)), replies.Steps()] * 2
    shown = dict(line.split(maxsplit=1) for line in run("show", "job", "7")[1].splitlines())
    assert [shown[key] for key in ("account", "qos", "reservation", "licenses")] == ["ml", "high", "r", "matlab=2"]
    assert json.loads(run("show", "job", "7", "--json")[1])["licenses"] == {"matlab": 2}
    assert controller.asked == [requests.GetJob("7"), requests.GetSteps("7")] * 2


def test_usage_in_tables_and_as_json(run: Run, controller: FakeController) -> None:
    used = (UsedBy("ada", "lab", 3, 7_200, 3_600), UsedBy("ben", "", 1, 36_000, 0))
    ended = (Efficiency(JobNumber(7), "7", HOSTILE, "FAILED", SUMMER, 100, 2, 100, 500, 50_000, 80),)
    quotas = (Quota("account lab", "memory_mib", 1_024, 2_048, "account:lab"),)
    controller.answers = [replies.UsageReport(used, "ada", ended, quotas)] * 2
    code, out, _ = run("usage", "--since", "2026-06-29", "--until", "2026-07-01T10:00", "--by", "user", "-n", "3")
    assert (code, controller.asked[0]) == (0, requests.GetUsage(SUMMER - 208_800, SUMMER, "", 3))
    lines = out.splitlines()
    assert lines[:3] == [
        "USER  JOBS  GPU-HOURS  CPU-HOURS",
        "ada      3        1.0        2.0",
        "ben      1          0         10",
    ]
    assert (
        "7    FAILED  1:40    25    80     ?  " in out
        and "\x1b" not in out
        and "account lab  memory    1G    2G" in out
    )
    code, out, _ = run("usage", "--json")
    found = json.loads(out)
    assert (found["until"], found["used"][0]["gpu_seconds"], found["jobs"][0]["gpu_percent"]) == (None, 3_600, None)
    assert found["limits"] == [
        {"whose": "account lab", "scope": "account:lab", "limit": "memory_mib", "used": 1_024, "most": 2_048}
    ]
