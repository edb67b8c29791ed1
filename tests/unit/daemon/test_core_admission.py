"""Which account, QoS and limits a submission gets, and what is not let in."""

from __future__ import annotations

from typing import Any

import pytest
from support.core_kit import ADMIN, ALICE, BOB, OPERATOR, Driver, part

from flagplot_wire.job import GpuCount, LicenseCount, Request
from flagplot_wire.policy import Limits
from flagplot_wire.replies import Failure, Submitted
from flagplotd.core.admission import impossible
from flagplotd.core.limits import limit_chain, scopes
from flagplotd.core.needs import needs


def site(**settings: Any) -> Driver:
    """science > physics > optics; alice in physics (default) and optics, bob in none; QoS high, low, cap."""
    drive = Driver(**settings)
    drive.change("add", "qos", "high", "low", "cap")
    drive.change("add", "account", "science", qos="high,low", default_qos="low")
    drive.change("add", "account", "physics", parent="science")
    drive.change("add", "account", "optics", parent="physics")
    drive.change("add", "account", "art")
    drive.change("add", "user", "alice", account="physics")
    drive.change("add", "user", "alice", account="optics", qos="high")
    return drive


def told(reply: Any) -> str:
    assert isinstance(reply, Failure), reply
    return f"{reply.code}: {reply.message} ({reply.hint})"


def test_account_and_qos_that_nobody_named() -> None:
    drive = site()
    job = drive.job(drive.submit(ALICE))
    assert (job.spec.account, job.spec.qos) == ("physics", "low")
    job = drive.job(drive.submit(ALICE, account="optics"))
    assert (job.spec.account, job.spec.qos) == ("optics", "high")
    job = drive.job(drive.submit(BOB))
    assert (job.spec.account, job.spec.qos) == ("", "")
    assert drive.job(drive.submit(BOB, account="science", qos="high")).spec.qos == "high"


def test_a_cluster_without_policy_takes_any_account_and_the_qos_that_every_slurm_has() -> None:
    drive = Driver(enforce="associations")
    job = drive.job(drive.submit(ALICE, account="grant-7\x1b", qos="normal"))
    assert (job.spec.account, job.spec.qos) == ("grant-7\u241b", "")
    refused = told(drive.try_submit(ALICE, qos="fast\x1b"))
    assert refused.startswith("not_found: there is no QoS 'fast\u241b': the cluster has none"), refused


def test_enforce() -> None:
    strict = site(enforce="associations")
    assert "no_account: bob is in no account" in told(strict.try_submit(BOB))
    assert "bob is not in account art (ask an admin" in told(strict.try_submit(BOB, account="art"))
    assert "alice is not in account art (alice is in: physics, optics)" in told(strict.try_submit(ALICE, account="art"))
    assert strict.submit(ALICE, account="optics")
    loose = site(enforce="off")
    loose.change("modify", "account", "science", max_submit="0")
    job = loose.job(loose.submit(ALICE, account="unheard", qos="of"))
    assert (job.spec.account, job.spec.qos) == ("unheard", "of")
    assert loose.job(loose.submit(ALICE)).spec.account == ""
    assert loose.submit(ALICE, account="physics") and limit_chain(loose.state, "alice", loose.job(3).spec) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"account": "fysics"}, "there is no account 'fysics' (did you mean 'physics'?)"),
        ({"account": "x\x1b"}, "there is no account 'x\u241b'"),
        ({"qos": "hi"}, "there is no QoS 'hi'"),
        ({"qos": "cap"}, "QoS cap is not open to alice in account physics (there are: high, low)"),
        ({"account": "optics", "qos": "low"}, "not open to alice in account optics (there are: high)"),
        ({"reservation": "none"}, "there is no reservation 'none'"),
        ({"reservation": "bobs"}, "reservation bobs is not open to alice in account physics"),
        ({"partition": "art"}, "partition art is not open to account physics (it is to: art)"),
        ({"partition": "fast"}, "partition fast is not open to QoS low (it is to: high)"),
        ({"licenses": (LicenseCount("ansys"),)}, "there is no license 'ansys'"),
        ({"licenses": (LicenseCount("matlab", 5),)}, "asks for 5 licenses matlab: the cluster has 4"),
        ({"licenses": (LicenseCount("matlab", 3), LicenseCount("matlab", 2))}, "asks for 5 licenses"),
        ({"licenses": (LicenseCount("matlab", 0),)}, "license matlab: a count is"),
    ],
)
def test_what_is_not_let_in(fields: dict[str, Any], words: str) -> None:
    drive = site(licenses=(("matlab", 4),))
    drive.change("add", "reservation", "bobs", nodes="n1", duration="60", users="bob")
    drive.change("add", "partition", "art", nodes="ALL", allow_accounts="art")
    drive.change("add", "partition", "fast", nodes="ALL", allow_qos="high")
    reply = told(drive.try_submit(ALICE, **fields))
    assert words in reply, reply
    assert drive.last.events == ()


