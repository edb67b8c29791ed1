"""Job scripts, case by case, as sbatch reads them."""

from __future__ import annotations

import pytest

from flagplot.script.build import build, parse_arguments, parse_script, wrap_script
from flagplot.view.draft import FIELDS, options_of
from flagplot_wire.errors import Refused
from flagplot_wire.job import GpuCount, JobSpec, LicenseCount


def read(script: str, *cli: str, **environment: str) -> tuple[JobSpec, list[str], dict[str, str]]:
    parsed = parse_script(script, "train.sh")
    given, rest = parse_arguments(list(cli))
    assert rest == []
    spec, payload, warnings = build(
        parsed.options, given, script_text=parsed.text, script_name="train.sh", args=[], work_dir="/home/ann",
        environment=environment, now=1_000,
    )  # fmt: skip
    return spec, [*parsed.warnings, *warnings], payload.environment


def refusal(script: str, *cli: str) -> str:
    with pytest.raises(Refused) as caught:
        read(script, *cli)
    return caught.value.message


def test_a_p1_directives_below_a_command_are_ignored_with_a_warning() -> None:
    spec, warnings, _ = read(
        "#!/bin/bash\nset -o nounset\n#SBATCH -J vit-small\n#SBATCH --gres=gpu:1\npython train.py\n"
    )
    assert spec.name == "train.sh" and spec.request.gpus_per_node == ()
    assert "3, 4" in warnings[0]


def test_a_p2_blank_lines_and_comments_end_nothing() -> None:
    spec, _, _ = read("#!/bin/sh\n\n#SBATCH -t 30\n# ablation\n\n   # (indented remark)\n#SBATCH -c 6\necho ok\n")
    assert (spec.request.time_limit_s, spec.request.cpus_per_task) == (1_800, 6)


def test_a_p3_left_over_words_are_refused_and_quotes_keep_blanks() -> None:
    message = refusal("#!/bin/bash\n#SBATCH --job-name=lora rank 16\n#SBATCH --mem=24G\ntrue\n")
    assert message == "train.sh line 2: Invalid directive found in batch script: rank"
    spec, _, _ = read('#!/bin/bash\n#SBATCH --job-name="lora rank 16"\n#SBATCH --mem=24G\ntrue\n')
    assert (spec.name, spec.request.mem_per_node_mib) == ("lora rank 16", 24_576)


def test_a_p4_quotes_group_and_only_the_first_equals_separates() -> None:
    spec, warnings, _ = read(
        "#!/bin/bash\n#SBATCH --comment=\"stage=2 seed=7\" --constraint='a100|h100'\n#SBATCH --acctg-freq=task=30,energy=0\ntrue\n"
    )
    assert (spec.comment, spec.request.constraint) == ("stage=2 seed=7", "a100|h100")
    assert warnings == ["train.sh line 3: --acctg-freq has no effect yet"]


def test_a_p5_dos_line_breaks_are_refused() -> None:
    assert "line 1 has a DOS line break" in refusal("#!/bin/bash\r\n#SBATCH -t 5\r\nhostname\r\n")
    assert "line 3 has a DOS line break" in refusal("#!/bin/bash\n#SBATCH -t 5\nhostname\r\n")
    assert read("#!/bin/bash\necho a\rb\n")[0].name == "train.sh"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo hi\n", "#!"),
        ("", "is empty"),
        (" \n\t\n", "white space"),
        ("#!/bin/sh\necho a\0b\n", "NUL"),
        ("\n#!/bin/sh\n", "#!"),
    ],
)
def test_a_p6_what_could_not_run_is_refused(script: str, words: str) -> None:
    assert words in refusal(script)


def test_a_p6_the_size_is_capped() -> None:
    assert "at most" in refusal("#!/bin/sh\n" + "x" * 4 * 1024 * 1024)


def test_a_p7_here_documents_hold_no_directives() -> None:
    spec, warnings, _ = read(
        "#!/bin/bash\nDATA=/data/set1\n#SBATCH --mem=1G\ncat > sub.sh <<'EOS'\n#!/bin/bash\n#SBATCH --gres=gpu:8\nEOS\nsbatch sub.sh\n"
    )
    assert spec.request.mem_per_node_mib is None and spec.request.gpus_per_node == ()
    assert warnings


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--nice 50", "Invalid directive found in batch script: 50"),
        ("--exclusive user", "script: user"),
        ("-t=20", "no time limit"),
    ],
)
def test_a_p8_getopt_rules(line: str, words: str) -> None:
    assert words in refusal(f"#!/bin/sh\n#SBATCH {line}\ntrue\n")


