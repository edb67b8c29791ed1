"""One job in words."""

from __future__ import annotations

import msgspec
from support import sample_cluster as sample

from flagplot.language import speak
from flagplot.view.draft import FIELDS, fields_named, options_of, source_of
from flagplot.view.job import bar, detail, headline, usage, why
from flagplot.view.request_words import request_words
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import NO_LIMIT, Forecast, GpuCount, LicenseCount, Reason, Request, Why


def lines(found: list[tuple[str, str, str]]) -> str:
    return "\n".join(f"{label}: {text}" for label, text, _ in found)


def test_why_names_the_jobs_in_front_and_the_plan() -> None:
    mirror = sample.sample_mirror()
    text = lines(why(mirror, mirror.jobs[JobNumber(55)], mirror.forecasts[JobNumber(55)], sample.NOW))
    assert "What it asks for is not free (Resources)" in text
    assert "40  llama-pretrain  alice  running, ends in 21 h at the latest" in text
    assert "in 21 h" in text and "gpu[01-02,05-06]" in text
    assert "2 nodes instead of 4 would start now" in text


def test_why_names_those_who_hold_the_planned_nodes_until_then() -> None:
    mirror = sample.sample_mirror()
    running = mirror.jobs[JobNumber(40)]
    assert running.status.allocation is not None
    request = msgspec.structs.replace(running.spec.request, time_limit_s=NO_LIMIT)
    endless = msgspec.structs.replace(running, spec=msgspec.structs.replace(running.spec, request=request))
    mirror.jobs[JobNumber(39)] = endless
    forecast = Forecast(
        JobNumber(55), (Reason(Why.RESOURCES),), running.limit_ends, running.status.allocation.names[:1]
    )
    found = why(mirror, mirror.jobs[JobNumber(55)], forecast, sample.NOW)
    label, text, _ = found[-1]
    assert (label, text) == ("Until then", "40  llama-pretrain  alice  running, ends in 21 h at the latest")
    sooner = msgspec.structs.replace(forecast, start=running.limit_ends - 3_600)
    assert "Until then" not in lines(why(mirror, mirror.jobs[JobNumber(55)], sooner, sample.NOW))


def test_every_label_is_translated() -> None:
    mirror = sample.sample_mirror()
    speak(["zh_CN"])
    try:
        for job in mirror.jobs.values():
            found = [*detail(mirror, job, sample.NOW), *why(mirror, job, mirror.forecasts.get(job.number), sample.NOW)]
            assert [label for label, _, _ in found if label.isascii() and label] == []
    finally:
        speak(())


def test_never_is_said_first() -> None:
    mirror = sample.sample_mirror()
    found = why(mirror, mirror.jobs[JobNumber(60)], mirror.forecasts[JobNumber(60)], sample.NOW)
    assert found[0][:2] == ("Never", "no node has 16 h100: the largest has 8")
    assert "Planned" not in [label for label, _, _ in found]


def test_every_reason_is_told() -> None:
    mirror = sample.sample_mirror()
    job = mirror.jobs[JobNumber(55)]
    forecast = Forecast(job.number, tuple(Reason(word) for word in Why))
    text = lines(why(mirror, job, forecast, sample.NOW))
    assert all(f"({word})" in text for word in Why)


def test_a_running_job_does_not_wait_and_an_unexamined_one_says_so() -> None:
    mirror = sample.sample_mirror()
    assert "does not wait" in lines(why(mirror, mirror.jobs[JobNumber(41)], None, sample.NOW))
    assert "has not looked" in lines(why(mirror, mirror.jobs[JobNumber(55)], None, sample.NOW))
    assert "u releases it" in lines(why(mirror, mirror.jobs[JobNumber(57)], None, sample.NOW))


