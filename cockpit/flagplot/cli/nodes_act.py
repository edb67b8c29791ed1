"""`flagplot drain | resume | reboot | remove`."""

from __future__ import annotations

import click

from flagplot.cli.common import ask, finish, json_option


@click.command("drain")
@click.argument("nodes", nargs=-1, required=True, metavar="NODES...")
@click.option("-r", "--reason", required=True, help="Why; shown wherever the node is.")
@json_option
@click.pass_context
def drain(context: click.Context, nodes: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Take nodes (host lists such as gpu[01-03]) out of service for new jobs; running jobs go on."""
    finish(ask(context, lambda calls: calls.drain(nodes, reason)), as_json)


@click.command("resume")
@click.argument("nodes", nargs=-1, required=True, metavar="NODES...")
@json_option
@click.pass_context
def resume(context: click.Context, nodes: tuple[str, ...], as_json: bool) -> None:
    """Give drained nodes back to jobs."""
    finish(ask(context, lambda calls: calls.resume(nodes)), as_json)


@click.command("reboot")
@click.argument("nodes", nargs=-1, required=True, metavar="NODES...")
@click.option("-r", "--reason", required=True, help="What for; shown wherever the node is.")
@json_option
@click.pass_context
def reboot(context: click.Context, nodes: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Drain nodes, reboot each as soon as it holds no jobs, and give it back to jobs."""
    finish(ask(context, lambda calls: calls.reboot(nodes, reason)), as_json)


@click.command("remove")
@click.argument("nodes", nargs=-1, required=True, metavar="NODES...")
@json_option
@click.pass_context
def remove(context: click.Context, nodes: tuple[str, ...], as_json: bool) -> None:
    """Forget nodes that do not respond and hold no jobs."""
    finish(ask(context, lambda calls: calls.remove(nodes)), as_json)
