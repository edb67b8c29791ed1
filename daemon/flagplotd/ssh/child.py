"""Run by path with `python -I -S`: take the terminal, become the user, then exec. Nothing but the standard library.

Arguments: TTY(0|1) USER("" to stay) FOLDER -- PROGRAM ARG...  The environment is the program's.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios


def become(name: str) -> None:
    """All groups, gid and uid of the user, checked; never goes on as somebody else."""
    import pwd

    account = pwd.getpwnam(name)
    os.initgroups(account.pw_name, account.pw_gid)
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    if os.getresuid() != (account.pw_uid,) * 3 or os.getresgid() != (account.pw_gid,) * 3:
        raise SystemExit("flagplot: could not become the user")


def hear_signals() -> None:
    """A controller may have been told to ignore some (nohup): the program must hear that its terminal is gone."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """See the module."""
    tty, user, folder, _, *program = sys.argv[1:]
    hear_signals()
    if tty == "1":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if user:
        become(user)
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")
    try:
        os.execv(program[0], program)
    except OSError as wrong:
        raise SystemExit(f"flagplot: cannot run {program[0]}: {wrong.strerror}") from wrong


if __name__ == "__main__":
    main()
