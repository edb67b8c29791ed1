"""`flagplot connect`: pin a remote controller's host key and remember it by a name."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from pathlib import Path

import click

from flagplot.client.target import ALL, Target, clusters_file, read_clusters
from flagplot_wire.errors import Refused


@click.command("connect")
@click.argument("where", metavar="[USER@]HOST:PORT")
@click.option("--name", help="Name for --cluster; the host's name without it.")
@click.option("--key", "key_file", type=click.Path(path_type=Path), help="Your private SSH key, if not the usual one.")
@click.option("--fingerprint", help="Expect this fingerprint (SHA256:…) and do not ask.")
@click.option("--yes", is_flag=True, help="Trust the host key without asking.")
def command(where: str, name: str | None, key_file: Path | None, fingerprint: str | None, yes: bool) -> None:
    """Show a controller's host key, pin it once confirmed, and check that you are let in."""
    user, host, port = parse_where(where)
    from flagplot.client.ssh import server_key

    key = asyncio.run(server_key(host, port))
    shown = key.get_fingerprint()
    short = name or host.split(".")[0]
    if short == ALL:
        raise Refused("usage", f"{ALL} means every cluster", "give another name with --name")
    text = key.export_public_key().decode().strip()
    known = read_clusters().get(short, {})
    if known and str(known.get("host_key", "")).split()[:2] != text.split()[:2]:
        print(f"flagplot: the host key of {short} has CHANGED since it was pinned", file=sys.stderr)
    click.echo(f"{host}:{port} shows the host key {shown}")
    if fingerprint is not None and fingerprint != shown:
        raise Refused("host_key", f"that is not the expected {fingerprint}: nothing was pinned")
    if fingerprint is None and not yes:
        if not sys.stdin.isatty():
            raise Refused("host_key", "nobody is here to confirm the host key", "give --fingerprint, or --yes")
        if not click.confirm("Is this the fingerprint that its admin gave you?", default=False):
            raise Refused("host_key", "not confirmed: nothing was pinned")
    target = Target("ssh", short, host=host, port=port, user=user, host_key=text,
                    key_file=str(key_file.expanduser().absolute()) if key_file else "")  # fmt: skip
    welcome = asyncio.run(_check(target))
    save(short, target)
    click.echo(f"connected to cluster {welcome[0]} as {welcome[1]}; from now on: flagplot --cluster {short}")


def parse_where(text: str) -> tuple[str, str, int]:
    """`user@host:port` as its three parts; without a user it is yours."""
    user, at, rest = text.rpartition("@")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isdecimal() or not host or not 0 < int(port) < 65_536:
        raise Refused(
            "usage", f"{text!r} is no address", "write user@host:port; `flagplot status` there tells the port"
        )
    return (user if at else getpass.getuser()), host.strip("[]"), int(port)


async def _check(target: Target) -> tuple[str, str]:
    from flagplot.client.connection import Connection

    connection = await Connection.open(target)
    try:
        assert connection.welcome is not None
        return connection.welcome.cluster, connection.welcome.user
    finally:
        await connection.close()


def save(name: str, target: Target) -> None:
    """Write the cluster into clusters.toml."""
    clusters = read_clusters()
    kept = {key: value for key, value in clusters.get(name, {}).items() if key in ("theme", "colour", "read_only")}
    clusters[name] = kept | {
        "host": target.host,
        "port": target.port,
        "user": target.user,
        "host_key": target.host_key,
        "key_file": target.key_file,
    }
    path = clusters_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = []
    for cluster, fields in clusters.items():
        lines.append(f"[{_quoted(cluster)}]")
        lines += [f"{key} = {_quoted(value)}" for key, value in fields.items()]
        lines.append("")
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines))
    os.replace(fresh, path)


def _quoted(value: object) -> str:
    import json

    return json.dumps(value)
