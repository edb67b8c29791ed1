"""Logs in the Standard Workload Format: what is read, left out and refused, and what `simulate swf` says of them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from flagplot_wire.errors import Exit, Refused
from flagplot_wire.text import clean
from flagplotd.sim import report
from flagplotd.sim.cli import main
from flagplotd.sim.engine import Outcome, simulate
from flagplotd.sim.swf import DROPPED, LARGEST, Workload, parse, read, workload


def record(submit: object = 0, run: object = 5, allocated: object = 2, procs: object = 2, time: object = 9) -> str:
    return f"1 {submit} -1 {run} {allocated} -1 -1 {procs} {time} -1 1 1 1 -1 -1 -1 -1 -1"


def log(*lines: str, end: str = "\n") -> bytes:
    return "".join(line + end for line in lines).encode()


HEAD = ("; Version: 2.2", ";MaxNodes: 32", ";  MaxProcs: 64 (two each)", "; MaxProcs: 7", "; Note: \xe9", "")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda text: b"\xef\xbb\xbf" + text])
def test_reads_plain_and_gzip(end: str, pack: object, tmp_path: Path) -> None:
    content = log(*HEAD, record(3, 4, 1, 2, 6), "  ", "; between", "\t" + record(1, procs=-1, allocated=8), end=end)
    path = tmp_path / "any-name"
    path.write_bytes(pack(content))  # type: ignore[operator]
    found = read(path)
    assert found == parse(content)
    assert (found.submit, found.run, found.requested, found.procs) == ([3, 1], [4, 5], [6, 9], [2, 8])
    assert found.max_procs == 64


def test_short_records_and_fractions() -> None:
    found = parse(b"1 10.9 -1 5e1 4\n2 11 -1 5 4 nan inf 3 9.5\n")
    assert (found.submit, found.run, found.requested, found.procs) == ([10, 11], [50, 5], [-1, 9], [4, 3])
    assert found.max_procs == 0


def test_size_by_nodes_where_processors_are_not_told() -> None:
    assert parse(log("; MaxNodes: 32", "; MaxProcs: -1", record())).max_procs == 32


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the log holds no job"),
        (b"; MaxProcs: 4\n\n", "the log holds no job"),
        (b"; fine\n1 2 3 4\n", "line 2, column 5 is missing"),
        (b"1 2 3 4 5\n\n1 2 three 4 5\n", "line 3, column 3: three is no number"),
        (log(record(), record() + " 0"), "line 2, column 19"),
        (log(record(submit="nan")), "line 1, column 2: nan"),
        (log(record(run="inf")), "line 1, column 4: inf"),
        (log(record(time=LARGEST + 1)), f"line 1, column 9: {LARGEST + 1}"),
        (b"\x1b[2J 0 0 0 0", "column 1: \u241b[2J is"),
        ("1 2 3 4 5".encode("utf-16"), "line 1, column 1"),
        (b"PK\x03\x04\x00", "line 1, column 2 is missing"),
        (gzip.compress(log(record()), mtime=0)[:-9], "the log is damaged"),
        (b"\x1f\x8bnonsense", "the log is damaged"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(content)
    assert words in caught.value.message
    assert caught.value.exit == Exit.USAGE and caught.value.hint


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read: Is a directory"):
        read(tmp_path)


fields = some.one_of(some.integers(-2, 40).map(str), some.floats().map(str), some.text(max_size=3))
lines = some.one_of(some.lists(fields, max_size=20).map(" ".join), some.text(max_size=30), some.just(record()))


@settings(deadline=None, print_blob=True)
@given(some.lists(lines, max_size=6).map("\n".join), some.sampled_from([bytes, gzip.compress]), some.integers(1, 9))
@example("1 1_0 -1 1e10 4\n", bytes, 1)
def test_any_text_is_read_or_refused(text: str, pack: object, total: int) -> None:
    try:
        found = parse(pack(text.encode("utf-8", "surrogatepass")))  # type: ignore[operator]
    except Refused as refused:
        assert clean(refused.message) == refused.message and "the log" in refused.message
        return
    jobs = workload(found, total)
    assert len(jobs.submit) + sum(jobs.dropped.values()) == len(found.submit)
    made = simulate(jobs, "easy")
    figures = report.measure(made)
    assert figures.jobs == len(jobs.submit) and figures.sum_wait_s >= 0
    page = report.page("any", made, figures)
    assert max(map(len, page.splitlines())) <= report.WIDTH


@given(some.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for whole in (content, b"\x1f\x8b" + content, b"\x1f\x8b\x08" + content):
        try:
            assert parse(whole).submit
        except Refused as refused:
            assert refused.message and refused.code == "usage"


def test_jobs_that_can_never_run_are_counted_and_the_rest_sorted() -> None:
    content = log(
        record(submit=-1), record(run=0), record(run=-1), record(time=-1), record(procs=0, allocated=-1),
        record(procs=5), record(7, run=20, procs=4), record(2, procs=1), record(7, procs=3),
    )  # fmt: skip
    jobs = workload(parse(content), 4)
    assert jobs.submit == [2, 7, 7] and jobs.procs == [1, 4, 3]
    assert jobs.run == [5, 9, 5], "a job runs no longer than it asked for"
    assert jobs.dropped == {"submit_time": 1, "run_time": 2, "requested_time": 1, "processors": 1, "too_large": 1}
    assert jobs.dropped.keys() == DROPPED.keys()


def outcome() -> Outcome:
    """Two processors: one job on both for 10 s, one on one from 10 s on, after 6 s in the queue."""
    jobs = Workload([0, 4, 20], [10, 5, 100], [10, 5, 100], [2, 1, 2], 2, {"run_time": 1_234, "too_large": 0})
    return simulate(jobs, "fcfs")


def test_figures() -> None:
    made = outcome()
    assert made.start == [0, 10, 20]
    found = report.measure(made)
    assert (found.jobs, found.sum_wait_s, found.max_wait_s, found.mean_wait_s) == (3, 6, 6, 2.0)
    assert found.mean_bsld == (1 + 11 / 10 + 1) / 3, "a job under 10 s counts as 10 s long"
    assert found.utilisation == 25 / 40, "what runs after the last submission does not count"
    assert report.busy(made, [-5, 0, 4, 12, 15, 20, 999]) == [0, 0, 8, 22, 25, 25, 225]


def test_figures_without_a_span() -> None:
    jobs = Workload([5, 5], [10, 5], [10, 5], [2, 1], 2, {})
    made = simulate(jobs, "fcfs")
    found = report.measure(made)
    assert found.utilisation is None and found.sum_wait_s == 10
    assert "unknown" in report.page("one", made, found)


def test_page() -> None:
    made = outcome()
    text = report.page("a log", made, report.measure(made))
    assert "left out               1,234 without a run time" in text and "larger" not in text
    drawn = report.timeline(made)[1]
    assert len(drawn) == report.WIDTH
    assert drawn.startswith("█") and drawn.endswith("█") and "▄" in drawn and " " in drawn
    bars = report.histogram(made)
    assert bars[1].split() == ["none", "█" * 47, "2", "66.7%"] and bars[2].split()[-2:] == ["1", "33.3%"]
    assert report.page("a log", made, report.measure(made), ascii_only=True).isascii()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_bytes(log("; MaxProcs: 4", record(0, procs=4), record(1, procs=3), record(2, run=0), record(3, run=1)))
    return path


def test_command_prints_json(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["swf", str(small), "--policy", "conservative", "--clairvoyant", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "trace": "small.swf", "procs": 4, "policy": "conservative", "clairvoyant": True, "jobs": 3, "sum_wait_s": 11,
        "mean_wait_s": 11 / 3, "mean_bsld": 1.0, "max_wait_s": 7, "utilisation": 1.0,
        "dropped": 1, "dropped_by": {**dict.fromkeys(DROPPED, 0), "run_time": 1},
    }  # fmt: skip


def test_command_prints_a_page(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["swf", str(small), "--procs", "3", "--ascii"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("small.swf, 3 processors, easy\n") and text.isascii()
    assert "left out               1 with more processors than the machine has" in text


def test_command_refuses(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["swf", str(small), "--policy", "lottery"]) == 2
    assert "'lottery' is not one of" in capsys.readouterr().err
    assert main(["nothing"]) == 2
    with pytest.raises(Refused, match="no job that can run on 1 processors: 1 without a run time, 3 with more"):
        main(["swf", str(small), "--procs", "1"])
    (tmp_path / "bare.swf").write_bytes(log(record()))
    with pytest.raises(Refused, match="does not say how many processors") as caught:
        main(["swf", str(tmp_path / "bare.swf")])
    assert "--procs" in caught.value.hint


def test_group_lists_what_this_build_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "swf" in capsys.readouterr().out


def test_program(small: Path, tmp_path: Path) -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "flagplotd.main", "simulate", *args], capture_output=True, text=True, check=False,
            env={"FLAGPLOT_DATA_DIR": str(tmp_path), **os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip

    fine = run("swf", str(small), "--policy=fcfs")
    assert fine.returncode == 0 and "fcfs" in fine.stdout and fine.stdout.isascii(), fine.stderr
    (tmp_path / "no.swf").write_text("hello\n")
    wrong = run("swf", str(tmp_path / "no.swf"))
    assert wrong.returncode == 2 and wrong.stdout == ""
    assert wrong.stderr.startswith(f"flagplotd: {tmp_path}/no.swf, line 1, column 2 is missing")