def test_detail_of_every_job_is_safe_and_complete() -> None:
    mirror = sample.sample_mirror()
    for job in mirror.jobs.values():
        text = lines(detail(mirror, job, sample.NOW)) + "".join(part for part, _ in headline(mirror, job, sample.NOW))
        assert all(char.isprintable() or char == "\n" for char in text)
        assert "State:" in text and "Asks for:" in text
    gang = lines(detail(mirror, mirror.jobs[JobNumber(40)], sample.NOW))
    assert "gpu01" in gang and "gpu02" in gang and "21 h left" in gang
    array = lines(detail(mirror, mirror.jobs[JobNumber(50)], sample.NOW))
    assert "50_1" in array and "failed" in array


def test_usage_tells_unknown_from_zero() -> None:
    mirror = sample.sample_mirror()
    job = mirror.jobs[JobNumber(41)]
    text = lines(usage(mirror, job, sample.NOW, 100))
    assert "80 % of 8 CPUs" in text and "peak" in text and "SIMULATED" in text
    sample_of = mirror.samples["gpu03"]
    blind = tuple(msgspec.structs.replace(one, cpu_percent=None, memory_mib=None) for one in sample_of.jobs)
    mirror.samples["gpu03"] = msgspec.structs.replace(sample_of, jobs=blind, gpus=())
    text = lines(usage(mirror, job, sample.NOW, 100))
    assert "? of 8 CPUs" in text and "GPU 0: ? not measured" in text and "0 %" not in text
    del mirror.samples["gpu03"]
    assert "no sample yet" in lines(usage(mirror, job, sample.NOW, 100))


def test_bars() -> None:
    assert bar(None, 4) == "····"
    assert bar(0, 4) == "────"
    assert bar(100, 4) == "━━━━"
    assert bar(50, 4) == "━━──"
    assert len(bar(33.3, 10)) == 10


def test_requests_in_words() -> None:
    mirror = sample.sample_mirror()
    assert request_words(mirror.jobs[JobNumber(43)].spec and mirror.jobs[JobNumber(43)]) == (
        "1 node · 4 CPUs per task · 16 GiB per node · 3 shards of one GPU"
    )


def test_what_a_shared_cluster_is_asked_in_words() -> None:
    job = sample.sample_mirror().jobs[JobNumber(43)]
    request = Request(
        gpus=(GpuCount(8),), cpus_per_gpu=4, constraint="a|b", switches=1, switches_wait_s=7_200, contiguous=True,
        near_gpus=True, oversubscribe=True, licenses=(LicenseCount("matlab", 2), LicenseCount("an\x1bsys")),
    )  # fmt: skip
    asked = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, request=request, reservation="course"))
    assert request_words(asked) == (
        "1 node · 4 CPUs per GPU · 8 GPU · with a|b · at most 1 switch for 2h · neighbours · CPUs near the GPUs"
        " · shares its nodes · licenses matlab:2, an␛sys:1"
    )
    assert "Reservation: course" in lines(detail(sample.sample_mirror(), asked, sample.NOW))


def test_a_draft_becomes_options() -> None:
    draft = {"name": "a b", "gpus": "h100:2", "shards": "3", "memory": " ", "command": "x"}
    assert options_of(draft) == ["--job-name=a b", "--gpus-per-node=h100:2", "--gres=shard:3"]
    assert source_of(draft) == "command"
    assert options_of({"licenses": "matlab:2", "qos": "long", "account": "physics", "reservation": "course"}) == [
        "--account=physics", "--qos=long", "--reservation=course", "--licenses=matlab:2",
    ]  # fmt: skip
    assert fields_named("--mem=oops is no size") == ["memory"]
    assert fields_named("--gres-flags=x: there is no GRES flag") == [] and fields_named("--gres=x") == ["shards"]
    assert len({field.name for field in FIELDS}) == len(FIELDS)


def test_a_draft_has_exactly_one_source() -> None:
    for draft in ({}, {"command": "x", "script": "y"}):
        try:
            source_of(draft)
        except Refused as refused:
            assert refused.code == "usage"
        else:
            raise AssertionError(draft)
