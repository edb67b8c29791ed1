"""Prolog, epilog, task prolog and plugins around real jobs of a real agent and keeper."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.agent_fake_controller import Rig, alive, opened_rig, until

from flagplot_wire import agentlink as al
from flagplot_wire.alloc import Allocation, NodeAlloc
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import Request

BASH = "#!/bin/bash\n"
ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
PLUGIN = """
from pathlib import Path

from flagplot_agent.hooks.plugin import Plugin


class Recorder(Plugin):
    def before_launch(self, job):
        if job.name == "job13":
            raise RuntimeError("thirteen is not started here")
        self.note(f"before {job.number}.{job.attempt} of {job.name} on {job.node}, {job.facts['SLURM_JOB_PARTITION']}")

    def environment(self, job, environment):
        return {"FROM_PLUGIN": f"{job.number} on {job.node}", "REMOVE_ME": None}

    def after_end(self, job, end):
        self.note(f"after {job.number}.{job.attempt}: {end.cause} {end.exit_code}")

    def note(self, line):
        with open(Path(__file__).with_name("notes"), "a") as file:
            print(line, file=file)
"""


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with opened_rig() as made:
        made.folder.chmod(0o755)
        made.agent_dir.mkdir()
        yield made


def program(rig: Rig, name: str, text: str) -> str:
    """Write a site's program; returns its path."""
    path = rig.folder / name
    path.write_text(BASH + text)
    path.chmod(0o755)
    return str(path)


async def start(rig: Rig, **hooks: str | int | list[str]) -> None:
    """Start the agent with these `[hooks]`."""
    lines = [f"{key} = {value!r}" for key, value in hooks.items()]
    (rig.agent_dir / "agent.toml").write_text("\n".join(["[hooks]", *lines]) + "\n")
    await rig.start()


async def test_prolog_job_epilog_in_this_order_with_clean_environments(rig: Rig) -> None:
    trail = rig.folder / "trail"
    line = 'echo "$SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $SLURM_JOB_PARTITION ${SECRET-clean} $(id -u) $PWD'
    prolog = program(rig, "prolog", f'{line}" >>{trail}\n')
    second = program(rig, "second", f"sleep 0.3; echo second >>{trail}\n")
    epilog = program(rig, "epilog", f'sleep 0.3; {line} $FLAGPLOT_CAUSE $FLAGPLOT_EXIT_CODE" >>{trail}\n')
    await start(rig, prolog=[prolog, second], epilog=[epilog])
    rig.launch(41, BASH + f"echo job >>{trail}; exit 7\n", environment={"SECRET": "user", "BASH_ENV": "/tmp/none"})
    end = await rig.controller.end(41)
    assert (end.cause, end.exit_code, end.drain, end.message) == ("exited", 7, "", "")
    uid = os.getuid()
    assert trail.read_text().splitlines() == [
        f"prolog_slurmd 41 gpu clean {uid} /", "second", "job", f"epilog_slurmd 41 gpu clean {uid} / exited 7"
    ]  # fmt: skip


async def test_a_node_without_tasks_has_its_prolog_too(rig: Rig) -> None:
    trail = rig.folder / "trail"
    await start(
        rig,
        prolog=[program(rig, "prolog", f"echo $SLURM_NODEID of $SLURM_JOB_NODELIST >>{trail}\n")],
        epilog=[program(rig, "epilog", f"echo $FLAGPLOT_CAUSE >>{trail}\n")],
    )
    nodes = Allocation((NodeAlloc("n1", 1, "62", 0), NodeAlloc("gpu01", 1, "62", 0)))
    rig.launch(1, BASH + "exit 1\n", allocation=nodes, node_index=1)
    await rig.controller.started(1)
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 0))
    assert (await rig.controller.end(1)).cause == "stopped"
    assert trail.read_text() == "1 of gpu01,n1\nstopped\n" or trail.read_text() == "1 of n1,gpu01\nstopped\n"


async def test_a_failing_prolog_starts_nothing_and_drains(rig: Rig) -> None:
    prolog = program(rig, "prolog", "echo setting up; echo no scratch here >&2; exit 3\n")
    epilog = program(rig, "epilog", f"echo $FLAGPLOT_CAUSE >{rig.folder}/cleaned\n")
    await start(rig, prolog=[prolog], epilog=[epilog])
    rig.launch(1, BASH + "echo ran\n")
    end = await rig.controller.end(1)
    assert end.cause == "launch_failed" and rig.out("1.out") == ""
    assert end.message == end.drain == f"prolog {prolog} ended with exit code 3: no scratch here"
    assert (rig.folder / "cleaned").read_text() == "launch_failed\n"


