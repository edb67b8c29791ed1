"""What a plain `ssh` client gets: a terminal that follows its window, a clean environment, one person's rights."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from support.controller_rig import dial, until

from flagplotd.config import Config
from flagplotd.controller import Controller
from flagplotd.ssh import app
from flagplotd.ssh.keys import add_user_key, ensure_keypair, prepare

PROBE = r"""
import json, os, signal, socket, sys
from flagplot_wire import PROTOCOL_VERSION, replies, requests
from flagplot_wire.codec import Decoder, encode
line = socket.socket(fileno=int(os.environ["FLAGPLOT_FD"]))
line.sendall(encode(requests.Hello(PROTOCOL_VERSION, "0"), 1))
welcome = Decoder(replies.Reply).feed(line.recv(65536))[0][1]
tty = os.isatty(0)
told = {"user": welcome.user, "env": dict(os.environ), "args": sys.argv[1:], "tty": tty, "pid": os.getpid(),
        "session": os.getsid(0) == os.getppid() or os.getsid(0) == os.getpid(), "uid": os.getuid()}
if tty:
    told["size"] = list(os.get_terminal_size(0))
    told["front"] = os.tcgetpgrp(os.open("/dev/tty", os.O_RDWR)) == os.getpgrp()
# Not by print: the signal may come while the line below is being printed.
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, json.dumps(list(os.get_terminal_size(0))).encode() + b"\n"))
print(json.dumps(told), flush=True)
for text in sys.stdin:
    if text.strip() == "quit":
        sys.exit(5)
    print("got " + text.strip(), flush=True)
"""


@pytest.fixture
async def controller(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Controller]:
    folder = Path(tempfile.mkdtemp(prefix="fp-t-"))
    probe = folder / "probe.py"
    probe.write_text(PROBE)
    monkeypatch.setattr(app, "PROGRAM", [sys.executable, str(probe)])
    made = Controller(folder / "d", Config(), prepare(folder / "d"))
    await made.open()
    yield made
    await made.close()
    shutil.rmtree(folder)


@pytest.fixture
async def connection(controller: Controller) -> AsyncIterator[asyncssh.SSHClientConnection]:
    folder = controller.server.folder
    made = await dial(controller.server.port, folder / "keys" / "user_ed25519", folder)
    yield made
    made.close()
    await made.wait_closed()


async def line(process: Any) -> Any:
    """The next line that is JSON."""
    while True:
        text = (await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip()
        assert text, "the program ended"
        if text[0] in "[{":
            return json.loads(text)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_a_terminal(connection: asyncssh.SSHClientConnection) -> None:
    bad = {"LD_PRELOAD": "/x", "PYTHONPATH": "/x", "BASH_ENV": "/x", "LC_ALL": "C.UTF-8", "COLORTERM": "truecolor"}
    process = await connection.create_process(term_type="xterm-256color", term_size=(101, 31), env=bad, encoding=None)
    told = await line(process)
    assert told["tty"] and told["session"] and told["front"] and told["size"] == [101, 31]
    environment = told["env"]
    assert not {"LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "SSH_AUTH_SOCK"} & environment.keys()
    assert (environment["TERM"], environment["LC_ALL"], environment["COLORTERM"]) == (
        "xterm-256color", "C.UTF-8", "truecolor",
    )  # fmt: skip
    assert "FLAGPLOT_CONFINED" not in environment
    process.change_terminal_size(140, 50)
    assert await line(process) == [140, 50]
    process.stdin.write(b"quit\n")
    await asyncio.wait_for(process.wait(), 20)
    assert process.exit_status == 5


async def test_the_program_ends_with_the_client(connection: asyncssh.SSHClientConnection) -> None:
    process = await connection.create_process(term_type="xterm", term_size=(80, 24), encoding=None)
    pid = (await line(process))["pid"]
    assert alive(pid)
    connection.abort()
    await until(lambda: not alive(pid), 10, "the end of the program")


async def test_it_ends_though_the_controller_ignores_hangups(connection: asyncssh.SSHClientConnection) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = await connection.create_process(term_type="xterm", term_size=(80, 24), encoding=None)
        told = await line(process)
    finally:
        signal.signal(signal.SIGHUP, before)
    ignored = int(Path(f"/proc/{told['pid']}/status").read_text().partition("SigIgn:")[2].split()[0], 16)
    assert not ignored >> (signal.SIGHUP - 1) & 1 and not ignored >> (signal.SIGQUIT - 1) & 1
    connection.abort()
    await until(lambda: not alive(told["pid"]), 10, "the end of the program")


async def test_a_command_without_a_terminal(connection: asyncssh.SSHClientConnection) -> None:
    process = await connection.create_process("flagplot queue --user 'a b'", encoding=None)
    told = await line(process)
    assert told["args"] == ["queue", "--user", "a b"] and not told["tty"]
    process.stdin.write(b"hello\n")
    assert (await asyncio.wait_for(process.stdout.readline(), 10)) == b"got hello\n"
    process.stdin.write(b"quit\n")
    await asyncio.wait_for(process.wait(), 20)
    assert process.exit_status == 5


async def test_a_command_ends_with_the_client(connection: asyncssh.SSHClientConnection) -> None:
    process = await connection.create_process("flagplot logs -f 1", encoding=None)
    pid = (await line(process))["pid"]
    connection.abort()
    await until(lambda: not alive(pid), 10, "the end of the program")


async def test_no_terminal_and_no_command(connection: asyncssh.SSHClientConnection) -> None:
    done = await connection.run(check=False)
    assert done.exit_status == 2 and "needs a terminal" in str(done.stderr)


async def test_a_program_killed_by_a_signal(connection: asyncssh.SSHClientConnection) -> None:
    process = await connection.create_process("flagplot x", encoding=None)
    os.kill((await line(process))["pid"], signal.SIGKILL)
    await asyncio.wait_for(process.wait(), 20)
    assert process.exit_status == 255


async def test_people_who_are_not_users_here_are_confined(controller: Controller) -> None:
    folder = controller.server.folder
    ensure_keypair(folder / "zoe", "")
    add_user_key(folder, (folder / "zoe.pub").read_text(), "zoe-of-elsewhere")
    place = app.place_of(app.Who("zoe-of-elsewhere", 65_534))
    assert place.confined and (os.geteuid() != 0 or place.user == "nobody")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_root_becomes_the_user(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = controller.server.folder
    ensure_keypair(folder / "sys", "")
    add_user_key(folder, (folder / "sys.pub").read_text(), "daemon")
    monkeypatch.setattr(app, "PROGRAM", ["/usr/bin/id"])
    connection = await dial(controller.server.port, folder / "sys", folder)
    done = await connection.run("flagplot", check=False, term_type="xterm")
    assert "uid=1(daemon) gid=1(daemon) groups=1(daemon)" in str(done.stdout)
    monkeypatch.setattr(app, "PROGRAM", ["/root/not-for-you"])
    done = await connection.run("flagplot", check=False, term_type="xterm")
    assert done.exit_status == 1 and "cannot run" in str(done.stdout)
    connection.close()
