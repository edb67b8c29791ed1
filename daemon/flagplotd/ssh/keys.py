"""The data directory's keys: the host's own, and who may log in with which. Files are read again when changed."""

from __future__ import annotations

import os
from pathlib import Path

import asyncssh
from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplotd.service.identity import name_of

ROLES = ("user", "operator", "admin")


class Grant(Struct, frozen=True):
    """What one key is: somebody with roles, or the nodes an agent may speak for."""

    user: str = ""
    roles: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class KeyFile:
    """An authorized_keys file with our options; unreadable lines are refused one by one, never the whole file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] = (-1, -1)
        self._grants: dict[bytes, Grant] = {}
        self.problems: list[str] = []

    def find(self, key: asyncssh.SSHKey) -> Grant | None:
        """The grant of a key."""
        self._refresh()
        return self._grants.get(key.public_data)

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._grants, self._stamp = {}, (-1, -1)
            return
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp == self._stamp:
            return
        self._stamp, self._grants, self.problems = stamp, {}, []
        for number, line in enumerate(self._path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                key, grant = parse_line(line)
                self._grants[key.public_data] = grant
            except (ValueError, asyncssh.KeyImportError) as wrong:
                self.problems.append(f"{self._path} line {number}: {wrong}")


def parse_line(line: str) -> tuple[asyncssh.SSHKey, Grant]:
    """One line: options in quotes joined by commas, then a public key; raises ValueError or KeyImportError."""
    options, rest = _options(line.strip())
    key = asyncssh.import_public_key(rest)
    roles = tuple(role for role in options.get("flagplot-roles", "").replace(",", " ").split() if role)
    for role in roles:
        if role not in ROLES:
            raise ValueError(f"there is no role {role!r}")
    nodes = tuple(options.get("flagplot-node", "").replace(",", " ").split())
    return key, Grant(options.get("flagplot-user", ""), roles, nodes)


def _options(line: str) -> tuple[dict[str, str], str]:
    found: dict[str, str] = {}
    rest = line
    while rest.startswith("flagplot-"):
        name, equals, after = rest.partition('="')
        value, quote, after = after.partition('"')
        if not equals or not quote or " " in name:
            raise ValueError('options are written name="value", joined by commas')
        found[name] = value
        rest = after[1:] if after.startswith(",") else after.lstrip()
        if after[:1] not in (",", " ", "\t"):
            raise ValueError("a space must follow the options")
    return found, rest


def ensure_keypair(path: Path, comment: str) -> asyncssh.SSHKey:
    """The private key at `path`, made (with `path`.pub) when there is none; raises `Refused` when it is unreadable."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    public = path.with_name(path.name + ".pub")
    if not path.exists():
        made = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
        public.write_bytes(made.export_public_key())
        fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(made.export_private_key())
        fresh.rename(path)
    try:
        return asyncssh.read_private_key(path)
    except (OSError, asyncssh.KeyImportError) as wrong:
        raise Refused("host_key", f"the key {path} cannot be read: {wrong}", "restore it or remove it") from wrong


def add_user_key(folder: Path, public_key: str, user: str, roles: tuple[str, ...] = ()) -> None:
    """Let a key log in as `user`; the same key twice changes nothing."""
    option = f'flagplot-user="{user}"' + (f',flagplot-roles="{" ".join(roles)}"' if roles else "")
    _add(folder / "keys" / "users", option, public_key)


def add_agent_key(folder: Path, public_key: str, nodes: str = "*") -> None:
    """Let a key speak for `nodes` (`*`: any)."""
    _add(folder / "keys" / "agents", f'flagplot-node="{nodes}"', public_key)


def _add(path: Path, option: str, public_key: str) -> None:
    key = public_key.strip()
    parse_line(f"{option} {key}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    if any(key.split()[1] in line.split() for line in kept.splitlines()):
        return
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(kept + ("" if kept.endswith("\n") or not kept else "\n") + f"{option} {key}\n")
    fresh.rename(path)


def prepare(folder: Path) -> asyncssh.SSHKey:
    """Make what is missing of a data directory's folders and keys; returns the host key."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("keys", "logs", "agents", "cache"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    keys = folder / "keys"
    host = ensure_keypair(keys / "host_ed25519", "flagplot host")
    ensure_keypair(keys / "user_ed25519", "flagplot owner")
    ensure_keypair(keys / "agent_ed25519", "flagplot agents")
    if not (keys / "users").exists():
        add_user_key(folder, (keys / "user_ed25519.pub").read_text(), name_of(os.geteuid()), ("admin",))
    if not (keys / "agents").exists():
        add_agent_key(folder, (keys / "agent_ed25519.pub").read_text())
    return host
