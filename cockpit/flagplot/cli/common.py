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
from flagplot.client.target import ALL, Target, read_entries, resolve
from flagplot_wire.errors import EXIT_OF_CODE, Exit, Refused
from flagplot_wire.replies import Acted
from flagplot_wire.text import clean
from flagplot_wire.units import parse_begin

T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


cluster_option = click.option(
    "-M", "--cluster", "--clusters", "cluster", metavar="NAME|all", help="This cluster, or every one that is known."
)
ANSWER_S = 15.0
"""For so long every one of several controllers is waited for."""


def target_of(context: click.Context, cluster: str | None = None) -> Target:
    """The controller meant by the command's own `cluster`, else by the program's options."""
    options = context.find_root().params
    return resolve(data_dir=options.get("data_dir"), cluster=cluster or options.get("cluster"))


def all_meant(context: click.Context, cluster: str | None) -> bool:
    """True where every cluster is meant."""
    return (cluster or context.find_root().params.get("cluster")) == ALL


def ask_all(work: Callable[[Calls], Awaitable[T]]) -> dict[str, T | Refused]:
    """Ask every known cluster at once; each answers, or is refused, for itself. Raises `Refused` where none is known."""
    entries = read_entries()
    if not entries:
        raise Refused("usage", "no cluster is known", "flagplot connect user@host:port adds one")

    async def one(target: Target) -> T:
        connection = await Connection.open(target)
        try:
            return await work(Calls(connection))
        finally:
            await connection.close()

    async def limited(target: Target) -> T | Refused:
        try:
            return await asyncio.wait_for(one(target), ANSWER_S)
        except TimeoutError:
            return Refused("no_controller", f"no answer within {ANSWER_S:.0f} s")
        except Refused as refused:
            return refused

    async def everyone() -> list[T | Refused]:
        return await asyncio.gather(*(limited(entry.target) for entry in entries.values()))

    return dict(zip(entries, asyncio.run(everyone()), strict=True))


def tell_silent(found: dict[str, T | Refused]) -> dict[str, T]:
    """Those that answered; the others are told on standard error."""
    silent = {name: one for name, one in found.items() if isinstance(one, Refused)}
    for name, refused in silent.items():
        print(f"flagplot: {clean(name)}: {clean(refused.message)}", file=sys.stderr)
    return {name: one for name, one in found.items() if not isinstance(one, Refused)}


def exit_of(found: dict[str, T | Refused]) -> None:
    """Exit by the first refusal, where there is one."""
    for one in found.values():
        if isinstance(one, Refused):
            sys.exit(int(one.exit))


def ask(context: click.Context, work: Callable[[Calls], Awaitable[T]], cluster: str | None = None) -> T:
    """Connect, do the work, close."""

    async def main() -> T:
        connection = await Connection.open(target_of(context, cluster))
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