def test_a_p8_what_is_right() -> None:
    spec, _, _ = read("#!/bin/sh\n#SBATCH --nice=50 --exclusive=user -t20 --job-na=short\ntrue\n")
    assert (spec.nice, spec.request.exclusive, spec.request.time_limit_s, spec.name) == (50, True, 1_200, "short")


def test_a_o5_gpus_per_task_needs_a_task_count() -> None:
    script = "#!/bin/sh\n#SBATCH {}\ntrue\n"
    assert "--ntasks" in refusal(script.format("-N 2-4 --gpus-per-task=1"))
    spec, _, _ = read(script.format("-n 6 --gpus-per-task=1"))
    assert spec.request.tasks == 6 and spec.request.gpus_per_task == (GpuCount(1),)
    assert read(script.format("--gpus=8 --gpus-per-task=2"))[0].request.tasks == 4


def test_a_f1_elements_that_share_a_file_are_warned_of() -> None:
    _, warnings, _ = read("#!/bin/sh\n#SBATCH --array=3-5 -o run.log\ntrue\n")
    assert "run.log" in warnings[0]
    assert read("#!/bin/sh\n#SBATCH --array=3-5 -o out/%3a.log\ntrue\n")[1] == []


def test_the_command_line_wins() -> None:
    spec, _, _ = read("#!/bin/sh\n#SBATCH -J inside -t 10 -p slow\ntrue\n", "--job-name=outside", "-t", "20")
    assert (spec.name, spec.request.time_limit_s, spec.partition) == ("outside", 1_200, "slow")


def test_refusals_name_line_and_option() -> None:
    assert refusal("#!/bin/sh\n\n#SBATCH --mem=12Q\ntrue\n").startswith(
        "train.sh line 3: --mem=12Q: '12Q' is no amount"
    )
    assert "command line: there is no option --colour" in refusal("#!/bin/sh\ntrue\n", "--colour=red")
    assert "train.sh line 2: --output needs a value" in refusal("#!/bin/sh\n#SBATCH --output\ntrue\n")
    assert "could be" in refusal("#!/bin/sh\n#SBATCH --n=2\ntrue\n")


def test_flagplot_lines_hold_our_own() -> None:
    spec, _, _ = read("#!/bin/sh\n#FLAGPLOT --vram=20G --launch=tasks\n#SBATCHX -c 3\ntrue\n")
    assert (spec.request.vram_mib, spec.request.launch, spec.request.cpus_per_task) == (20_480, "tasks", 1)


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        ("ALL", {"A": "1", "B": "2"}), ("NONE", {}), ("A", {"A": "1"}), ("B,C=3", {"B": "2", "C": "3"}),
        ("ALL,A=9", {"A": "9", "B": "2"}),
    ],
)  # fmt: skip
def test_export(export: str, expected: dict[str, str]) -> None:
    assert read("#!/bin/sh\ntrue\n", f"--export={export}", A="1", B="2")[2] == expected


def test_options_of_a_shared_cluster() -> None:
    spec, warnings, _ = read(
        "#!/bin/sh\n#SBATCH -L matlab:2,ansys@lic1,matlab -A physics -q long --reservation=course\n"
        "#SBATCH --switches=1@2:00:00 --contiguous -s --gpus=8 --cpus-per-gpu=4 --gres-flags=enforce-binding\ntrue\n"
    )
    request = spec.request
    assert (spec.account, spec.qos, spec.reservation) == ("physics", "long", "course")
    assert [word.split(": ")[1] for word in warnings] == ["--oversubscribe has no effect yet"]
    assert request.licenses == (LicenseCount("matlab", 3), LicenseCount("ansys@lic1"))
    assert (request.switches, request.switches_wait_s, request.contiguous) == (1, 7_200, True)
    assert (request.cpus_per_gpu, request.near_gpus, request.oversubscribe) == (4, True, True)


