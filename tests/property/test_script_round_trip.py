"""Any job as a command line, and read again, is the same job."""

from __future__ import annotations

import shlex
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as some
from support.command_line import to_command_line

from flagplot.script.build import build, check_request, parse_arguments, parse_script
from flagplot_wire.errors import Refused
from flagplot_wire.job import (
    ArraySpec,
    Dependency,
    DependencyTerm,
    GpuCount,
    JobSpec,
    LicenseCount,
    Request,
)

NOW = 1_000_000

words = some.text(some.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
names = some.sampled_from(["", "a", "long-run", "x_1.y"])
hosts = some.lists(some.sampled_from(["gpu01", "gpu02", "n7"]), unique=True, max_size=3).map(
    lambda all_: tuple(sorted(all_))
)
few = some.integers(0, 5)
types = some.sampled_from(["", "a100", "l4"])
gpus = some.lists(some.builds(GpuCount, some.integers(1, 8), types), max_size=2).map(tuple)
licenses = some.dictionaries(some.sampled_from(["matlab", "ansys@lic1", "v8-x"]), some.integers(1, 99)).map(
    lambda counts: tuple(LicenseCount(name, count) for name, count in counts.items())
)
sizes = some.none() | some.integers(0, 100_000)
minutes = some.integers(0, 10_000).map(lambda count: count * 60)
constraints = some.sampled_from(["", "a", "a&b|!c", "(a|b)&c", "[a|b]", "a&b*2", "[a*1&b*2]", "a, b"])
shares: some.SearchStrategy[dict[str, Any]] = some.one_of(
    some.fixed_dictionaries({}),
    some.fixed_dictionaries({"shards": some.integers(1, 8), "share_type": types}),
    some.fixed_dictionaries({"vram_mib": some.integers(1, 90_000)}),
    some.fixed_dictionaries(
        {"gpus": gpus, "gpus_per_node": gpus, "gpus_per_task": gpus, "cpus_per_gpu": few, "near_gpus": some.booleans()}
    ),
)
memories: some.SearchStrategy[dict[str, Any]] = some.one_of(
    *(some.fixed_dictionaries({f"mem_per_{unit}_mib": sizes}) for unit in ("node", "cpu", "gpu"))
)  # fmt: skip
switches: some.SearchStrategy[dict[str, Any]] = some.one_of(
    some.just({}), some.fixed_dictionaries({"switches": some.integers(1, 9), "switches_wait_s": minutes})
)
sharing: some.SearchStrategy[dict[str, Any]] = some.sampled_from([{}, {"exclusive": True}, {"oversubscribe": True}])


@some.composite
def requests(draw: some.DrawFn) -> Request:
    least = draw(some.integers(1, 4))
    request = Request(
        nodes_min=least, nodes_max=least + draw(few), tasks=draw(few), tasks_per_node=draw(few),
        cpus_per_task=draw(some.integers(1, 3)), time_limit_s=draw(some.none() | minutes), nodelist=draw(hosts),
        exclude=draw(hosts), constraint=draw(constraints), licenses=draw(licenses), contiguous=draw(some.booleans()),
        launch=draw(some.sampled_from(["batch", "tasks"])), **draw(shares), **draw(memories), **draw(switches),
        **draw(sharing),
    )  # fmt: skip
    try:
        return check_request(request)
    except Refused:
        assume(False)
        raise


terms = some.builds(DependencyTerm, some.just("after"), some.just(("7", "8_3")), few.map(lambda count: count * 60))
dependencies = some.builds(
    Dependency, some.lists(terms | some.just(DependencyTerm("singleton")), min_size=2, max_size=3).map(tuple),
    some.booleans(),
)  # fmt: skip
specs = some.builds(
    JobSpec, words, some.just("/work"), requests(), names, names, names, names, names, names, names,
    some.sampled_from(["truncate", "append"]), some.text(max_size=10).filter(lambda text: "\0" not in text),
    some.none() | dependencies, some.just(0) | some.integers(1, 4_000_000_000), some.sampled_from(["", "user"]),
    some.booleans(), some.none() | some.builds(ArraySpec, some.sampled_from(["0-9", "1,3"]), few),
    some.integers(-50, 50), some.just("job.sh"), some.just("job.sh"),
)  # fmt: skip


def read(words: list[str], script: str, utc_offset_s: int) -> JobSpec:
    parsed = parse_script(script, "job.sh")
    given_, rest = parse_arguments(words)
    assert rest == []
    spec, _, _ = build(
        parsed.options, given_, script_text=parsed.text, script_name="job.sh", args=[], work_dir="/work",
        environment={}, now=NOW, utc_offset_s=utc_offset_s,
    )  # fmt: skip
    return spec


@given(specs, some.integers(-12, 14).map(lambda hours: hours * 3_600))
def test_a_command_line_asks_for_the_same(spec: JobSpec, utc_offset_s: int) -> None:
    assert read(to_command_line(spec, utc_offset_s), "#!/bin/sh\ntrue\n", utc_offset_s) == spec


@given(specs)
def test_so_do_directives(spec: JobSpec) -> None:
    assume("\n" not in spec.comment and "\r" not in spec.comment)
    lines = "".join(f"#SBATCH {shlex.quote(word)}\n" for word in to_command_line(spec))
    assert read([], f"#!/bin/sh\n{lines}true\n", 0) == spec
