"""Bad jobs on a real agent as a real user: each ends with the right state and a sentence, and leaves nothing behind."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from support.agent_fake_controller import Rig, opened_rig, until
from support.core_kit import Driver
from support.people import person

from flagplot_wire import agentlink as al
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, JobSpec, State
from flagplotd.core import stimuli as st

BASH = "#!/bin/bash\n"
OUTPUT_MIB = 300
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and to become them")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with opened_rig(for_people=True) as made:
        (made.folder / "site.toml").write_text("pids_max = 64\n")
        made.options = ["--config", str(made.folder / "site.toml")]
        await made.start()
        yield made


def judged(end: al.AttemptEnd) -> Job:
    """The job after the controller's core has heard of this end."""
    core = Driver()
    number = core.submit()
    core.start(number)
    core.confirm(number)
    fields = {name: getattr(end, name) for name in ("exit_code", "signal", "message")}
    core.do(st.AttemptEnded("n1", al.AttemptEnd(JobNumber(number), 1, end.cause, time=core.now, **fields)))
    return core.job(number)


def processes_of(uid: int) -> list[str]:
    done = subprocess.run(["ps", "-o", "pid=,stat=,args=", "-u", str(uid)], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if line.split()[1][0] != "Z"]


def gone_folder(rig: Rig) -> dict[str, Any]:
    (rig.work / "gone").mkdir()
    (rig.work / "gone").rmdir()
    return {"spec": JobSpec("j", str(rig.work / "gone"), stdout="%j.out")}


def closed_folder(rig: Rig) -> dict[str, Any]:
    (rig.work / "closed").mkdir(mode=0o755)
    return {"stdout": "closed/%j.out"}


Prepare = Callable[[Rig], dict[str, Any]]
TABLE: dict[str, tuple[str, Prepare | dict[str, Any], State, str]] = {
    "missing binary": (BASH + "no-such-binary\n", {}, State.FAILED, "a command was not found (exit code 127)"),
    "not executable": (BASH + "/etc/passwd\n", {}, State.FAILED, "a command could not be executed (exit code 126)"),
    "no interpreter": ("#!/no/such/shell\n:\n", {}, State.FAILED, "#! line"),
    "no shebang": ("echo hello\n", {}, State.FAILED, "#! line"),
    "CRLF": ("#!/bin/bash\r\necho hello\r\n", {}, State.FAILED, "DOS line break (CR LF)"),
    "folder gone": (BASH, gone_folder, State.FAILED, "cannot enter the working folder"),
    "output closed": (BASH, closed_folder, State.FAILED, "cannot open the output"),
    "fork bomb": (
        BASH + "bomb() { bomb | bomb & }\nbomb 2>/dev/null\nsleep 60\n", {"deadline_s": 2, "kill_wait_s": 1},
        State.TIMEOUT, "its limit of 64 processes and threads was reached",
    ),
    "ignores SIGTERM": (
        BASH + "trap '' TERM\nwhile :; do sleep 0.1; done\n", {"deadline_s": 1, "kill_wait_s": 1},
        State.TIMEOUT, "its time limit of 1 s was over; it did not end by SIGTERM and was killed",
    ),
    "nameless variable": (
        BASH, {"environment": {"": "x"}}, State.FAILED, "a path, argument or variable cannot be given to a program",
    ),
    "odd variable": (BASH, {"environment": {"A=B": "x"}}, State.FAILED, "illegal environment variable name"),
    "no memory to start in": (BASH, {"limits": {"AS": 4096}}, State.FAILED, ""),
    "no descriptors to start with": (BASH, {"limits": {"NOFILE": 0}}, State.FAILED, "exit code 127"),
    "limits without sense": (BASH, {"limits": {"NOFILE": -5, "CORE": 2**64 - 1}}, State.COMPLETED, ""),
    "much output": (BASH + f"head -c {OUTPUT_MIB}M /dev/zero\n", {}, State.COMPLETED, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
async def test_a_bad_job_ends_with_a_sentence(rig: Rig, alice: pwd.struct_passwd, name: str) -> None:
    script, prepare, state, sentence = TABLE[name]
    more = prepare(rig) if callable(prepare) else prepare
    rig.launch(1, script, user=alice.pw_name, uid=alice.pw_uid, gid=alice.pw_gid, **more)
    if name == "fork bomb" and "pids" not in (await rig.controller.started(1)).enforced:
        pytest.skip("this machine has no pids controller: a fork bomb is held by nothing")
    end = await rig.controller.end(1)
    job = judged(end)
    assert job.status.state is state and sentence in job.status.message, end
    assert bool(job.status.message) == bool(sentence)
    assert processes_of(alice.pw_uid) == []
    if name == "much output":
        assert (rig.work / "1.out").stat().st_size == OUTPUT_MIB << 20
    rig.launch(2, BASH + "echo fine\n", user=alice.pw_name, uid=alice.pw_uid, gid=alice.pw_gid)
    assert (await rig.controller.end(2)).exit_code == 0 and rig.out("2.out") == "fine\n"


async def test_a_user_that_no_longer_exists(rig: Rig) -> None:
    with person("fpc", groups=()) as gone:
        theirs = {"user": gone.pw_name, "uid": gone.pw_uid, "gid": gone.pw_gid}
        rig.launch(1, BASH + "sleep 1; id -u\n", **theirs)
        await rig.controller.started(1)
        subprocess.run(["userdel", "-f", gone.pw_name], check=True, capture_output=True)
        # What runs already goes on as the number that it is.
        assert (await rig.controller.end(1)).exit_code == 0 and rig.out("1.out") == f"{gone.pw_uid}\n"
        rig.launch(2, BASH, **theirs)
        job = judged(await rig.controller.end(2))
    assert job.status.state is State.FAILED
    assert job.status.message == f"there is no user {gone.pw_name} on this node"


async def test_the_agent_hears_while_a_job_writes_without_end(rig: Rig, alice: pwd.struct_passwd) -> None:
    script = BASH + "ulimit -f 200000\nwhile :; do cat /dev/zero; done 2>/dev/null\n"
    rig.launch(1, script, user=alice.pw_name, uid=alice.pw_uid, gid=alice.pw_gid, kill_wait_s=1)
    await rig.controller.started(1)
    await until(lambda: (rig.work / "1.out").exists() and (rig.work / "1.out").stat().st_size > 1 << 26)
    call = al.ReadFile(1, JobNumber(1), 1, "stdout", "", alice.pw_name, alice.pw_uid, alice.pw_gid, -10, 10)
    assert (await rig.controller.piece(call)).data == bytes(10)
    rig.controller.send(al.Stop(rig.controller.epoch, JobNumber(1), 1, 1, "CANCELLED"))
    assert (await rig.controller.end(1)).cause == "stopped"
