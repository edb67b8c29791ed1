"""flagplotd.toml: accounts, users, QoS, reservations, licenses, switches and limits; what a start makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.core_kit import ADMIN, ALICE, OPERATOR, Driver, fingerprint

from flagplot_wire.errors import Exit, Refused
from flagplot_wire.ids import Epoch
from flagplot_wire.node import Partition
from flagplot_wire.policy import Account, Association, Limits, Qos, Reservation
from flagplot_wire.replies import Failure
from flagplotd.config import Config, load_config
from flagplotd.core import stimuli as st
from flagplotd.core.state import Switch
from flagplotd.main import cli

FULL = """
[limits]
enforce = "associations"
refuse_impossible = false
usage_half_life_s = 3600
weight_gpu = 16000
[preemption]
preempt_mode = "requeue"
preempt_by = "partition"
preempt_exempt_s = 60
[licenses]
matlab = 4
[[node]]
names = "n[1-4]"
[[switch]]
name = "top"
switches = ["leaf[1-2]"]
[[switch]]
name = "leaf1"
nodes = "n[1-2]"
[[switch]]
name = "leaf2"
nodes = ["n3", "n4"]
[[block]]
name = "nvl"
nodes = "n[1-2]"
[[qos]]
name = "high"
priority = 100
preempts = ["low"]
preempt_mode = "suspend"
grace = "2m"
exempt = 30
user-max-gpus = 4
max_mem = "1T"
[[qos]]
name = "low"
[[account]]
name = "science"
shares = 3
max_gpus = 64
max_wall = "1-0"
gpu_minutes = 100000
qos = "high,low"
coordinators = ["carl"]
[[account]]
name = "physics"
parent = "science"
default_qos = "low"
[[user]]
name = ["ada", "bob"]
account = "physics"
max_jobs = 10
[[user]]
name = "ada"
account = "science"
priority = 5
[[reservation]]
name = "class"
start = 2030-01-07T09:00:00Z
duration = "2:00:00"
nodes = "n[1-2]"
gpus = 2
users = ["ada"]
licenses = "matlab:2"
flags = ["weekly", "flex"]
[[partition]]
name = "long"
nodes = "n[1-2]"
state = "down"
tier = 3
allow_accounts = ["science"]
allow-qos = "high"
qos = "low"
preempt_mode = "cancel"
grace = 10
"""
PHYSICS = Account("physics", "science", default_qos="low")


def written(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "flagplotd.toml"
    path.write_text(text)
    return load_config(path)


def test_every_table(tmp_path: Path) -> None:
    config = written(tmp_path, FULL)
    settings = config.settings
    assert (settings.enforce, settings.refuse_impossible, settings.usage_half_life_s) == ("associations", False, 3_600)
    assert (settings.weight_gpu, settings.weight_cpu) == (16_000, 1_000)
    assert (settings.preempt_mode, settings.preempt_by, settings.preempt_exempt_s) == ("requeue", "partition", 60)
    assert settings.licenses == (("matlab", 4),)
    assert settings.switches == (
        Switch("top", switches=("leaf1", "leaf2")), Switch("leaf1", ("n1", "n2")), Switch("leaf2", ("n3", "n4")),
        Switch("nvl", ("n1", "n2"), block=True),
    )  # fmt: skip
    high = Qos(
        "high", 100, ("low",), "suspend", 120, 30, Limits(memory_mib=1_048_576), user_limits=Limits(gpus=4)
    )  # fmt: skip
    science = Account(
        "science", shares=3, limits=Limits(gpus=64, job_wall_s=86_400, gpu_minutes=100_000), qos=("high", "low"),
        coordinators=("carl",),
    )  # fmt: skip
    start = 1_894_006_800
    assert config.records == (
        high,
        Qos("low"),
        science,
        PHYSICS,
        Association("ada", "physics", default=True, limits=Limits(jobs=10)),
        Association("bob", "physics", default=True, limits=Limits(jobs=10)),
        Association("ada", "science", priority=5),
        Reservation(
            "class", start, start + 7_200, ("n1", "n2"), gpus=2, users=("ada",), licenses=(("matlab", 2),), flex=True,
            repeat_s=604_800,
        ),
    )  # fmt: skip
    assert config.names_partitions
    assert config.partitions == (
        Partition(
            "long", ("n1", "n2"), up=False, priority_tier=3, allow_accounts=("science",), allow_qos=("high",), qos="low",
            preempt_mode="cancel", grace_s=10,
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nenforce = 'always'\n", ["limits.enforce", "off, limits, associations", "'always'"]),
        ("[limits]\nenforce = ['off']\n", ["limits.enforce", "must be one of"]),
        ("[limits]\nrefuse_impossible = 1\n", ["limits.refuse_impossible", "true or false"]),
        ("[limits]\nusage_every_s = 0\n", ["limits.usage_every_s", "1 or more"]),
        ("[limits]\nweight_gpus = 1\n", ["limits.weight_gpus", "did you mean 'weight_gpu'"]),
        ("[preemption]\npreempt_mode = 'kill'\n", ["preemption.preempt_mode", "suspend"]),
        ("[licenses]\nmatlab = 'x'\n", ["licenses.matlab", "whole number"]),
        ("[licenses]\n'a b' = 1\n", ["licenses.a b", "is no name"]),
        ("[[account]]\nshares = 1\n", ["account.name", "needs a name"]),
        ("[[account]]\nname = 'a'\nmax_gpu = 1\n", ["account.max_gpu", "did you mean 'max-gpus'"]),
        ("[[account]]\nname = 'a'\nmax_gpus = -5\n", ["account.max_gpus", "too low"]),
        ("[[account]]\nname = 'a'\nmax_gpus = 4294967296\n", ["account.max_gpus", "2147483647"]),
        ("[[account]]\nname = 'a'\nmax_gpus = 1.5\n", ["account.max_gpus", "1.5"]),
        ("[[account]]\nname = 'a'\nmax_gpus = 1\nmax-gpus = 2\n", ["account.max-gpus", "given twice"]),
        ("[[account]]\nname = 'a'\n[[account]]\nname = 'a'\n", ["account.name", "'a'", "twice"]),
        ("[[account]]\nname = 'a/b'\n", ["account.name", "is no name"]),
        ("[[user]]\nname = 'ada'\n", ["user.account", "needs an account"]),
        ("[[user]]\naccount = 'a'\n", ["user.name", "needs a name"]),
        ("[[user]]\nname='ada'\naccount='a'\n[[user]]\nname='ada'\naccount='a'\n", ["ada@a", "twice"]),
        ("[[user]]\nname='u'\naccount='a'\ndefault=true\n[[user]]\nname='u'\naccount='b'\ndefault=true\n",
         ["user.default", "more than one"]),
        ("[[reservation]]\nname = 'r'\nend = 5\n", ["reservation", "needs a start"]),
        ("[[reservation]]\nname = 'r'\nstart = 'now'\nend = 1900000000\n", ["reservation.start", "another time every day"]),
        ("[[reservation]]\nname = 'r'\nstart = '16:00'\nduration = 5\n", ["reservation.start", "another time every day"]),
        ("[[reservation]]\nname = 'r'\nstart = 'x'\nduration = 5\n", ["reservation.start", "no time"]),
        ("[[reservation]]\nname = 'r'\nstart = 1900000000\nduration = 'x'\n", ["reservation.duration", "no time limit"]),
        ("[[partition]]\nname = 'p'\ntier = 1\npriority_tier = 2\n", ["partition.priority_tier", "given twice"]),
        ("[[partition]]\nname = 'p'\nup = 'maybe'\n", ["partition.up", "write up or down"]),
        ("[[switch]]\nname = 's'\nnodes = 'n1'\nports = 4\n", ["switch.ports"]),
        ("[[switch]]\nnodes = 'n1'\n", ["switch.name"]),
        ("[[switch]]\nname = 's'\nnodes = 'n[1'\n", ["switch.nodes", "bracket"]),
        ("[[switch]]\nname = 's'\nswitches = 's'\n", ["switch", "circle"]),
        ("[[node]]\nnames='n1'\n[[block]]\nname = 's'\nnodes = 'n2'\n", ["block s", "'n2'"]),
    ],
)  # fmt: skip
def test_refusals_name_file_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        written(tmp_path, text)
    told = f"{refused.value.message} {refused.value.hint}"
    assert all(word in told for word in ["flagplotd.toml", *words]), told
    assert refused.value.exit == Exit.USAGE


def booted(drive: Driver, config: Config, epoch: int) -> None:
    drive.do(st.Boot(Epoch(epoch), "1.0", config.partitions, config.nodes, config.records))


def test_a_start_takes_the_records_and_overwrites_what_they_name(tmp_path: Path) -> None:
    config = written(tmp_path, FULL)
    drive = Driver((), licenses=(("matlab", 4),))
    booted(drive, config, 2)
    assert drive.state.accounts["physics"] == PHYSICS and drive.state.default_accounts["ada"] == "physics"
    assert set(drive.state.reservations) == {"class"}
    drive.change("modify", "account", "physics", shares="9")
    drive.change("add", "account", "art", "music")
    drive.change("add", "user", "ada", account="art", default="yes")
    drive.change("modify", "partition", "long", state="up", who=OPERATOR)
    drive.change("add", "partition", "own", nodes="n1", who=OPERATOR)
    booted(drive, config, 3)
    assert drive.state.accounts["physics"] == PHYSICS and "art" in drive.state.accounts
    assert drive.state.default_accounts["ada"] == "physics"
    assert not drive.state.associations["ada@art"].default
    assert not drive.state.partitions["long"].up and drive.state.partitions["own"].up
    assert not drive.state.partitions["main"].up, "a partition that left the file is closed"
    booted(drive, config, 4)
    assert [type(body).__name__ for body in drive.last.events] == ["ControllerStarted"]
    assert fingerprint(drive.replayed()) == fingerprint(drive.state)


def test_reservations_that_passed_before_the_start() -> None:
    drive = Driver()
    past = Reservation("past", 100, 200, ("n1",))
    daily = Reservation("daily", 999_000, 999_500, ("n1",), repeat_s=86_400)
    drive.do(st.Boot(Epoch(2), "1.0", (), (), (past, daily)))
    assert list(drive.state.reservations) == ["daily"]
    assert drive.state.reservations["daily"].start == 999_000 + 86_400


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ((Account("a", "lost"),), "account a names account 'lost'"),
        ((Account("a", "b"), Account("b", "a")), "below itself"),
        ((Association("ada", "lost"),), "'lost'"),
        ((Qos("q", preempts=("lost",)),), "'lost'"),
        ((Account("a", qos=("lost",)),), "no QoS at all"),
        ((Reservation("r", 2_000_000, 2_000_001, licenses=(("matlab", 1),)),), "'matlab'"),
    ],
)
def test_records_that_fit_nothing_stop_the_start(records: tuple[Account, ...], words: str) -> None:
    drive = Driver()
    before = fingerprint(drive.state)
    reply = drive.do(st.Boot(Epoch(2), "1.0", (), (), records)).reply
    assert isinstance(reply, Failure) and words in f"{reply.message} {reply.hint}", reply
    assert drive.last.events == () and fingerprint(drive.state) == before


def test_check_reads_records_and_the_store(tmp_path: Path) -> None:
    (tmp_path / "flagplotd.toml").write_text(FULL)
    done = CliRunner().invoke(cli, ["check", "--data-dir", str(tmp_path)])
    assert done.exit_code == 0 and "configuration: fine" in done.output
    (tmp_path / "flagplotd.toml").write_text("[[account]]\nname='a'\nparent='lost'\n")
    done = CliRunner().invoke(cli, ["check", "--data-dir", str(tmp_path)])
    assert isinstance(done.exception, Refused) and "flagplotd.toml: account a names account 'lost'" in str(
        done.exception
    )


def test_jobs_go_by_the_configured_records(tmp_path: Path) -> None:
    drive = Driver()
    records = (
        Qos("low"),
        Account("a", default_qos="low", limits=Limits(job_gpus=1)),
        Association("alice", "a", default=True),
    )
    drive.do(st.Boot(Epoch(2), "1.0", (), (), records))
    spec = drive.job(drive.submit(ALICE)).spec
    assert (spec.account, spec.qos) == ("a", "low")
    assert drive.change("remove", "account", "a", who=ADMIN)[0].startswith("in_use")
