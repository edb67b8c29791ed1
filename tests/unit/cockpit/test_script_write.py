"""From a job back to its options: what is written makes the same job again."""

from __future__ import annotations

import msgspec
import pytest

from flagplot.script.build import build, parse_arguments, parse_script
from flagplot.script.write import with_directives, write_options, written
from flagplot.view.draft import Difference, changed_options, difference_lines, differences, draft_of, options_of
from flagplot_wire.job import JobSpec

SCRIPT = "#!/bin/bash\n# about\n#SBATCH --mem=16G -t 120\n#SBATCH -N 2\n\ntrue\n"


def spec_of(script: str, *words: str) -> JobSpec:
    parsed = parse_script(script, "train.sh")
    given, rest = parse_arguments(list(words))
    assert rest == []
    spec, _, _ = build(
        parsed.options, given, script_text=script, script_name="train.sh", args=(), work_dir="/home/a", environment={},
        now=1_000,
    )  # fmt: skip
    return spec


@pytest.mark.parametrize(
    "words",
    [
        "",
        "-J x -p gpu -A physics -q high --reservation=night -N 2-4 -n 8 --ntasks-per-node=4 -c 3",
        "--mem=0",
        "--mem=1536M -t 1-12",
        "--mem-per-cpu=2G -t 0",
        "--mem-per-gpu=1T -G h100:4 --cpus-per-gpu=8",
        "--gpus-per-node=a100:2,l4:1 -t 90",
        "--gpus-per-task=1 -n 4",
        "--gres=shard:3",
        "--gres=shard:h100:3",
        "--vram=20G --launch=tasks",
        "-a 0-9:3%2 -d afterok:41:42,after:43+10",
        "-d afterany:4?singleton",
        "-w gpu[01-03] -x gpu09,head -C nvlink&ssd --switches=1@2:00:00 --gres-flags=enforce-binding",
        "--exclusive --contiguous --no-requeue --nice=50 --comment=x=y",
        "-s -L matlab:2,ansys -o out-%j -e err -i /in --open-mode=append -D sub/dir",
        "--container-image=busybox --container-mounts=/a:/b --container-workdir=/w",
    ],
)
def test_what_is_written_makes_the_same_job(words: str) -> None:
    once = spec_of("#!/bin/sh\ntrue\n", *words.split())
    options = write_options(once)
    again = spec_of("#!/bin/sh\ntrue\n", *(written(name, value) for name, value in options.items()))
    assert again == once
    form = options_of(draft_of(options))
    assert spec_of("#!/bin/sh\ntrue\n", *form) == once
    if words:
        assert len(options) > len(write_options(spec_of("#!/bin/sh\ntrue\n"))) or words == "-t 0"


def test_only_what_the_script_does_not_say_is_needed_again() -> None:
    script, job = write_options(spec_of(SCRIPT)), write_options(spec_of(SCRIPT, "--mem=32G", "-N", "1", "-C", "nvlink"))
    needed, left = changed_options(script, job)
    assert needed == {"mem": "32G", "constraint": "nvlink", "nodes": "1"} and left == []
    assert changed_options({"exclusive": ""}, {}) == ({}, ["--exclusive"])


def test_differences_are_of_meaning_and_name_the_line() -> None:
    script = parse_script(SCRIPT, "train.sh").options
    form, _ = parse_arguments(["--time=2:00:00", "--mem=32G", "--gpus=2"])
    found = differences(script, form)
    assert found == [
        Difference("train.sh line 3", "--mem=16G", "--mem=32G"),
        Difference("", "", "--gpus=2"),
    ]
    words = ["".join(text for text, _ in line) for line in difference_lines(found, 6)]
    assert words[1:] == ["~ line 3  --mem=16G → --mem=32G", "+ --gpus=2"]
    assert difference_lines([], 6) == []
    many = difference_lines(found * 5, 4)
    assert "".join(text for text, _ in many[-1]) == "… and 7 more" and len(many) == 5


def test_directives_are_written_below_those_of_the_script_and_win() -> None:
    options = write_options(spec_of(SCRIPT, "--mem=32G", "--vram=1G", '--comment=a "b" \\ #c'))
    text = with_directives(SCRIPT, {name: options[name] for name in ("mem", "vram", "comment")})
    assert text.splitlines()[3:7] == [
        "#SBATCH -N 2",
        "#SBATCH --mem=32G",
        "#FLAGPLOT --vram=1G",
        '#SBATCH "--comment=a \\"b\\" \\\\ #c"',
    ]
    again = spec_of(text)
    assert again.comment == 'a "b" \\ #c' and again.request.mem_per_node_mib == 32_768
    assert msgspec.structs.replace(again, comment="").request.vram_mib == 1_024
    assert with_directives("#!/bin/sh", {"mem": "1G"}) == "#!/bin/sh\n#SBATCH --mem=1G"
