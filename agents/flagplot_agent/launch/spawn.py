"""Starting one process as the user. Standard library only; the caller must have a single thread.

The order is the one that others got wrong: control group, session, groups, gid, uid, verify, umask, and only
then the working folder and the outputs, opened as the user; a clean environment; limits; exec. The parent never waits:
a file system that hangs holds up one job, not the keeper.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import ctypes
import errno
import fcntl
import os
import pwd
import resource
import signal
import socket
import stat
import struct
import termios
import time
from functools import cache
from typing import Any, NoReturn

from flagplot_agent.launch.taskprolog import run_task_prolog

USER_FAULT = "user: "
_BUSY_TRIES = 20
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_MPOL_BIND = 2
_MASK_BITS = 64
_MOST = 2**63 - 1
_HANDLED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_DEFAULT = int(signal.SIG_DFL)
_INPUT = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""O_NONBLOCK keeps a FIFO without a reader from hanging the launch."""
_RIGHTS = socket.CMSG_LEN(struct.calcsize("i"))
_STDERR = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 2))]


class LaunchError(Exception):
    """The process could not be started; the text says what and why."""


class Starting:
    """A process that was forked and has not yet reached, or failed to reach, its program.

    `channel` becomes readable when there is news; then call `advance`.
    """

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self._text = b""
        self._descriptors: list[int] = []

    def advance(self) -> bool:
        """Read what the process says; True once it has executed its program or given up."""
        while True:
            try:
                data, control, _, _ = self.channel.recvmsg(4096, _RIGHTS, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return False
            except OSError:
                return True
            if not data:
                return True
            self._descriptors += [struct.unpack("i", sent)[0] for *_, sent in control]
            self._text += data

    def result(self) -> int:
        """A descriptor of its standard error; raises `LaunchError`. Closes the channel."""
        self.channel.close()
        if self._text == b"ok" and self._descriptors:
            return self._descriptors.pop()
        while self._descriptors:
            os.close(self._descriptors.pop())
        text = self._text.removeprefix(b"ok").decode("utf-8", "replace")
        raise LaunchError(text or "the process ended before it was started")


def begin(recipe: dict[str, Any], task: dict[str, Any], joins: list[str]) -> Starting:
    """Fork a task into the control groups whose `cgroup.procs` are `joins`; raises OSError."""
    held = _held()
    parent, child = socket.socketpair()
    # A signal that comes before the child has let go of our handlers waits until it has: they would swallow it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        pid = os.fork()
        if pid == 0:
            _become(recipe, task, joins, child, held)
    except OSError:
        parent.close()
        child.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
    child.close()
    parent.setblocking(False)
    return Starting(pid, parent)


def _become(
    recipe: dict[str, Any], task: dict[str, Any], joins: list[str], channel: socket.socket, held: tuple[int, ...]
) -> None:
    """In the child: become the job, or report why not and exit. Never returns.

    Every page that is touched here is copied, so that it does as little as it can by itself."""
    try:
        _join(joins)
        os.setsid()
        _reset_signals(held)
        if recipe["cpus"]:
            os.sched_setaffinity(0, recipe["cpus"])
        if recipe.get("mems"):
            _bind_memory(recipe["mems"])
        script = -1 if "program" in task else _open_script(recipe, task["argv"][0])
        if recipe.get("task_prolog"):
            # The user may not be able to read the interpreter's files.
            import subprocess  # noqa: F401
        _switch_user(recipe)
        os.umask(recipe.get("umask", 0o022))
        _enter(recipe["work_dir"])
        for target, descriptor in enumerate(_open_all(recipe, task)):
            os.dup2(descriptor, target, inheritable=True)
        if recipe.get("pty"):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        channel.sendmsg([b"ok"], _STDERR)
        _close_all_but(channel.fileno(), script)
        if recipe.get("task_prolog"):
            program, limit_s = recipe["task_prolog"]
            environment, why = run_task_prolog(program, limit_s, task["environment"])
            if why:
                raise LaunchError(why)
            task = {**task, "environment": environment}
        # Last of all: a small limit is for the job, and must not break the way there.
        _limit(recipe.get("limits", {}))
        _execute(task, script)
    except LaunchError as wrong:
        channel.sendall(str(wrong).encode("utf-8", "replace"))
    except MemoryError:
        channel.sendall(
            f"{USER_FAULT}no program can start within the memory limits (ulimit -v, -d) it brought".encode()
        )
    except ValueError as wrong:
        words = f"{USER_FAULT}a path, argument or variable cannot be given to a program: {wrong}"
        channel.sendall(words.encode("utf-8", "replace"))
    except BaseException as wrong:  # noqa: BLE001 - a forked child must never return into the keeper
        channel.sendall(f"{type(wrong).__name__}: {wrong}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _open_all(recipe: dict[str, Any], task: dict[str, Any]) -> tuple[int, int, int]:
    """Input, output and error: those that a step has got already (`descriptors`, else -1), or files."""
    stdin, stdout, stderr = task.get("descriptors", (-1, -1, -1))
    if stdin < 0:
        stdin = _open_input(task["stdin"])
    if stdout < 0:
        stdout = _open_output(task["stdout"], recipe["append"], "output", "-o")
    if stderr < 0:
        stderr = _open_output(task["stderr"], recipe["append"], "error file", "-e") if task["stderr"] else stdout
    return stdin, stdout, stderr


def _join(joins: list[str]) -> None:
    for path in joins:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, b"0")
            os.close(descriptor)
        except OSError as wrong:
            raise LaunchError(f"cannot join the control group {path}: {wrong.strerror}") from wrong


@cache
def _held() -> tuple[int, ...]:
    """Signals that this process ignores or handles. What it handles later the kernel lets go of by itself."""
    possible = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return tuple(int(number) for number in possible if signal.getsignal(number) not in (signal.SIG_DFL, None))


def _reset_signals(held: tuple[int, ...]) -> None:
    # Below `signal`, whose enumerations would take longer than all the rest that a child does.
    _signal.set_wakeup_fd(-1)
    for number in held:
        _signal.signal(number, _DEFAULT)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _close_all_but(*kept: int) -> None:
    low = 3
    for descriptor in sorted(kept):
        if descriptor >= low:
            os.closerange(low, descriptor)
            low = descriptor + 1
    os.closerange(low, 4096)


def _bind_memory(mems: list[int]) -> None:
    """Take memory from these NUMA nodes alone, also where no cpuset says so."""
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        return
    mask = ctypes.c_ulong(sum(1 << node for node in mems if node < _MASK_BITS))
    if ctypes.CDLL(None, use_errno=True).syscall(
        ctypes.c_long(number), _MPOL_BIND, ctypes.byref(mask), ctypes.c_ulong(_MASK_BITS + 1)
    ):
        wrong = ctypes.get_errno()
        raise LaunchError(f"cannot bind its memory to NUMA nodes {mems}: {os.strerror(wrong)}")


def _limit(limits: dict[str, int]) -> None:
    """The submitter's soft limits, as far as this node's hard limits go."""
    for name, wanted in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        if not 0 <= wanted <= _MOST:
            wanted = resource.RLIM_INFINITY
        within = wanted if hard == resource.RLIM_INFINITY else hard if wanted < 0 else min(wanted, hard)
        resource.setrlimit(kind, (within, hard))


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


def _open_script(recipe: dict[str, Any], path: str) -> int:
    """A descriptor of the script where the user may not be able to walk to it, otherwise -1."""
    if os.getuid() != 0 or recipe["uid"] == 0:
        return -1
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as wrong:
        raise LaunchError(f"cannot open the script {path}: {wrong.strerror}") from wrong


def _execute(task: dict[str, Any], script: int) -> None:
    """Execute the script by its path; by its descriptor where a folder on the way is closed to the user."""
    argv, environment = task["argv"], task["environment"]
    if "program" in task:
        _execute_step(task["program"], argv, environment)
    program: str | int = argv[0]
    if script >= 0:
        if os.access(argv[0], os.X_OK):
            os.close(script)
        else:
            os.set_inheritable(script, True)
            program = script
    for tries in range(_BUSY_TRIES):
        try:
            os.execve(program, argv, environment)
        except OSError as wrong:
            if wrong.errno == errno.ETXTBSY and tries + 1 < _BUSY_TRIES:
                # Another process was forked while the script was being written, and has not executed yet.
                time.sleep(0.01)
                continue
            fault = USER_FAULT if wrong.errno in (errno.ENOENT, errno.ENOEXEC, errno.EACCES, errno.E2BIG) else ""
            what = "cannot execute the script (does its #! line name an interpreter that exists here?)"
            if wrong.errno == errno.E2BIG:
                what = "cannot execute the script (its arguments and environment are too long)"
            raise LaunchError(f"{fault}{what}: {wrong.strerror}") from wrong


def _execute_step(program: str, argv: list[str], environment: dict[str, str]) -> NoReturn:
    """Execute a step's program, looked for in its `PATH`."""
    try:
        os.execvpe(program, argv, environment)
    except OSError as wrong:
        fault = USER_FAULT if wrong.errno in (errno.ENOENT, errno.ENOEXEC, errno.EACCES, errno.E2BIG) else ""
        raise LaunchError(f"{fault}cannot execute {program}: {wrong.strerror}") from wrong


def _enter(work_dir: str) -> None:
    try:
        os.chdir(work_dir)
    except OSError as wrong:
        raise LaunchError(f"{USER_FAULT}cannot enter the working folder {work_dir}: {wrong.strerror}") from wrong


def _open_input(path: str) -> int:
    try:
        descriptor = os.open(path or os.devnull, _INPUT)
    except OSError as wrong:
        raise LaunchError(f"{USER_FAULT}cannot open the input {path}: {wrong.strerror}") from wrong
    os.set_blocking(descriptor, True)
    return descriptor


def _open_output(path: str, append: bool, what: str, option: str) -> int:
    try:
        descriptor = os.open(path, _OUTPUT, 0o666)
        kind = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISCHR(kind)):
            raise LaunchError(f"{USER_FAULT}the {what} {path} is no regular file (change {option})")
        if not append and stat.S_ISREG(kind):
            os.ftruncate(descriptor, 0)
    except OSError as wrong:
        hint = f"create the folder, or change {option}" if wrong.errno == errno.ENOENT else f"change {option}"
        raise LaunchError(f"{USER_FAULT}cannot open the {what} {path}: {wrong.strerror} ({hint})") from wrong
    os.set_blocking(descriptor, True)
    return descriptor
