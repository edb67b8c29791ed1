"""Prolog, epilog, task prolog and plugins on a real agent: when, as whom, with what, and what their failures do."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.agent_fake_controller import Rig, alive, part, until
from support.core_kit import Driver
from support.people import person

from flagplot_agent.launch.hookwords import obey_task_prolog
from flagplot_wire import agentlink as al
from flagplot_wire.alloc import Allocation
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import State

BASH = "#!/bin/bash\n"
PLUGIN = """
import json, pathlib
LEDGER = pathlib.Path(__file__).with_name("ledger")
def note(*words):
    with LEDGER.open("a") as file: file.write(json.dumps(words) + "\\n")
class Plugin:
    def before_launch(self, job):
        note("before", job["number"], job["user"], job["gpus"])
        if job["number"] == 13: raise ValueError("unlucky\\x1b number")
    def environment(self, job, environment):
        return {**environment, "FROM_PLUGIN": str(job["attempt"])}
    def after_end(self, job, end):
        note("after", job["number"], end["cause"], end["exit_code"])
"""


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    folder = Path(tempfile.mkdtemp(prefix="flagplot-h-"))
    made = Rig(folder)
    folder.chmod(0o711)
    made.work.chmod(0o777)
    await made.controller.open()
    yield made
    await made.close()
    shutil.rmtree(folder)


@pytest.fixture
def alice() -> Iterator[pwd.struct_passwd]:
    with person("fph") as made:
        yield made


def hook(rig: Rig, name: str, script: str) -> str:
    path = rig.folder / name
    path.write_text(BASH + script)
    path.chmod(0o755)
    return f'["{path}"]'


def configure(rig: Rig, **lines: str) -> None:
    text = "[hooks]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())
    (rig.folder / "site.toml").write_text(text)
    rig.options = ["--config", str(rig.folder / "site.toml")]


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def test_order_identity_and_environment(rig: Rig, request: pytest.FixtureRequest) -> None:
    root = os.getuid() == 0
    user = request.getfixturevalue("alice") if root else pwd.getpwuid(os.getuid())
    ledger = rig.work / "ledger"
    configure(
        rig,
        prolog=hook(
            rig, "prolog", f"echo prolog $(id -u) $(pwd) >>{ledger}; chmod 666 {ledger}; env >{rig.folder}/env"
        ),
        epilog=hook(
            rig,
            "epilog",
            f"echo epilog $(id -u) $SLURM_JOB_EXIT_CODE2 $FLAGPLOT_JOB_CAUSE >>{ledger}; env >{rig.folder}/env2",
        ),
        task_prolog=hook(
            rig,
            "task",
            f"echo task $(id -u) $SLURM_PROCID >>{ledger}\necho print hello from the prolog\necho export MADE=a=b\necho unset DOOMED\necho nonsense",
        ),
    )
    await rig.start()
    theirs = {"user": user.pw_name, "uid": user.pw_uid, "gid": user.pw_gid}
    environment = {"DOOMED": "1", "BASH_ENV": "/no/such", "LD_PRELOAD": ""}
    rig.launch(
        1, BASH + f"echo job >>{ledger}; echo $MADE ${{DOOMED-gone}}; exit 7\n", environment=environment, **theirs
    )
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code, end.drain) == ("exited", 7, "")
    own = os.getuid()
    assert ledger.read_text().splitlines() == [
        f"prolog {own} /", f"task {user.pw_uid} 0", "job", f"epilog {own} 7:0 exited",
    ]  # fmt: skip
    assert rig.out("1.out") == "hello from the prolog\na=b gone\n"
    found = dict(line.split("=", 1) for line in read(rig.folder / "env").splitlines())
    assert (found["SLURM_JOB_ID"], found["SLURM_JOB_USER"], found["SLURM_JOB_UID"]) == (
        "1",
        user.pw_name,
        str(user.pw_uid),
    )
    assert found["SLURM_SCRIPT_CONTEXT"] == "prolog_slurmd" and found["SLURM_JOB_WORK_DIR"] == str(rig.work)
    assert not {"DOOMED", "BASH_ENV", "LD_PRELOAD", "HOME", "MADE"} & set(found)
    after = dict(line.split("=", 1) for line in read(rig.folder / "env2").splitlines())
    assert after["SLURM_JOB_EXIT_CODE"] == str(7 << 8) and after["SLURM_SCRIPT_CONTEXT"] == "epilog_slurmd"


async def test_hooks_run_on_a_node_without_tasks_too(rig: Rig) -> None:
    ledger = rig.work / "ledger"
    configure(
        rig, prolog=hook(rig, "p", f"echo p $SLURM_NODEID >>{ledger}"), epilog=hook(rig, "e", f"echo e >>{ledger}")
    )
    await rig.start()
    rig.launch(1, BASH, allocation=Allocation((part("gpu00"), part("gpu01"))), node_index=1)
    await rig.controller.started(1)
    assert ledger.read_text() == "p 1\n"
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 1))
    assert (await rig.controller.end(1)).cause == "stopped" and ledger.read_text() == "p 1\ne\n"


async def test_a_failing_prolog_drains_the_node_and_the_job_goes_elsewhere(rig: Rig) -> None:
    configure(rig, prolog=hook(rig, "prolog", "echo no such mount >&2; exit 3"))
    await rig.start()
    rig.launch(1, BASH + "echo never >ran\n")
    end = await rig.controller.end(1)
    assert end.cause == "launch_failed" and end.drain == end.message
    assert end.message == f"prolog {rig.folder}/prolog failed with exit code 3: no such mount" and not rig.out("ran")
    core = Driver()
    number = core.submit()
    core.start(number)
    core.end(number, cause=end.cause, message=end.message, drain=end.drain)
    assert core.job(number).status.state is State.PENDING and core.job(number).status.restarts == 1
    drain = core.state.nodes["n1"].drain
    assert drain is not None and "no such mount" in drain.reason and core.replayed().nodes == core.state.nodes


async def test_a_failing_epilog_drains_the_node_and_leaves_the_jobs_end(rig: Rig) -> None:
    configure(rig, epilog=hook(rig, "epilog", "kill -9 $$"))
    await rig.start()
    rig.launch(1, BASH + "exit 4\n")
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code) == ("exited", 4) and end.drain.endswith("epilog was killed by signal 9")
    core = Driver()
    number = core.submit()
    core.start(number)
    core.end(number, exit_code=4, drain=end.drain)
    assert core.job(number).status.state is State.FAILED and core.state.nodes["n1"].drain is not None


@pytest.mark.parametrize("which", ["prolog", "task_prolog"])
async def test_a_hook_that_hangs_is_ended_with_its_children(rig: Rig, which: str) -> None:
    configure(rig, **{which: hook(rig, "slow", f"echo $$ >{rig.work}/pid; sleep 305.25")}, timeout_s="1")
    await rig.start()
    rig.launch(1, BASH)
    end = await rig.controller.end(1)
    assert end.cause == "launch_failed" and "did not end within 1 s" in end.message
    await until(lambda: not alive(int(rig.out("pid"))), 10, "the end of the hook")


async def test_a_cancelled_job_does_not_wait_for_its_prolog(rig: Rig) -> None:
    configure(rig, prolog=hook(rig, "slow", f"touch {rig.work}/begun; sleep 306.25"))
    await rig.start()
    rig.launch(1, BASH + "echo never >ran\n")
    await until((rig.work / "begun").exists)
    began = time.monotonic()
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 30))
    assert (await rig.controller.end(1)).cause == "stopped" and time.monotonic() - began < 5
    assert not rig.out("ran")


async def test_an_agent_killed_meanwhile_runs_what_is_left(rig: Rig) -> None:
    gate, ledger = rig.work / "gate", rig.work / "ledger"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    configure(rig, prolog=hook(rig, "p", f"echo p >>{ledger}; {wait}"), epilog=hook(rig, "e", f"echo e >>{ledger}"))
    await rig.start()
    rig.launch(1, BASH + f"echo job >>{ledger}; sleep 1; exit 5\n")
    await until(lambda: "p\n" in read(ledger))
    rig.kill()
    await rig.start()
    await until(lambda: read(ledger) == "p\np\n")
    gate.touch()
    await until(lambda: "job" in read(ledger))
    rig.kill()
    await until((rig.agent_dir / "jobs/1.1/end.json").exists)
    assert "e\n" not in ledger.read_text()
    await rig.start()
    assert (await rig.controller.end(1)).exit_code == 5
    assert ledger.read_text() == "p\np\njob\ne\n"
    rig.kill()
    await rig.start()
    rig.launch(2, BASH)
    await rig.controller.end(2)
    assert ledger.read_text() == "p\np\njob\ne\np\ne\n"


async def test_a_plugin_of_an_installed_distribution(rig: Rig) -> None:
    site = rig.folder / "site-packages"
    info = site / "flagplot_trial-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "flagplot_trial.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flagplot-trial\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[flagplot.agent.plugins]\ntrial = flagplot_trial:Plugin\n")
    paths = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    rig.run_as = {"env": {**os.environ, "PYTHONPATH": paths}}
    await rig.start()
    rig.launch(1, BASH + 'echo "$FROM_PLUGIN"; exit 2\n')
    assert (await rig.controller.end(1)).exit_code == 2 and rig.out("1.out") == "1\n"
    rig.launch(13, BASH + "echo never >ran\n")
    end = await rig.controller.end(13)
    assert (
        end.cause == "launch_failed"
        and end.message == "plugin trial: ValueError: unlucky\u241b number"
        and not end.drain
    )
    user = pwd.getpwuid(os.getuid()).pw_name
    assert (site / "ledger").read_text().splitlines() == [
        f'["before", 1, "{user}", []]', '["after", 1, "exited", 2]', f'["before", 13, "{user}", []]',
        '["after", 13, "launch_failed", 0]',
    ]  # fmt: skip
    assert not rig.out("ran")


def test_what_a_task_prolog_may_say() -> None:
    said = (
        "export A=1\nexport B = x\nexport 9=no\nexport C\nprint  two  words\nunset D\nexport A=2 3\nexport =x\nprint\n"
    )
    after, lines = obey_task_prolog(said, {"D": "1", "E": "1"})
    assert after == {"E": "1", "A": "2 3", "B": " x"} and lines == [" two  words", ""]