def test_what_is_let_in() -> None:
    drive = site(licenses=(("matlab", 4),))
    drive.change("add", "reservation", "ours", nodes="n1", duration="60", accounts="physics")
    drive.change("add", "partition", "art", nodes="ALL", allow_accounts="science", allow_qos="high")
    assert drive.submit(ALICE, reservation="ours")
    assert drive.submit(ALICE, partition="art", qos="high"), "accounts below an allowed one are allowed"
    assert drive.submit(OPERATOR, partition="art"), "operators may use every partition"
    assert drive.submit(ALICE, licenses=(LicenseCount("matlab", 4),))


PER_JOB = (
    ({"max-nodes-per-job": "1"}, {"nodes_min": 2, "nodes_max": 2}, "asks for 2 nodes: {} may use at most 1"),
    ({"max-cpus-per-job": "4"}, {"tasks": 2, "cpus_per_task": 4}, "asks for 8 CPUs: {} may use at most 4"),
    ({"max-gpus-per-job": "1"}, {"gpus_per_node": (GpuCount(2),)}, "asks for 2 GPUs: {} may use at most 1"),
    ({"max-wall": "1:00:00"}, {"time_limit_s": 7_200}, "time limit is 2:00:00: that of {} is at most 1:00:00"),
    ({"max-wall": "1:00:00"}, {"time_limit_s": 0}, "time limit is UNLIMITED"),
    ({"max-jobs": "0"}, {}, "{} may run no jobs"),
    ({"max-nodes": "1"}, {"nodes_min": 2, "nodes_max": 2}, "at most 1"),
    ({"max-cpus": "4"}, {"cpus_per_task": 5}, "asks for 5 CPUs"),
    ({"max-gpus": "0"}, {"shards": 1}, "{} may use at most 0"),
    ({"max-mem": "1G"}, {"mem_per_node_mib": 2_048}, "asks for 2G of memory: {} may use at most 1G"),
    ({"gpu-minutes": "100"}, {"gpus": (GpuCount(2),), "time_limit_s": 3_060}, "may use 102 GPU minutes"),
    ({"gpu-minutes": "100"}, {"gpus": (GpuCount(1),), "time_limit_s": 0}, "has no time limit: {} may use at most 100"),
)


@pytest.mark.parametrize("where", ["user", "account", "above", "qos", "user-in-qos", "account-in-qos", "partition"])
@pytest.mark.parametrize(("limits", "fields", "words"), PER_JOB)
def test_limits_that_no_job_can_meet(where: str, limits: dict[str, str], fields: Any, words: str) -> None:
    drive = site()
    kind, name, prefix, whose = {
        "user": ("user", "alice@physics", "", "user alice in account physics"),
        "account": ("account", "physics", "", "account physics"),
        "above": ("account", "root", "", "account root"),
        "qos": ("qos", "low", "", "QoS low"),
        "user-in-qos": ("qos", "low", "user-", "user alice in QoS low"),
        "account-in-qos": ("qos", "low", "account-", "account physics in QoS low"),
        "partition": ("qos", "cap", "", "QoS cap"),
    }[where]
    drive.change("modify", "partition", "main", qos="cap")
    assert (
        drive.change("modify", kind, name, **{prefix + key: value for key, value in limits.items()})[0][:7] == "changed"
    )
    reply = told(drive.try_submit(ALICE, **fields))
    assert "over_limit" in reply and words.format(whose) in reply, reply
    waiting = site(refuse_impossible=False)
    waiting.change("modify", "account", "root", **limits)
    assert waiting.submit(ALICE, **fields)