async def test_a_prolog_that_hangs_is_killed_with_all_it_started(rig: Rig) -> None:
    pids = rig.folder / "pids"
    prolog = program(rig, "prolog", f"sleep 307 & echo $! $$ >{pids}; wait\n")
    await start(rig, prolog=[prolog], timeout_s=1)
    rig.launch(1, BASH + "echo ran\n")
    end = await rig.controller.end(1)
    assert end.cause == "launch_failed" and end.drain == f"prolog {prolog} did not end within 1 s"
    left = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: not any(alive(pid) for pid in left), 10, "the end of the prolog's processes")


async def test_a_failing_epilog_drains_and_leaves_the_end_as_it_was(rig: Rig) -> None:
    epilog = program(rig, "epilog", "exit 1\n")
    await start(rig, epilog=[epilog])
    rig.launch(1, BASH + "exit 0\n")
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code) == ("exited", 0)
    assert end.drain == f"epilog {epilog} ended with exit code 1"


async def test_a_job_stopped_during_its_prolog_never_runs(rig: Rig) -> None:
    gate = rig.folder / "gate"
    prolog = program(rig, "prolog", f"touch {gate}.open; while [ ! -e {gate} ]; do sleep 0.02; done\n")
    await start(rig, prolog=[prolog])
    rig.launch(1, BASH + "echo ran\n")
    await until(lambda: Path(f"{gate}.open").exists(), 20, "the prolog")
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 0, "CANCELLED BY ada"))
    rig.launch(2, BASH + "echo two\n")
    await until((rig.agent_dir / "jobs/2.1.hooks/hook.json").exists, 20, "the second prolog")
    gate.touch()
    end = await rig.controller.end(1)
    assert (end.cause, end.message) == ("stopped", "CANCELLED BY ada") and rig.out("1.out") == ""
    assert (await rig.controller.end(2)).exit_code == 0 and rig.out("2.out") == "two\n"


async def test_an_agent_killed_in_prolog_and_epilog_goes_on_with_them(rig: Rig) -> None:
    trail, pids = rig.folder / "trail", rig.folder / "pids"
    hold = "if [ ! -e {0} ]; then echo $$ >>{1}; echo held >>{2}; while [ ! -e {0} ]; do sleep 0.02; done; fi\n"
    gates = [rig.folder / "gate1", rig.folder / "gate2"]
    prolog = program(rig, "prolog", hold.format(gates[0], pids, trail) + f"echo prolog >>{trail}\n")
    epilog = program(rig, "epilog", hold.format(gates[1], pids, trail) + f"echo epilog >>{trail}\n")
    await start(rig, prolog=[prolog], epilog=[epilog])
    rig.launch(1, BASH + f"echo job >>{trail}\n")
    for words, gate in (("held", gates[0]), ("held\nprolog\njob\nheld", gates[1])):
        await until(lambda words=words: trail.exists() and trail.read_text().strip() == words, 20, words)
        await until((rig.agent_dir / "jobs/1.1.hooks/hook.json").exists, 10, "the note of the program")
        rig.kill()
        left = int(pids.read_text().split()[-1])
        assert alive(left)
        trail.write_text(words.removesuffix("held"))
        await rig.start()
        await until(lambda left=left: not alive(left), 10, "the end of the program that the killed agent left")
        await until(lambda words=words: trail.read_text().strip() == words, 20, f"{words} again")
        gate.touch()
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code, end.drain) == ("exited", 0, "")
    assert trail.read_text().split() == ["held", "prolog", "job", "held", "epilog"]


