"""Real users of this machine, made for a test and removed after it."""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def person(name: str = "fp", groups: tuple[str, ...] = ("more",)) -> Iterator[pwd.struct_passwd]:
    """A user with a group of its own and supplementary ones; all names end in our pid."""
    user = f"{name}{os.getpid()}"
    extra = [f"{group}{os.getpid()}" for group in groups]
    made: list[list[str]] = []
    try:
        for group in extra:
            subprocess.run(["groupadd", group], check=True)
            made.append(["groupdel", group])
        words = ["-G", ",".join(extra)] if extra else []
        subprocess.run(["useradd", "--no-create-home", "--user-group", "-s", "/bin/sh", *words, user], check=True)
        made.append(["userdel", "-f", user])
        yield pwd.getpwnam(user)
    finally:
        for command in reversed(made):
            subprocess.run(command, check=False, capture_output=True)


def gid_of(group: str) -> int:
    """The number of a group that `person` made."""
    return grp.getgrnam(f"{group}{os.getpid()}").gr_gid
