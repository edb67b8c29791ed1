"""What a question says that an action will do."""

from __future__ import annotations

import pytest
from support import sample_cluster as sample

from flagplot.view.effects import lines
from flagplot.view.queue import find_job
from flagplot_wire.text import width

RUNNING, PENDING, HELD, ENDED = "40", "55", "57", "64"


@pytest.mark.parametrize(
    ("verb", "target", "words"),
    [
        ("cancel", RUNNING, "stops"),
        ("cancel", PENDING, "never starts"),
        ("cancel", ENDED, "nothing: has ended"),
        ("hold", RUNNING, "cannot: has started"),
        ("hold", PENDING, "waits until released"),
        ("hold", HELD, "nothing: is held"),
        ("release", PENDING, "nothing: is not held"),
        ("release", HELD, "may start"),
        ("requeue", RUNNING, "stops and waits again"),
        ("requeue", PENDING, "nothing: waits already"),
        ("requeue", ENDED, "waits again"),
    ],
)
def test_each_job_with_what_becomes_of_it(verb: str, target: str, words: str) -> None:
    mirror = sample.sample_mirror()
    (line,) = lines(verb, {target: find_job(mirror, target)})
    assert line.startswith(f"{target}  ") and line.endswith(f"→ {words}")


def test_lines_stand_in_columns_and_fit_the_dialog() -> None:
    mirror = sample.sample_mirror()
    jobs = {str(number): job for number, job in mirror.jobs.items() if job.array_index is None}
    for verb in ("cancel", "hold", "release", "requeue"):
        found = lines(verb, jobs | {"999": None})
        assert found.pop() == "999"
        assert len({width(line.partition("→")[0]) for line in found}) == 1
        assert max(map(width, found)) <= 76 - 4 - 1
    assert lines("cancel", {}) == []
