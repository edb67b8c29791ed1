"""A root agent becomes the submitting user, whole, before it touches anything of theirs; an ordinary one says so."""

from __future__ import annotations

import os
import pwd
import resource
from collections.abc import AsyncIterator

import pytest
from support.agent_fake_controller import Rig, opened_rig
from support.people import gid_of

from flagplot_wire.job import JobSpec

BASH = "#!/bin/bash\n"
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and to become them")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with opened_rig(for_people=True) as made:
        yield made


def whose(user: pwd.struct_passwd) -> dict[str, object]:
    return {"user": user.pw_name, "uid": user.pw_uid, "gid": user.pw_gid}


async def test_uid_groups_umask_limits_and_environment(rig: Rig, alice: pwd.struct_passwd) -> None:
    os.environ["FLAGPLOT_TEST_SECRET"] = "of the agent"
    try:
        await rig.start()
    finally:
        del os.environ["FLAGPLOT_TEST_SECRET"]
    script = (
        BASH + "id -ru; id -rg; id -G; umask; ulimit -Sn; ulimit -Sc; ulimit -Hn; grep Cap /proc/self/status\nenv\n"
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = {"NOFILE": 77, "CORE": 0, "NOSUCH": 1}
    rig.launch(1, script + "touch made\n", **whose(alice), umask=0o027, limits=limits)
    end = await rig.controller.end(1)
    assert (end.cause, end.exit_code) == ("exited", 0), end.message
    lines = rig.out("1.out").splitlines()
    groups = {alice.pw_gid, gid_of("more")}
    assert lines[:2] == [str(alice.pw_uid), str(alice.pw_gid)] and set(map(int, lines[2].split())) == groups
    assert lines[3:7] == ["0027", "77", "0", "unlimited" if hard < 0 else str(hard)]
    capabilities = {line.split()[0]: int(line.split()[1], 16) for line in lines[7:12]}
    assert capabilities["CapEff:"] == capabilities["CapPrm:"] == capabilities["CapAmb:"] == 0
    found = dict(line.split("=", 1) for line in lines[12:] if "=" in line)
    assert "FLAGPLOT_TEST_SECRET" not in found and "PYTHONPATH" not in found
    assert (found["HOME"], found["USER"], found["LOGNAME"]) == (alice.pw_dir, alice.pw_name, alice.pw_name)
    made, output = (rig.work / "made").stat(), (rig.work / "1.out").stat()
    assert made.st_uid == output.st_uid == alice.pw_uid and made.st_gid == alice.pw_gid
    assert made.st_mode & 0o777 == output.st_mode & 0o777 == 0o640


async def test_a_limit_above_the_nodes_hard_one_is_cut_to_it(rig: Rig, alice: pwd.struct_passwd) -> None:
    rig.run_as = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))}
    await rig.start()
    rig.launch(1, BASH + "ulimit -Sn\n", **whose(alice), limits={"NOFILE": -1})
    assert (await rig.controller.end(1)).exit_code == 0 and rig.out("1.out") == "512\n"


async def test_links_lead_nowhere_that_the_user_may_not_go(rig: Rig, alice: pwd.struct_passwd) -> None:
    await rig.start()
    secret = rig.folder / "secret"
    secret.write_text("root's\n")
    secret.chmod(0o600)
    (rig.work / "1.out").symlink_to(secret)
    (rig.work / "in").symlink_to(secret)
    closed = rig.folder / "closed"
    closed.mkdir(mode=0o700)
    (rig.work / "way").symlink_to(closed)
    theirs = {**whose(alice)}
    rig.launch(1, BASH + "echo overwritten\n", **theirs)
    spec = JobSpec("j", str(rig.work), stdin=str(rig.work / "in"), stdout="2.out")
    rig.launch(2, BASH + "cat\n", **theirs, spec=spec)
    rig.launch(3, BASH, **theirs, stdout="way/3.out")
    rig.launch(4, BASH, **theirs, spec=JobSpec("j", str(closed), stdout="/dev/null"))
    rig.launch(5, BASH, **theirs, stdout=str(rig.agent_dir / "jobs/5.out"))
    for number, words in ((1, "cannot open the output"), (2, "cannot open the input"), (3, "cannot open the output"),
                          (4, "cannot enter the working folder"), (5, "cannot open the output")):  # fmt: skip
        end = await rig.controller.end(number)
        assert end.cause == "launch_failed" and words in end.message and "Permission denied" in end.message
        assert end.message.startswith("user: ")
    assert secret.read_text() == "root's\n" and not list(closed.iterdir())


async def test_nobody_becomes_root_by_a_mistake(rig: Rig, alice: pwd.struct_passwd) -> None:
    await rig.start()
    script = BASH + "id -u >ran\n"
    rig.launch(1, script, user="root", uid=alice.pw_uid)
    rig.launch(2, script, user=alice.pw_name, uid=0)
    rig.launch(3, script, user="gone-from-here", uid=alice.pw_uid)
    for number in (1, 2, 3):
        end = await rig.controller.end(number)
        assert end.cause == "launch_failed" and end.message.startswith("user: ")
    assert not rig.out("ran")


async def test_an_ordinary_agent_runs_all_as_itself_and_says_so(rig: Rig, alice: pwd.struct_passwd) -> None:
    rig.agent_dir.mkdir()
    os.chown(rig.agent_dir, alice.pw_uid, alice.pw_gid)
    os.chown(rig.folder / "agent", alice.pw_uid, -1)
    # The capability is for reading the tests' interpreter, which may lie in root's home.
    rig.prefix = ["setpriv", f"--reuid={alice.pw_uid}", f"--regid={alice.pw_gid}", "--clear-groups",
                  "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # fmt: skip
    await rig.start()
    assert rig.controller.hellos[0].user == alice.pw_name
    rig.launch(1, BASH + "id -u\n", user="bob", uid=4711)
    rig.launch(2, BASH + "id -u\n", **whose(alice))
    started = await rig.controller.started(1)
    assert f"runs as {alice.pw_name}, not as bob: this node's agent is not root" in started.notes
    assert not [note for note in (await rig.controller.started(2)).notes if "runs as" in note]
    for number in (1, 2):
        assert (await rig.controller.end(number)).exit_code == 0
        assert rig.out(f"{number}.out") == f"{alice.pw_uid}\n"
