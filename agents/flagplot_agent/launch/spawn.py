"""Starting one process as the user. Standard library only; the caller must have a single thread.

The order is the one that others got wrong: session, limits, groups, gid, uid, verify, umask, and only then the
working folder and the outputs, opened as the user; a clean environment; exec.
"""

from __future__ import annotations

import errno
import os
import pwd
import signal
import socket
import stat
from typing import Any

USER_FAULT = "user: "


class LaunchError(Exception):
    """The process could not be started; the text says what and why."""


def spawn(recipe: dict[str, Any], task: dict[str, Any]) -> tuple[int, int]:
    """Start a task; returns its pid and a descriptor of its standard error. Raises `LaunchError`."""
    parent, child = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _become(recipe, task, child, parent)
    child.close()
    with parent:
        message, descriptors, _, _ = socket.recv_fds(parent, 4096, 1)
        rest = b"".join(iter(lambda: parent.recv(4096), b""))
    if message == b"ok" and not rest and descriptors:
        return pid, descriptors[0]
    for descriptor in descriptors:
        os.close(descriptor)
    os.waitpid(pid, 0)
    text = (message + rest).removeprefix(b"ok").decode("utf-8", "replace")
    raise LaunchError(text or "the process ended before it was started")


def _become(recipe: dict[str, Any], task: dict[str, Any], channel: socket.socket, other: socket.socket) -> None:
    """In the child: become the job, or report why not and exit. Never returns."""
    try:
        other.close()
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if recipe["cpus"]:
            os.sched_setaffinity(0, recipe["cpus"])
        _switch_user(recipe)
        os.umask(0o022)
        _enter(recipe["work_dir"])
        stdin = _open_input(task["stdin"])
        stdout = _open_output(task["stdout"], recipe["append"], "output", "-o")
        stderr = _open_output(task["stderr"], recipe["append"], "error file", "-e") if task["stderr"] else stdout
        for descriptor, target in ((stdin, 0), (stdout, 1), (stderr, 2)):
            os.dup2(descriptor, target, inheritable=True)
        socket.send_fds(channel, [b"ok"], [2])
        keep = channel.fileno()
        os.closerange(3, keep)
        os.closerange(keep + 1, 4096)
        os.execve(task["argv"][0], task["argv"], task["environment"])
    except LaunchError as wrong:
        channel.sendall(str(wrong).encode())
    except OSError as wrong:
        fault = USER_FAULT if wrong.errno in (errno.ENOENT, errno.ENOEXEC, errno.EACCES, errno.E2BIG) else ""
        what = "cannot execute the script (does its #! line name an interpreter that exists here?)"
        channel.sendall(f"{fault}{what}: {wrong.strerror}".encode("utf-8", "replace"))
    except BaseException as wrong:  # noqa: BLE001 - a forked child must never return into the keeper
        channel.sendall(f"{type(wrong).__name__}: {wrong}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _switch_user(recipe: dict[str, Any]) -> None:
    uid, gid = recipe["uid"], recipe["gid"]
    if os.getuid() != 0:
        if uid != os.getuid():
            raise LaunchError(f"{USER_FAULT}this agent runs jobs of {pwd.getpwuid(os.getuid()).pw_name} only")
        return
    if uid == 0:
        return
    try:
        groups = os.getgrouplist(recipe["user"], gid)
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as wrong:
        raise LaunchError(f"cannot become {recipe['user']}: {wrong.strerror}") from wrong
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise LaunchError(f"became someone other than {recipe['user']}")


def _enter(work_dir: str) -> None:
    try:
        os.chdir(work_dir)
    except OSError as wrong:
        raise LaunchError(f"{USER_FAULT}cannot enter the working folder {work_dir}: {wrong.strerror}") from wrong


def _open_input(path: str) -> int:
    try:
        descriptor = os.open(path or os.devnull, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as wrong:
        raise LaunchError(f"{USER_FAULT}cannot open the input {path}: {wrong.strerror}") from wrong
    os.set_blocking(descriptor, True)
    return descriptor


def _open_output(path: str, append: bool, what: str, option: str) -> int:
    # O_NONBLOCK keeps a FIFO without a reader from hanging the launch.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags, 0o666)
        kind = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISCHR(kind)):
            os.close(descriptor)
            raise LaunchError(f"{USER_FAULT}the {what} {path} is no regular file (change {option})")
        if not append and stat.S_ISREG(kind):
            os.ftruncate(descriptor, 0)
    except OSError as wrong:
        hint = f"create the folder, or change {option}" if wrong.errno == errno.ENOENT else f"change {option}"
        raise LaunchError(f"{USER_FAULT}cannot open the {what} {path}: {wrong.strerror} ({hint})") from wrong
    os.set_blocking(descriptor, True)
    return descriptor
