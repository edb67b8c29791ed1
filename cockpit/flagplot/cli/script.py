"""`flagplot script`: a job's script as it was submitted."""

from __future__ import annotations

import sys

import click

from flagplot.cli.common import ask, json_option
from flagplot_wire.text import clean


@click.command("script")
@click.argument("job")
@json_option
@click.pass_context
def command(context: click.Context, job: str, as_json: bool) -> None:
    """Print a job's script (your own jobs; operators any)."""
    reply = ask(context, lambda calls: calls.script(job))
    if as_json:
        from flagplot.output.json import print_json

        print_json({"job_id": reply.number, "script": reply.script, "args": list(reply.args)})
    elif sys.stdout.isatty():
        print(clean(reply.script, keep_newlines=True), end="")
    else:
        sys.stdout.buffer.write(reply.script.encode("utf-8", "surrogateescape"))
