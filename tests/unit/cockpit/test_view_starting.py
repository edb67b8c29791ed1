"""What the submit form offers to start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import sample_cluster as sample

from flagplot.client.own_templates import load_templates, save_template
from flagplot.view.starting import JOBS, about, offers
from flagplot_wire.errors import Refused
from flagplot_wire.replies import Template
from flagplot_wire.templates import MAX_BYTES, MOST, offered


def test_own_then_site_then_the_last_jobs() -> None:
    jobs = sample.sample_mirror().jobs.values()
    found = offers([Template("mine.sh", "#!/bin/sh\n")], sample.SITE_TEMPLATES, jobs, "alice", sample.NOW)
    assert [(one.kind, one.key) for one in found[:4]] == [
        ("mine", "mine.sh"), ("site", "train-8gpu.sh"), ("site", "x[/red].sh"), ("job", "45"),
    ]  # fmt: skip
    assert found[1].words == "One node, all eight GPUs, torchrun."
    assert found[2].words == "[bold]loud␛[31m"
    assert found[3].words == "debug · GPUs 1/8 · 4h · running 2 min ago"
    own = [one.key for one in found if one.kind == "job"]
    assert 2 <= len(own) <= JOBS and all(job.user == "alice" for job in jobs if str(job.number) in own)
    assert [one.key for one in found if one.matches("SITE eight")] == ["train-8gpu.sh"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\n#SBATCH -N 2\n#\n#  Two  nodes \ntrue\n", "Two  nodes"),
        ("#!/bin/sh\ntrue\n# late\n", ""),
        ("#!/bin/sh", ""),
    ],
)
def test_what_a_script_says_of_itself(script: str, words: str) -> None:
    assert about(script) == words


def test_which_files_are_offered() -> None:
    long = b"#!" + b"x" * MAX_BYTES
    files = [
        ("b.sh", b"#!/bin/sh\n"),
        (".hidden", b"#!"),
        ("a", b"text"),
        ("c", b"#!\xff"),
        ("d", long),
        ("e", b"#!/x"),
    ]
    found = offered(files)
    assert [one.name for one in found.templates] == ["b.sh", "e"]
    assert len(found.problems) == 3 and found.problems[0].startswith("a: does not start")
    many = offered([(f"{n:04}", b"#!/bin/sh\n") for n in range(MOST + 5)])
    assert len(many.templates) == MOST and len(many.problems) == 1


def test_own_templates_are_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_templates().templates == ()
    path = save_template("train", "#!/bin/sh\ntrue\n")
    assert path.read_text() == "#!/bin/sh\ntrue\n" and [one.name for one in load_templates().templates] == ["train"]
    for name in ("", "../x", ".hidden", "a/b", "a b"):
        with pytest.raises(Refused):
            save_template(name, "#!/bin/sh\n")
    with pytest.raises(Refused):
        save_template("long", "#!" + "x" * MAX_BYTES)
    monkeypatch.setenv("FLAGPLOT_CONFINED", "1")
    assert load_templates().templates == ()
    with pytest.raises(Refused):
        save_template("train", "#!/bin/sh\n")
