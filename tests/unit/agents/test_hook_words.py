"""What hooks are told, and what their words do."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.agent_fake_controller import part

from flagplot_agent.hooks.programs import why_not
from flagplot_agent.hooks.words import changed, first_line, hook_end, hook_job, last_line, program_environment
from flagplot_agent.launch.recipe import Account
from flagplot_agent.launch.taskprolog import apply_lines
from flagplot_agent.settings import HookSettings, read_settings
from flagplot_agent.telemetry.simulated import SimulatedGpus, Simulation, inventory_of
from flagplot_wire.agentlink import Launch
from flagplot_wire.alloc import Allocation, GpuPart
from flagplot_wire.errors import Refused
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import JobSpec, Payload, Request

HOSTILE = {
    "LD_PRELOAD": "/tmp/x.so",
    "BASH_ENV": "/tmp/x",
    "PATH": "/tmp",
    "SLURM_JOB_ID": "1",
    "SPANK_X": "y",
    "IFS": "/",
}


def test_lines_act_as_slurms() -> None:
    output = (
        "export A=1\nexport B=two words = more\nexport  C = x\nunset OLD\nunset  GONE \nprint hello there\n"
        "print \nechoed\nexport NONE\nexport =x\nexporting D=1\n"
    )
    found, texts = apply_lines({"OLD": "1", "KEPT": "1", "A": "0"}, output)
    assert found == {"KEPT": "1", "A": "1", "B": "two words = more", "C": " x"}
    assert texts == ["hello there", ""]


def test_nothing_that_the_user_set_reaches_prolog_and_epilog() -> None:
    inventory = inventory_of("n1", Simulation(gpus=[SimulatedGpus("h100", 2, 81920)]), "boot", "6.1", "Debian")
    allocation = Allocation((part("n1", gpus=(GpuPart(1, 8, 8, "h100", inventory.gpus[1].uuid),)),))
    spec = JobSpec("train", "/home/ada", Request(), partition="gpu")
    launch = Launch(
        Epoch(1),
        JobNumber(41),
        2,
        "ada",
        1001,
        1001,
        spec,
        Payload("#!/bin/sh\n", environment=HOSTILE),
        allocation,
        0,
        0,
    )
    job = hook_job(launch, inventory, Account("ada", 1001, 1001, "/home/ada", "/bin/sh"), 1_000_000)
    found = program_environment(job, "prolog")
    assert not {"LD_PRELOAD", "BASH_ENV", "SPANK_X", "IFS", "SLURM_PROCID", "FLAGPLOT_JOB_ID"} & found.keys()
    assert found["PATH"].startswith("/usr/local/sbin:") and found["SLURM_JOB_ID"] == "41"
    assert (found["SLURM_JOB_USER"], found["SLURM_JOB_UID"], found["FLAGPLOT_ATTEMPT"]) == ("ada", "1001", "2")
    assert found["SLURM_SCRIPT_CONTEXT"] == "prolog_slurmd"
    assert found["CUDA_VISIBLE_DEVICES"] == job.gpus[0] == inventory.gpus[1].uuid
    end = program_environment(job, "epilog", hook_end({"cause": "exited", "exit_code": 3}))
    assert (end["FLAGPLOT_CAUSE"], end["FLAGPLOT_EXIT_CODE"], end["SLURM_JOB_EXIT_CODE"]) == ("exited", "3", "768")
    assert msgspec.convert(msgspec.to_builtins(job), type(job)) == job


def test_what_a_plugin_may_change() -> None:
    assert changed({"A": "1", "B": "2"}, {"A": None, "C": "3"}) == {"B": "2", "C": "3"}
    for wrong in ({"A=B": "1"}, {"": "1"}, {"A": "\0"}, {"A": 1}):
        with pytest.raises(ValueError, match=r"set|texts"):
            changed({}, wrong)  # type: ignore[arg-type]


def test_lines_for_sentences() -> None:
    assert (first_line("\n a \nb\n\n"), last_line("\n a \nb\n\n"), last_line(" \n")) == ("a", "b", "")


def test_programs_that_others_can_write_are_not_run(tmp_path: Path) -> None:
    program = tmp_path / "prolog"
    assert why_not(program) == "cannot be run: No such file or directory"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert why_not(program) == "" and why_not(tmp_path) == "is no regular file"
    program.chmod(0o757)
    assert "written by everybody" in why_not(program)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[hooks]\nprolog = ['bin/x']\n", "prolog: 'bin/x' is no absolute path"),
        ("[hooks]\ntimeout_s = 0\n", "timeout_s = 0: write at least 1"),
        ("[hooks]\ntask_prolog_timeout_s = 50\n", "at most 45"),
        ("[hook]\n", "unknown field `hook`"),
        ("[health]\nresume = 'yes'\n", "Invalid enum value 'yes'"),
        ("[[health.disks]]\npath = '/'\nmin_free_percent = 101\n", "min_free_percent from 0 to 100"),
        ("hooks = [", "Invalid value"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    with pytest.raises(Refused) as refused:
        read_settings(path, required=False)
    assert str(path) in refused.value.message and words in refused.value.message


def test_no_settings_are_no_hooks(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "agent.toml", required=False).hooks == HookSettings()
    with pytest.raises(Refused, match="no such file"):
        read_settings(tmp_path / "agent.toml", required=True)
