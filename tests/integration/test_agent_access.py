"""The helper of pam_exec beside a real agent: who is let in, into which job, and that every doubt refuses."""

from __future__ import annotations

import ctypes.util
import os
import pwd
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.agent_fake_controller import Rig, alive, opened_rig, until

from flagplot_wire import agentlink as al
from flagplot_wire.ids import Epoch, JobNumber

BASH = "#!/bin/bash\n"
MAN = Path(__file__).parents[2] / "man/flagplot-agent.8"
PAM_LOGIN = Path(__file__).parents[1] / "support/pam_login.py"
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and to become them")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with opened_rig(for_people=True) as made:
        await made.start()
        yield made


def helper(rig: Rig, *more: str) -> list[str]:
    return [sys.executable, "-m", "flagplot_agent.main", "pam-check", "--dir", str(rig.agent_dir), *more]


def check(rig: Rig, user: str, *more: str, kind: str = "account") -> tuple[int, str]:
    environment = {**os.environ, "PAM_USER": user, "PAM_TYPE": kind, "PAM_SERVICE": "sshd", "PAM_RHOST": "::1"}
    # A shell between us and the helper: it would put its parent, the test, into the job.
    command = ["sh", "-c", '"$@"; exit $?', "sh", *helper(rig, *more)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stderr


def server(rig: Rig, user: str) -> subprocess.Popen[str]:
    """In place of an SSH server: asks by the helper, then becomes the login."""
    script = 'command=$1; shift; "$command" "$@" || exit 77; echo in; exec sleep 307.25'
    environment = {**os.environ, "PAM_USER": user, "PAM_TYPE": "open_session"}
    return subprocess.Popen(
        ["sh", "-c", script, "sh", *helper(rig)], env=environment, stdout=subprocess.PIPE, stderr=2, text=True
    )


async def test_who_has_no_job_is_refused(rig: Rig, alice: pwd.struct_passwd) -> None:
    assert check(rig, alice.pw_name) == (
        6, f"flagplot-agent: access denied: {alice.pw_name} has no running job on this node\n"
    )  # fmt: skip
    code, words = check(rig, "no-such-user")
    assert code == 6 and "there is no user 'no-such-user'" in words
    assert check(rig, "")[0] == 2 and check(rig, "root") == (0, "")
    config = rig.folder / "strict.toml"
    config.write_text('[access]\nexempt = ["ops"]\n')
    assert check(rig, "root", "--config", str(config))[0] == 6
    config.write_text("[access]\nexempt = 7\n")
    assert check(rig, "root", "--config", str(config))[0] == 2
    assert check(rig, "root", "--config", str(rig.folder / "absent.toml"))[0] == 2


async def test_a_login_is_in_the_newest_job_and_ends_with_it(rig: Rig, alice: pwd.struct_passwd) -> None:
    theirs = {"user": alice.pw_name, "uid": alice.pw_uid, "gid": alice.pw_gid}
    rig.launch(1, BASH + "sleep 308.25\n", **theirs)
    started = await rig.controller.started(1)
    await until(lambda: rig.out("1.out") == "")
    if "pids" not in started.enforced:
        pytest.skip(f"this machine has no control groups to hold a login in: {started.notes}")
    rig.launch(2, BASH + "sleep 309.25\n", **theirs)
    await rig.controller.started(2)
    login = server(rig, alice.pw_name)
    try:
        assert login.stdout is not None and login.stdout.readline() == "in\n"
        groups = Path(f"/proc/{login.pid}/cgroup").read_text()
        assert "/2.1\n" in groups and "/1.1\n" not in groups
        rig.controller.send(al.Stop(Epoch(1), JobNumber(2), 1, 1))
        assert (await rig.controller.end(2)).cause == "stopped"
        assert login.wait(20) < 0
    finally:
        login.kill()
        login.wait()
    assert check(rig, alice.pw_name, kind="close_session")[0] == 0
    rig.controller.send(al.Stop(Epoch(1), JobNumber(1), 1, 1))
    await rig.controller.end(1)
    assert check(rig, alice.pw_name)[0] == 6


async def test_without_its_agent_nobody_is_let_in(rig: Rig, alice: pwd.struct_passwd) -> None:
    rig.launch(1, BASH + "sleep 310.25\n", user=alice.pw_name, uid=alice.pw_uid, gid=alice.pw_gid)
    await rig.controller.started(1)
    rig.kill()
    login = server(rig, alice.pw_name)
    assert login.wait(20) == 77 and not alive(login.pid)
    code, words = check(rig, alice.pw_name)
    assert code == 9 and "does not answer" in words and check(rig, "root")[0] == 0
    await rig.start()
    assert check(rig, alice.pw_name)[0] == 0


async def test_only_root_asks_the_agent(rig: Rig, alice: pwd.struct_passwd) -> None:
    path = rig.agent_dir / "access.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)
    code = (
        f"import socket\ns = socket.socket(1)\ns.settimeout(10)\ns.connect({str(path)!r})\n"
        "try: s.sendall(b'0\\n'); print(s.recv(99))\nexcept OSError: print(b'')"
    )
    done = subprocess.run(
        ["setpriv", f"--reuid={alice.pw_uid}", "--clear-groups", "--inh-caps=+dac_read_search",
         "--ambient-caps=+dac_read_search", sys.executable, "-c", code],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.stdout == "b''\n", done


def pam_lines(rig: Rig) -> str:
    """The lines of the manual page, with this test's program and folder in them."""
    page = MAN.read_text().replace("\\-", "-")
    found = re.findall(r"^(?:account|session) required pam_exec\.so .*pam-check.*$", page, re.MULTILINE)
    assert [line.split()[0] for line in found] == ["account", "session"]
    # PAM hands no variables of the server on, and there is nothing installed to find.
    command = " ".join(["/usr/bin/env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", *helper(rig)])
    return "".join(re.sub(r"/usr/bin/flagplot-agent .*", lambda _: command, line) + "\n" for line in found)


def pam_login(rig: Rig, user: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PAM_LOGIN), str(rig.folder), "flagplot-test", user]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=2, text=True)


