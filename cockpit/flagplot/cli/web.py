"""`flagplot web`: the cockpit in a browser of this machine, behind a token."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import click

from flagplot.cli.common import target_of
from flagplot_wire.errors import Refused


@click.command("web")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port to listen on; a free one without it.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen on (127.0.0.1).")
@click.option("--anywhere", is_flag=True, help="Allow an address that other machines reach: nothing is encrypted.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="Keep the token in this file, instead of a new one each time."
)
@click.pass_context
def command(context: click.Context, port: int, host: str, anywhere: bool, token_file: Path | None) -> None:
    """Serve the cockpit to a browser; the address that is printed holds the token."""
    if not anywhere and not is_loopback(host):
        raise Refused(
            "usage",
            f"{host} can be reached from other machines, and nothing is encrypted",
            "forward the port by ssh -L instead; --anywhere does it all the same",
        )
    target_of(context)
    try:
        from flagplot.tui.web import serve
    except ModuleNotFoundError as missing:
        raise Refused("usage", f"{missing.name} is not installed", "pip install 'flagplot[web]'") from missing
    options = context.find_root().params
    chosen = {name: str(options[name]) for name in ("data_dir", "cluster", "theme") if options.get(name)}
    flags = [name for name in ("read_only", "no_color", "ascii", "no_mouse", "reduced_motion") if options.get(name)]
    serve({**chosen, **dict.fromkeys(flags, "1")}, host, port, token_file)


def is_loopback(host: str) -> bool:
    """True for an address that only this machine reaches."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
