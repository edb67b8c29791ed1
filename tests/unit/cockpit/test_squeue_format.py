"""`flagplot queue -o` and `-O` against what squeue(1) says of them."""

from __future__ import annotations

import pytest
from support import sample_cluster as sample

from flagplot.view.squeue_format import FIELDS, Seen, lines, parse_letters, parse_names
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber


def seen(*numbers: int) -> list[Seen]:
    mirror = sample.sample_mirror()
    return [
        Seen(
            mirror.jobs[JobNumber(one)],
            sample.NOW,
            mirror.forecasts.get(JobNumber(one)),
            lambda at: f"@{at}" if at else "N/A",
        )
        for one in numbers
    ]


def test_squeues_default_format() -> None:
    line = parse_letters("%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R")
    assert lines(line, seen(40, 55)) == [
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
        "                40       gpu llama-pr    alice  R 1-02:03:04      2 gpu[01-02]",
        f"                55       gpu  gang-32     erin PD       0:00      4 {seen(55)[0].nodes_or_reason}",
    ]


def test_what_scripts_ask_for() -> None:
    assert lines(parse_letters("%i"), seen(53), header=False) == ["50_2"]
    assert lines(parse_letters("%A|%F|%K|%T|100%%"), seen(53), header=False) == ["53|50|2|RUNNING|100%"]
    assert lines(parse_letters("%N %B %C"), seen(40), header=False) == ["gpu[01-02] gpu01 16"]


def test_a_name_is_not_cut_without_a_size() -> None:
    made = lines(parse_names("jobid,Name,Name:5,USERNAME:.8"), seen(40, 42))
    assert made == [
        "JOBID NAME           NAME     USER",
        "40    llama-pretrain llama   alice",
        "42    whisper-large  whisp   carol",
    ]


def test_wide_characters_keep_their_columns() -> None:
    made = lines(parse_letters("%7j|"), seen(44), header=False)
    assert made == ["評価ジ |"]


def test_hostile_names_stay_in_their_line() -> None:
    for one in seen(*sample.sample_mirror().jobs):
        (made,) = lines(parse_letters("%i %j %k"), [one], header=False)
        assert made.isprintable()


@pytest.mark.parametrize(
    ("parse", "text", "told"),
    [
        (parse_letters, "%J", "no column %J"),
        (parse_letters, "%i %", "names no column"),
        (parse_names, "JobID,Colour", "no column 'Colour'"),
        (parse_names, "Name:wide", "a size is a number"),
        (parse_names, "", "no column ''"),
    ],
)
def test_mistakes_are_told(parse: object, text: str, told: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(text)  # type: ignore[operator]
    assert told in refused.value.message


def test_every_column_has_a_value_for_every_job() -> None:
    every = parse_names(",".join(field[1] for field in FIELDS))
    jobs = seen(*sample.sample_mirror().jobs)
    assert len(lines(every, jobs)) == len(jobs) + 1
