"""Who a job runs as on this node."""

from __future__ import annotations

import os
import pwd

from flagplot_agent.launch.recipe import Account
from flagplot_wire.agentlink import Launch
from flagplot_wire.errors import Refused


def account_of(launch: Launch) -> Account:
    """Who the job runs as here: the submitter by name; an ordinary agent runs as itself."""
    if os.getuid() != 0:
        own = pwd.getpwuid(os.getuid())
        return Account(own.pw_name, own.pw_uid, own.pw_gid, own.pw_dir, own.pw_shell or "/bin/sh")
    try:
        found = pwd.getpwnam(launch.user)
    except KeyError as missing:
        raise Refused("no_user", f"user: there is no user {launch.user} on this node") from missing
    if found.pw_uid != launch.uid:
        raise Refused("no_user", f"user: {launch.user} has uid {found.pw_uid} here, and {launch.uid} at the controller")
    return Account(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir, found.pw_shell or "/bin/sh")