async def test_the_documented_lines_under_real_pam(rig: Rig, alice: pwd.struct_passwd) -> None:
    if ctypes.util.find_library("pam") is None or not list(Path("/").glob("lib/*/security/pam_exec.so")):
        pytest.skip("this machine has no PAM with pam_exec.so")
    lines = pam_lines(rig)
    (rig.folder / "flagplot-test").write_text(lines)
    refused = pam_login(rig, alice.pw_name)
    words = refused.communicate(timeout=20)[0]
    assert words.startswith("account ") and f"{alice.pw_name} has no running job on this node" in words, words
    rig.launch(1, BASH + "sleep 313.25\n", user=alice.pw_name, uid=alice.pw_uid, gid=alice.pw_gid)
    started = await rig.controller.started(1)
    if "pids" not in started.enforced:
        pytest.skip(f"this machine has no control groups to hold a login in: {started.notes}")
    for phase in ("account", "session"):
        # Each line alone puts the login where it belongs.
        other = "session" if phase == "account" else "account"
        kept = "".join(line for line in lines.splitlines(True) if line.startswith(phase))
        (rig.folder / "flagplot-test").write_text(f"{kept}{other} required pam_permit.so\n")
        login = pam_login(rig, alice.pw_name)
        try:
            assert login.stdout is not None and login.stdout.readline() == "in\n"
            assert "/1.1\n" in Path(f"/proc/{login.pid}/cgroup").read_text()
        finally:
            login.kill()
            login.communicate()
    rig.kill()
    (rig.folder / "flagplot-test").write_text(lines)
    assert "does not answer" in pam_login(rig, alice.pw_name).communicate(timeout=20)[0]
    await rig.start()
