"""The cockpit and the commands for a plain `ssh` client: a child process with that key's rights and nothing more."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pty
import shlex
import signal
import struct
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import asyncssh
from msgspec import Struct

from flagplotd.core.state import Who
from flagplotd.service.identity import NOBODY, local_user, name_of
from flagplotd.service.local import LocalSocket

log = logging.getLogger("flagplotd.ssh")

_CHILD = Path(__file__).with_name("child.py")
_PASSED = ("TERM", "LANG", "COLORTERM", "LANGUAGE")
_ENV_MAX = 256
PROGRAM = [sys.executable, "-P", "-m", "flagplot"]
Process = asyncssh.SSHServerProcess[bytes]


class Place(Struct, frozen=True):
    """As whom (empty: as the controller) and where an app runs, and whether it must leave files alone."""

    user: str
    home: str
    confined: bool


def place_of(who: Who) -> Place:
    """Root becomes the user; an ordinary controller cannot, and confines people who are not its own user."""
    account = local_user(who.user)
    own = name_of(os.geteuid())
    if account is not None and who.user == own:
        return Place("", account.pw_dir, False)
    if os.geteuid() != 0:
        return Place("", "/", True)
    if account is not None and account.pw_uid != 0:
        return Place(account.pw_name, account.pw_dir, False)
    return Place(name_of(NOBODY), "/", True)


def environment(process: Process, place: Place, fd: int) -> dict[str, str]:
    """A clean environment: what a terminal needs, and the connection."""
    kept = {
        str(name): str(value)[:_ENV_MAX]
        for name, value in process.env.items()
        if (name in _PASSED or str(name).startswith("LC_")) and str(value).isprintable()
    }
    kept.setdefault("LANG", "C.UTF-8")
    if process.term_type:
        kept["TERM"] = process.term_type[:_ENV_MAX]
    kept |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": place.home, "FLAGPLOT_FD": str(fd)}
    if place.confined:
        kept["FLAGPLOT_CONFINED"] = "1"
    return kept


def arguments(command: str | None) -> list[str] | None:
    """What follows `flagplot`; None for a command that is not ours."""
    if command is None:
        return []
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return words[1:] if words and words[0] == "flagplot" else None


async def run_app(process: Process, local: LocalSocket, who: Who) -> None:
    """Serve one session: the cockpit on a pty, or one command."""
    args = arguments(process.command)
    if args is None:
        await _refuse(process, "only flagplot's own commands run here, such as: ssh ... flagplot queue")
        return
    if not args and process.term_type is None:
        await _refuse(process, "the cockpit needs a terminal: use ssh -t, or name a command such as flagplot queue")
        return
    place = place_of(who)
    theirs = await local.pair(who)
    try:
        os.set_inheritable(theirs.fileno(), True)
        if process.term_type is not None:
            await _on_pty(process, place, args, theirs.fileno(), theirs.close)
        else:
            await _on_pipes(process, place, args, theirs.fileno(), theirs.close)
    finally:
        theirs.close()


async def _refuse(process: Process, sentence: str) -> None:
    process.stderr.write(f"flagplot: {sentence}\r\n".encode())
    process.exit(2)


def _argv(place: Place, args: list[str], tty: bool) -> list[str]:
    helper = [sys.executable, "-I", "-S", str(_CHILD), str(int(tty)), place.user, place.home, "--"]
    return [*helper, *PROGRAM, *args]


async def _on_pty(process: Process, place: Place, args: list[str], fd: int, started: Callable[[], None]) -> None:
    master, slave = pty.openpty()
    try:
        _resize(master, process.term_size)
        if place.user:
            account = local_user(place.user)
            if account is not None:
                os.fchown(slave, account.pw_uid, account.pw_gid)
        child = await asyncio.create_subprocess_exec(
            *_argv(place, args, True),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(process, place, fd),
            pass_fds=(fd,),
            start_new_session=True,
        )
    except OSError:
        os.close(master)
        raise
    finally:
        os.close(slave)
    started()
    os.set_blocking(master, False)
    copying = [asyncio.create_task(_to_client(master, process)), asyncio.create_task(_from_client(master, process))]
    try:
        await _until_end(child, copying[1])
        await asyncio.wait(copying[:1], timeout=2)
    finally:
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)
        await _end(child)
        os.close(master)
        _exit(process, child)


async def _until_end(child: asyncio.subprocess.Process, client: asyncio.Task[None]) -> None:
    ended = asyncio.create_task(child.wait())
    await asyncio.wait((ended, client), return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        ended.cancel()


async def _end(child: asyncio.subprocess.Process) -> None:
    """End the whole process group: first HUP as a terminal does, then KILL."""
    for number, patience in ((signal.SIGHUP, 2.0), (signal.SIGKILL, 5.0)):
        if child.returncode is not None:
            return
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            async with asyncio.timeout(patience):
                await child.wait()
        except TimeoutError:
            continue


def _exit(process: Process, child: asyncio.subprocess.Process) -> None:
    code = child.returncode
    if not process.is_closing():
        process.exit(code if code is not None and 0 <= code < 256 else 255)


def _resize(master: int, size: tuple[int, int, int, int] | None) -> None:
    columns, rows, width, height = size or (80, 24, 0, 0)
    cells = [min(max(value, 0), 65_535) for value in (rows or 24, columns or 80, height, width)]
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *cells))


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


async def _ready(fd: int, *, writing: bool = False) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(fd, _set, done)
    try:
        await done
    finally:
        remove(fd)


async def _to_client(master: int, process: Process) -> None:
    while True:
        try:
            data = os.read(master, 65_536)
        except BlockingIOError:
            await _ready(master)
            continue
        except OSError:
            return
        if not data:
            return
        process.stdout.write(data)
        await process.stdout.drain()


async def _from_client(master: int, process: Process) -> None:
    """Keys and new window sizes, until the client leaves."""
    while True:
        try:
            data = await process.stdin.read(4_096)
        except asyncssh.TerminalSizeChanged as size:
            _resize(master, (size.width, size.height, size.pixwidth, size.pixheight))
            continue
        except asyncssh.BreakReceived:
            data = b"\x03"
        except asyncssh.SignalReceived as got:
            data = {"INT": b"\x03", "QUIT": b"\x1c"}.get(got.signal, b"")
        if not data:
            if process.stdin.at_eof():
                return
            continue
        while data:
            try:
                data = data[os.write(master, data) :]
            except BlockingIOError:
                await _ready(master, writing=True)
            except OSError:
                return


async def _on_pipes(process: Process, place: Place, args: list[str], fd: int, started: Callable[[], None]) -> None:
    child = await asyncio.create_subprocess_exec(
        *_argv(place, args, False),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(process, place, fd),
        pass_fds=(fd,),
        start_new_session=True,
    )
    started()
    assert child.stdin and child.stdout and child.stderr
    feeding = asyncio.create_task(_feed(process, child.stdin))
    out = [
        asyncio.create_task(_copy(child.stdout, process.stdout)),
        asyncio.create_task(_copy(child.stderr, process.stderr)),
    ]
    gone = asyncio.create_task(process.wait_closed())
    try:
        await asyncio.wait((gone, asyncio.ensure_future(asyncio.gather(*out))), return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            await child.wait()
    finally:
        for task in (feeding, gone, *out):
            task.cancel()
        await asyncio.gather(feeding, gone, *out, return_exceptions=True)
        await _end(child)
        _exit(process, child)


async def _feed(process: Process, stdin: asyncio.StreamWriter) -> None:
    try:
        while data := await process.stdin.read(65_536):
            stdin.write(data)
            await stdin.drain()
    except (ConnectionError, asyncssh.SignalReceived, asyncssh.BreakReceived) as ended:
        log.debug("the input of a command ended: %s", ended)
    finally:
        stdin.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncssh.SSHWriter[bytes]) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
