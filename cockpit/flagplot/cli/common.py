"""What commands share: reaching the controller, printing results of actions."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.target import Target, resolve
from flagplot_wire.errors import EXIT_OF_CODE, Exit
from flagplot_wire.replies import Acted
from flagplot_wire.text import clean
from flagplot_wire.units import parse_begin

T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def target_of(context: click.Context) -> Target:
    """The controller meant by the program's options."""
    options = context.find_root().params
    return resolve(data_dir=options.get("data_dir"), cluster=options.get("cluster"))


def ask(context: click.Context, work: Callable[[Calls], Awaitable[T]]) -> T:
    """Connect, do the work, close."""

    async def main() -> T:
        connection = await Connection.open(target_of(context))
        try:
            return await work(Calls(connection))
        finally:
            await connection.close()

    return asyncio.run(main())


def local_moment(text: str) -> int:
    """Epoch seconds of a time as `--begin` takes it, in this machine's time zone as it is at that time."""
    now = int(time.time())
    offset = time.localtime(now).tm_gmtoff
    at = parse_begin(text, now, offset)
    then = time.localtime(at).tm_gmtoff
    return at if then == offset else parse_begin(text, now, then)


def finish(acted: Acted, as_json: bool) -> None:
    """Print what became of each target; exits by the first error's code."""
    if as_json:
        from flagplot.output.json import print_json

        print_json([{"target": one.target, "error": one.error, "message": one.message} for one in acted.results])
    code = Exit.OK
    for one in acted.results:
        if one.error:
            code = code or EXIT_OF_CODE.get(one.error, Exit.REFUSED)
        if not as_json:
            line = f"{clean(one.target)}: {clean(one.message)}"
            print(f"flagplot: {line}" if one.error else line, file=sys.stderr if one.error else sys.stdout)
    if code:
        sys.exit(int(code))


def print_warnings(warnings: Any) -> None:
    """Warnings, on standard error."""
    for warning in warnings:
        print(f"flagplot: warning: {clean(warning)}", file=sys.stderr)
