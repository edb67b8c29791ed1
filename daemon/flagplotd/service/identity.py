"""From a user name or a uid to `Who`: roles come from the key, the configuration and the data directory's owner."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from flagplotd.config import Config
from flagplotd.core.state import Who

NOBODY = 65_534


def local_user(name: str) -> pwd.struct_passwd | None:
    """The account of this name on this machine."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def name_of(uid: int) -> str:
    """The account name of a uid, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def who_is_uid(uid: int, gid: int, config: Config, folder: Path) -> Who:
    """Somebody on the unix socket, known by the kernel's word."""
    name = name_of(uid)
    owner = uid == 0 or uid == folder.stat().st_uid
    return Who(name, uid, gid, _roles(name, config, ("admin",) if owner else ()))


def who_is_user(name: str, granted: tuple[str, ...], config: Config) -> Who:
    """Somebody with an SSH key that is theirs. Users unknown to this machine get the controller's own uid where it
    runs as an ordinary user (jobs run as that user anyway), otherwise nobody's."""
    account = local_user(name)
    if account is not None:
        uid, gid = account.pw_uid, account.pw_gid
    elif os.geteuid() == 0:
        uid, gid = NOBODY, NOBODY
    else:
        uid, gid = os.geteuid(), os.getegid()
    return Who(name, uid, gid, _roles(name, config, granted))


def _roles(name: str, config: Config, granted: tuple[str, ...]) -> tuple[str, ...]:
    roles = {"user", *granted}
    if name in config.admins:
        roles.add("admin")
    if name in config.operators:
        roles.add("operator")
    return tuple(role for role in ("user", "operator", "admin") if role in roles)