def test_the_later_of_contrary_options_wins() -> None:
    script = "#!/bin/sh\n#SBATCH --exclusive --gres-flags=enforce-binding -L matlab\ntrue\n"
    request = read(script)[0].request
    assert (request.exclusive, request.oversubscribe, request.near_gpus) == (True, False, True)
    request = read(script, "-s", "--gres-flags=disable-binding", "--licenses=")[0].request
    assert (request.exclusive, request.oversubscribe, request.near_gpus, request.licenses) == (False, True, False, ())
    request = read(script, "-s", "--exclusive")[0].request
    assert (request.exclusive, request.oversubscribe) == (True, False)


def test_gres_flags_without_effect_are_named() -> None:
    spec, warnings, _ = read("#!/bin/sh\n#SBATCH --gres-flags=enforce-binding,one-task-per-sharing\ntrue\n")
    assert spec.request.near_gpus
    assert warnings == ["train.sh line 2: --gres-flags=one-task-per-sharing has no effect yet"]
    for idle in ("--mincpus=4", "--hint=nomultithread", "--threads-per-core=1", "-B 2:8", "--time-min=10"):
        assert "has no effect yet" in read(f"#!/bin/sh\n#SBATCH {idle}\ntrue\n")[1][0], idle


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-L matlab:x", "names no licenses at 'matlab:x'"),
        ("-L 'a|b'", "any would do"),
        ("--switches=0", "at least 1"),
        ("--switches=2@soon", "'soon' is no time limit"),
        ("--gres-flags=near", "no GRES flag 'near'"),
        ("--cpus-per-gpu=4", "without whole GPUs"),
        ("--cpus-per-gpu=4 -G 1 -c 2", "only one of --cpus-per-task and --cpus-per-gpu"),
        ("--cpus-per-gpu=0 -G 1", "at least 1"),
        ("-C 'a&'", "train.sh line 2: -C a&: 'a&' is no constraint: a feature is missing (character 3)"),
        ("-N 4 -C '[rack1*2&rack2*4]'", "counts 6 nodes, more than the 4"),
    ],
)
def test_what_a_shared_cluster_refuses(options: str, words: str) -> None:
    assert words in refusal(f"#!/bin/sh\n#SBATCH {options}\ntrue\n")


def test_a_constraint_may_count_the_nodes_of_the_tasks() -> None:
    options = "-n 12 --ntasks-per-node=2 -C '[rack1*2&(rack2|rack3)*4]&!old'"
    spec, _, _ = read(f"#!/bin/sh\n#SBATCH {options}\ntrue\n")
    assert spec.request.constraint == "[rack1*2&(rack2|rack3)*4]&!old"


DRAFTS: dict[str, dict[str, str]] = {
    "--gres=shard:3": {"shards": "3"},
    "--vram=10G -t 1-0 -J x": {"vram": " 10G", "time": "1-0", "name": "x "},
    "-N 2-4 -n 8 --mem=2G --array=0-9%2": {"nodes": "2-4", "tasks": "8", "memory": "2G", "array": "0-9%2"},
    "--gpus-per-node=a100:2 -d afterok:3:4?singleton -p long -c 4 -o a.out -D /data": {
        "gpus": "a100:2", "dependency": "afterok:3:4?singleton", "partition": "long", "cpus": "4", "output": "a.out",
        "workdir": "/data",
    },
    "-A physics -q long --reservation=course -L matlab:2": {
        "account": "physics", "qos": "long", "reservation": "course", "licenses": "matlab:2",
    },
    "-C nvlink --nice=10 --exclusive": {"more": "--constraint='nvlink' --nice=10 --exclusive"},
}  # fmt: skip


@pytest.mark.parametrize("options", DRAFTS)
def test_the_forms_command_line_asks_for_the_same(options: str) -> None:
    script = "#!/bin/sh\ntrue\n"
    assert read(script, *options_of(DRAFTS[options])) == read(script, *options.split())


def test_every_field_of_the_form_was_tried() -> None:
    assert {name for draft in DRAFTS.values() for name in draft} == {field.name for field in FIELDS}


def test_wrap_makes_a_script_that_is_accepted() -> None:
    assert parse_script(wrap_script("echo hi"), "wrap").options == []


def test_a_script_that_is_not_utf8_is_refused_with_the_line_and_a_way_out() -> None:
    with pytest.raises(Refused) as refused:
        parse_script("#!/bin/sh\n# für Elise\ntrue\n".encode("latin-1"), "train.sh")
    assert "train.sh line 2 is not UTF-8 (byte 0xfc)" in refused.value.message
    assert "iconv" in refused.value.hint