def test_a_time_limit_nobody_gave_is_cut_to_the_longest() -> None:
    drive = site()
    drive.change("modify", "account", "science", max_wall="30")
    assert drive.job(drive.submit(ALICE)).time_limit_s == 1_800
    assert drive.job(drive.submit(ALICE, partition="short")).time_limit_s == 600
    assert drive.job(drive.submit(ALICE, time_limit_s=60)).time_limit_s == 60
    assert drive.job(drive.submit(BOB)).time_limit_s == 0


def test_most_submitted_jobs() -> None:
    drive = site(refuse_impossible=False)
    drive.change("modify", "account", "science", max_submit="5")
    drive.change("modify", "qos", "high", user_max_submit="1")
    array = drive.submit(ALICE, array="0-3", limit=1)
    assert "account science may have 5 jobs pending and running: there are 4, and this is 2 more" in told(
        drive.try_submit(ALICE, array="0-1")
    )
    first = drive.submit(ALICE, qos="high")
    assert "too_many_jobs: account science" in told(drive.try_submit(ALICE))
    assert drive.submit(BOB)
    element = drive.start(array, part())
    assert drive.state.submitted["account:science"] == 5
    drive.end(element)
    assert drive.state.submitted["account:science"] == 4
    assert "user alice in QoS high" in told(drive.try_submit(ALICE, qos="high"))
    drive.act("cancel", first)
    assert drive.submit(ALICE, account="optics")
    drive.act("cancel", array)
    assert drive.state.submitted["account:science"] == 1


def test_the_chain_and_its_keys() -> None:
    drive = site()
    for name in ("physics", "science", "root", "art"):
        drive.change("modify", "account", name, max_jobs="9")
    drive.change("modify", "user", "alice@physics", max_gpus="2")
    drive.change("modify", "qos", "low", max_gpus="8", user_max_gpus="4", account_max_gpus="6")
    drive.change("modify", "qos", "cap", user_max_jobs="3")
    drive.change("modify", "partition", "main", qos="cap")
    spec = drive.job(drive.submit(ALICE)).spec
    found = limit_chain(drive.state, "alice", spec)
    assert [key for _, key, _ in found] == [
        "user:alice@physics", "account:physics", "account:science", "account:root", "qos:low", "qos:low:user:alice",
        "qos:low:account:physics", "qos:cap:user:alice",
    ]  # fmt: skip
    assert {key for _, key, _ in found} <= set(scopes(drive.state, "alice", spec))
    assert found[5] == ("user alice in QoS low", "qos:low:user:alice", Limits(gpus=4))
    drive.change("modify", "partition", "main", qos="low")
    assert len(limit_chain(drive.state, "alice", spec)) == 7, "a QoS that is also the partition's holds once"


def test_changing_jobs_is_checked_too() -> None:
    drive = site(licenses=(("matlab", 4),))
    drive.change("modify", "qos", "high", max_submit="1")
    number = drive.submit(ALICE)
    assert drive.update(number, account="art")[0] == ("", "changed account")
    assert (drive.job(number).spec.account, drive.job(number).spec.qos) == ("art", "low")
    assert "QoS low is not open to alice in account optics" in drive.update(number, account="optics")[0][1]
    assert drive.update(number, account="optics", qos="")[0] == ("", "changed account, qos")
    assert (drive.job(number).spec.account, drive.job(number).spec.qos) == ("optics", "high")
    assert "user:alice@physics" not in drive.state.submitted
    other = drive.submit(ALICE)
    assert drive.update(other, qos="high")[0][0] == "too_many_jobs"
    assert drive.update(number, qos="high", time_limit="5")[0] == ("", "changed time limit, qos")
    assert drive.update(other, qos="hig")[0][0] == "not_found"
    assert drive.update(other, reservation="none")[0][0] == "not_found"
    assert drive.update(other, licenses="matlab:2,matlab")[0] == ("", "changed licenses")
    assert drive.job(other).spec.request.licenses == (LicenseCount("matlab", 3),)
    assert drive.update(other, licenses="")[0][0] == "" and drive.job(other).spec.request.licenses == ()
    drive.change("modify", "account", "science", max_wall="1")
    assert drive.update(other, comment="still mine")[0][0] == "", "what it was let in with is not looked at again"
    drive.change("modify", "account", "science", max_wall="")
    drive.start(other, part())
    assert drive.update(other, account="optics")[0][0] == "not_pending"


