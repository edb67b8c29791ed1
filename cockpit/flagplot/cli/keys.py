"""`flagplot keys`: every action of the cockpit with its keys, as a `keys.toml` to begin with."""

from __future__ import annotations

import click


@click.command("keys")
def command() -> None:
    """Print every action of the cockpit with its keys, as ~/.config/flagplot/keys.toml takes them."""
    from flagplot.tui.keymap import written

    print(written(), end="")