async def test_the_task_prolog_shapes_the_environment_of_every_task(rig: Rig) -> None:
    task_prolog = program(
        rig, "task", 'echo "export SCRATCH=/scratch/$SLURM_JOB_ID.$SLURM_PROCID"\necho "print hello from $(id -un)"\n'
        'echo "unset SECRET"\necho "nothing to see"\n',
    )  # fmt: skip
    await start(rig, task_prolog=task_prolog)
    nodes = Allocation((NodeAlloc("gpu01", 2, "62-63", 0, (), 2),))
    script = BASH + 'echo "$SCRATCH ${SECRET-unset} $PWD"\n'
    rig.launch(
        5, script, allocation=nodes, request=Request(launch="tasks"), stdout="%j-%t.out", environment={"SECRET": "1"}
    )
    assert (await rig.controller.end(5)).exit_code == 0
    import pwd

    me = pwd.getpwuid(os.getuid()).pw_name
    for rank in (0, 1):
        assert rig.out(f"5-{rank}.out") == f"hello from {me}\n/scratch/5.{rank} unset {rig.work}\n"


@ROOT_ONLY
async def test_the_task_prolog_is_the_users_and_prolog_is_roots(rig: Rig) -> None:
    me = program(rig, "prolog", f"id -un >{rig.folder}/who\n")
    await start(rig, prolog=[me], task_prolog=program(rig, "task", 'echo "print $(id -un) $(id -gn)"\n'))
    rig.work.chmod(0o777)
    import pwd

    nobody = pwd.getpwnam("nobody")
    rig.launch(1, BASH + "id -un\n", user="nobody", uid=nobody.pw_uid)
    assert (await rig.controller.end(1)).exit_code == 0, rig.log()
    assert rig.out("1.out").split() == ["nobody", "nogroup", "nobody"]
    assert (rig.folder / "who").read_text() == "root\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [("exit 9\n", "ended with exit code 9"), ("exec sleep 30\n", "did not end within 1 s")],
)
async def test_a_failing_task_prolog_starts_nothing(rig: Rig, text: str, words: str) -> None:
    task = program(rig, "task", text)
    await start(rig, task_prolog=task, task_prolog_timeout_s=1)
    rig.launch(1, BASH + "echo ran\n")
    end = await rig.controller.end(1)
    assert (end.cause, end.drain) == ("launch_failed", "") and rig.out("1.out") == ""
    assert end.message == f"the task prolog {task} {words}"


def install_plugin(rig: Rig, monkeypatch: pytest.MonkeyPatch, text: str = PLUGIN) -> Path:
    """Make a small distribution with an entry point and put it on the agent's path."""
    site = rig.folder / "site"
    info = site / "flagplot_recorder-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flagplot-recorder\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[flagplot.agent.plugins]\nrecorder = flagplot_recorder:Recorder\n")
    (site / "flagplot_recorder.py").write_text(text)
    inherited = os.environ.get("PYTHONPATH") or os.pathsep.join(path for path in sys.path if path)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{inherited}")
    return site / "notes"


async def test_a_plugin_sees_start_environment_and_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = install_plugin(rig, monkeypatch)
    await start(rig)
    rig.launch(1, BASH + 'echo "$FROM_PLUGIN ${REMOVE_ME-removed}"; exit 4\n', environment={"REMOVE_ME": "x"})
    assert (await rig.controller.end(1)).exit_code == 4
    assert rig.out("1.out") == "1 on gpu01 removed\n"
    assert notes.read_text().splitlines() == ["before 1.1 of job1 on gpu01, gpu", "after 1.1: exited 4"]
    rig.launch(13, BASH + "echo ran\n")
    end = await rig.controller.end(13)
    assert (end.cause, end.drain) == ("launch_failed", "") and rig.out("13.out") == ""
    assert end.message == "plugin recorder: before_launch: RuntimeError: thirteen is not started here"
    assert notes.read_text().splitlines()[-1] == "after 13.1: launch_failed 0"


async def test_a_plugin_that_cannot_be_loaded_starts_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugin(rig, monkeypatch, "import no_such_module_here\n")
    await start(rig)
    rig.launch(1, BASH + "echo ran\n")
    end = await rig.controller.end(1)
    assert end.cause == "launch_failed" and rig.out("1.out") == ""
    assert end.message.startswith("plugin recorder: cannot be loaded: ModuleNotFoundError: No module named")


async def test_plugins_that_were_not_asked_for_stay_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = install_plugin(rig, monkeypatch)
    await start(rig, plugins=[])
    rig.launch(1, BASH + 'echo "${FROM_PLUGIN-none}"\n')
    assert (await rig.controller.end(1)).exit_code == 0
    assert rig.out("1.out") == "none\n" and not notes.exists()