@pytest.mark.parametrize(
    ("request_", "totals"),
    [
        (Request(), (1, 1, 0, 0, None)),
        (Request(nodes_min=2, nodes_max=4, tasks_per_node=3, cpus_per_task=2, time_limit_s=60), (2, 12, 0, 0, 60)),
        (Request(tasks=5, tasks_per_node=2, gpus_per_node=(GpuCount(4), GpuCount(1, "l4"))), (3, 5, 15, 0, None)),
        (Request(tasks=3, gpus_per_task=(GpuCount(2),), mem_per_gpu_mib=10), (1, 3, 6, 60, None)),
        (Request(gpus=(GpuCount(7),), mem_per_cpu_mib=5, cpus_per_task=4), (1, 4, 7, 20, None)),
        (Request(nodes_min=2, nodes_max=2, shards=3, mem_per_node_mib=9), (2, 2, 1, 18, None)),
    ],
)
def test_needs(request_: Request, totals: tuple[Any, ...]) -> None:
    found = needs(request_)
    assert (found.nodes, found.cpus, found.gpus, found.memory_mib, found.wall_s) == totals
    assert impossible(Limits(), found, "x") == ""
    exact = Limits(nodes=found.nodes, job_cpus=found.cpus, gpus=found.gpus, memory_mib=found.memory_mib, jobs=1)
    assert impossible(exact, found, "x") == ""


def test_many_pending_jobs_are_not_scanned() -> None:
    drive = site()
    drive.change("modify", "account", "science", max_submit="1000000")
    drive.submit(ALICE, array="0-99999")

    class Watched(dict):  # type: ignore[type-arg]
        def values(self) -> Any:
            raise AssertionError("all jobs were looked at")

        items = __iter__ = values

    drive.state.jobs = Watched(drive.state.jobs)
    from flagplot_wire.job import JobSpec
    from flagplotd.core import stimuli as st
    from flagplotd.core.step import step

    reply = step(drive.state, st.SubmitJob(ADMIN, JobSpec("j", "/", account="physics"), "k"), drive.now).reply
    assert isinstance(reply, Submitted)
    assert drive.state.submitted["account:science"] == 100_001


def test_account_qos_reservation_and_licenses_change_as_they_are_submitted() -> None:
    drive = site(licenses=(("matlab", 4),))
    drive.change("add", "reservation", "ours", nodes="n1", duration="60", accounts="optics")
    number = drive.submit(ALICE)
    assert (drive.job(number).spec.account, drive.job(number).spec.qos) == ("physics", "low")
    assert drive.update(number, reservation="ours")[0][0] == "not_permitted", "it is for another account"
    assert drive.update(number, account="optics", qos="", reservation="ours", licenses="matlab:2")[0][0] == ""
    spec = drive.job(number).spec
    assert (spec.account, spec.qos, spec.reservation) == ("optics", "high", "ours")
    assert spec.request.licenses == (LicenseCount("matlab", 2),)
    assert drive.state.submitted["account:optics"] == 1 and "user:alice@physics" not in drive.state.submitted
    assert drive.update(number, qos="low")[0][0] == "not_permitted" and drive.last.events == ()
    assert drive.update(number, licenses="matlab:5")[0][0] == "over_limit"
    assert drive.update(number, account="", reservation="", licenses="")[0][0] == ""
    spec = drive.job(number).spec
    assert (spec.account, spec.qos, spec.reservation, spec.request.licenses) == ("physics", "high", "", ())
