"""Option values, file name patterns and host lists, case by case; and text made safe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from flagplot_wire import units, values
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts, expand_hosts
from flagplot_wire.job import DependencyTerm, GpuCount
from flagplot_wire.patterns import Fields, default_stdout, expand_pattern
from flagplot_wire.text import clean, counted, fit, width


def refused(read: Callable[[str], Any], text: str) -> str:
    with pytest.raises(Refused) as caught:
        read(text)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45", 2_700), ("45:30", 46 * 60), ("3:00:00", 10_800), ("1-0", 86_400), ("2-12", 216_000),
        ("1-06:30", 109_800), ("0-00:00:10", 60), ("0", 0), ("UNLIMITED", 0), ("-1", 0), ("infinite", 0),
    ],
)  # fmt: skip
def test_a_o1_time_limits(text: str, seconds: int) -> None:
    assert units.parse_time_limit(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1-", "=20", "٣"])
def test_a_o1_what_is_no_time(text: str) -> None:
    assert repr(text) in refused(units.parse_time_limit, text)


def test_a_o2_memory() -> None:
    read = units.parse_memory
    assert [read(text) for text in ("0", "1", "1K", "1025k", "2G", "1T", "512M")] == [0, 1, 1, 2, 2_048, 1_048_576, 512]
    refused(read, "12Q")


def test_a_o3_gpus_with_and_without_type_or_count() -> None:
    read = values.parse_gres
    assert read("gpu")[0] == (GpuCount(1),)
    assert read("gpu:3")[0] == (GpuCount(3),)
    assert read("gpu:a100")[0] == (GpuCount(1, "a100"),)
    assert read("gpu:A100:2")[0] == (GpuCount(2, "a100"),)
    assert read("gpu:a100:1,gpu:l4:2")[0] == (GpuCount(1, "a100"), GpuCount(2, "l4"))
    assert read("gpu:0") == read("none") == ((), 0, "")
    assert units.parse_count("2k") == 2_048
    for wrong in ("gpu:-1", "gpu:x:y:2", "gpu:", "lic:1"):
        refused(read, wrong)


def test_a_o4_whole_and_shared_are_refused_together() -> None:
    assert "one kind only" in refused(values.parse_gres, "gpu:a100:2,shard:4")
    assert values.parse_gres("shard:a100:3") == ((), 3, "a100")


def test_a_o6_the_limit_stands_anywhere() -> None:
    for text in ("0-9%2,15", "0-9,15%2"):
        found = values.parse_array(text)
        assert (found.indices, found.limit) == ("0-9,15", 2)
    refused(values.parse_array, "%2")
    refused(values.parse_array, "0-9%")


def test_a_o7_the_index_is_limited_not_the_count() -> None:
    assert values.parse_array("1-1000", 1_001).indices == "1-1000"
    refused(lambda text: values.parse_array(text, 1_001), "1001-1999")
    refused(lambda text: values.parse_array(text, 1_001), "0-1001")
    began = time.perf_counter()
    assert values.parse_array("0-999999%50", 1_000_001).indices == "0-999999"
    assert time.perf_counter() - began < 0.5


def test_a_o8_dependencies() -> None:
    found = values.parse_dependency("afterok:11:12,afterany:13")
    assert found.terms == (DependencyTerm("afterok", ("11", "12")), DependencyTerm("afterany", ("13",)))
    assert not found.any_of
    assert values.parse_dependency("afterok:11?afterany:13").any_of
    refused(values.parse_dependency, "afterok:11,afterany:12?after:13")
    assert values.parse_dependency("singleton").terms == (DependencyTerm("singleton"),)
    assert values.parse_dependency("14").terms == (DependencyTerm("afterany", ("14",)),)
    assert values.parse_dependency("after:15+10").terms == (DependencyTerm("after", ("15",), 600),)


FIELDS = Fields(57, "gan", "ann", "n5.site", 56, 4, restarts=2)


def test_a_f1_defaults() -> None:
    assert expand_pattern(default_stdout(True), FIELDS) == "slurm-56_4.out"
    assert expand_pattern(default_stdout(False), Fields(57, "gan", "ann", "n5")) == "slurm-57.out"
    assert expand_pattern("out/%j.log", FIELDS) == "out/57.log"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%4j", "0057"), ("%03a", "004"), ("%12A", "0000000056"), ("%%", "%"), ("%x-%u", "gan-ann"), ("%5N", "n5"),
        ("%q", "%q"), ("run%", "run"), ("%A_%4a-%N", "56_0004-n5"), ("100%%.log", "100%.log"),
    ],
)  # fmt: skip
def test_a_f2_padding_and_unknown_letters(pattern: str, text: str) -> None:
    assert expand_pattern(pattern, FIELDS) == text


def test_a_f3_the_restart_count() -> None:
    assert expand_pattern("%j.%r", FIELDS) == "57.2"


def test_a_h1_leading_zeros() -> None:
    assert expand_hosts("w[007-010,15]") == ["w007", "w008", "w009", "w010", "w15"]
    assert compress_hosts(["w007", "w008", "w009", "w010", "w15"]) == "w[007-010],w15"


def test_a_h2_plain_names_and_suffixes() -> None:
    assert expand_hosts("head,w[1-2,5],fat") == ["head", "w1", "w2", "w5", "fat"]
    assert expand_hosts("gpu[1-2]-ib,login") == ["gpu1-ib", "gpu2-ib", "login"]
    assert expand_hosts("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]


@pytest.mark.parametrize("text", ["gpu-[a-c]", "n[3-1]", "n[]", "n[1-", "n[1-99999999]", "n]1[", "", "a,,b", "a b"])
def test_a_h3_errors_are_named(text: str) -> None:
    assert repr(text) in refused(expand_hosts, text)


def test_a_h4_plain_numbers() -> None:
    assert expand_hosts("c[9-11],c1,a100,dgx-a100-[01-02]") == [
        "c9",
        "c10",
        "c11",
        "c1",
        "a100",
        "dgx-a100-01",
        "dgx-a100-02",
    ]


def test_a_x2_controls_become_visible() -> None:
    assert clean("a\x1b]0;X\x07b") == "a␛]0;X␇b"
    assert clean("\x9b\u202e\u200bok") == "\ufffd\ufffd\ufffdok"
    assert clean("a\nb\tc") == "a␊b c" and clean("a\nb", keep_newlines=True) == "a\nb"
    assert clean("[/red] 日本語 é") == "[/red] 日本語 é"


def test_one_is_not_many() -> None:
    assert [counted(count, "node") for count in (0, 1, 2, 11)] == ["0 nodes", "1 node", "2 nodes", "11 nodes"]


def test_widths_count_cells() -> None:
    assert width("日本") == 4
    assert fit("日本語", 5) == "日本…" and width(fit("日本語", 4)) == 4
    assert fit("ab", 4) == "ab  "


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("now", 1_700_000_000), ("now+1hour", 1_700_003_600), ("now+2days", 1_700_172_800), ("now+90", 1_700_000_090),
        ("23:00", 1_700_002_800), ("2023-11-15T00:00", 1_700_006_400), ("tomorrow", 1_700_086_400),
    ],
)  # fmt: skip
def test_begin_times(text: str, epoch: int) -> None:
    assert units.parse_begin(text, 1_700_000_000) == epoch


def test_durations_are_written_as_squeue_does() -> None:
    write = units.format_duration
    assert [write(value) for value in (-5, 59, 310, 7_384, 93_784)] == ["0:00", "0:59", "5:10", "2:03:04", "1-02:03:04"]
    assert units.format_limit(0) == "UNLIMITED"
    assert [units.format_memory(mib) for mib in (512, 24_576, 1_572_864)] == ["512M", "24G", "1.5T"]
