"""`flagplot usage`: who used what, how well my jobs used what they held, what my limits leave."""

from __future__ import annotations

import time

import click

from flagplot.cli.common import ask, json_option, local_moment
from flagplot.output.json import print_json, usage_object
from flagplot.output.table import amount, table
from flagplot.view.efficiency import LIMITS, cpu_part, gpu_part, memory_part
from flagplot.view.tree import NO_ACCOUNT
from flagplot.view.usage import hours_words, used_rows, week
from flagplot_wire.accounting import Efficiency, Quota, UsedBy
from flagplot_wire.requests import GetUsage
from flagplot_wire.units import format_duration, format_memory


@click.command("usage")
@click.option("-S", "--since", metavar="TIME", help="From this time on; without it from Monday on.")
@click.option("-E", "--until", metavar="TIME", help="Up to this time.")
@click.option("-u", "--user", default="", help="Whose jobs and limits to show; operators any.")
@click.option(
    "--by", type=click.Choice(["account", "user"]), default="account", help="Who used what, by account or user."
)
@click.option(
    "-n", "--jobs", type=click.IntRange(0, 500), default=10, help="How many of the last jobs that ended (10)."
)
@json_option
@click.pass_context
def command(
    context: click.Context, since: str | None, until: str | None, user: str, by: str, jobs: int, as_json: bool
) -> None:
    """Show who used what (this week), how well your last jobs used what they held, and what your limits leave."""
    begin = local_moment(since) if since else week(int(time.time()))[0]
    end = local_moment(until) if until else 0
    report = ask(context, lambda calls: calls.usage(GetUsage(begin, end, user, jobs)))
    if as_json:
        print_json(usage_object(report, begin, end))
        return
    print(used_table(report.used, by == "user"))
    if report.ended:
        print(f"\nLast jobs of {report.user}, in per cent of what they held")
        print(efficiency_table(report.ended))
    if report.quotas:
        print(f"\nLimits of {report.user}")
        print(quota_table(report.quotas))


def used_table(used: tuple[UsedBy, ...], by_user: bool) -> str:
    """Accounts with their users, or users."""
    names, rows = used_rows(used, by_user)
    cells = [
        ["  " * depth + (user or account or NO_ACCOUNT), str(row.jobs), hours_words(row.gpu_s), hours_words(row.cpu_s)]
        for (account, user, depth), row in zip(names, rows, strict=True)
    ]
    return table(["USER" if by_user else "ACCOUNT, USER", "JOBS", "GPU-HOURS", "CPU-HOURS"], cells, [1, 2, 3])


def efficiency_table(ended: tuple[Efficiency, ...]) -> str:
    """Ended jobs; `-` does not apply, `?` was not measured."""
    cells = []
    for one in ended:
        cpu, memory, gpu = (
            None if part is None else round(part * 100) for part in (cpu_part(one), memory_part(one), gpu_part(one))
        )
        gpus = amount(gpu) if one.gpu_millis else "-"
        cells.append(
            [one.display_id, one.state, format_duration(one.held_s), amount(cpu), amount(memory), gpus, one.name]
        )
    return table(["JOB", "STATE", "RAN", "CPU%", "MEM%", "GPU%", "NAME"], cells, [2, 3, 4, 5])


def quota_table(quotas: tuple[Quota, ...]) -> str:
    """Limits with what is in use."""
    cells = [
        [one.whose, LIMITS.get(one.limit, one.limit), *(_value(one.limit, value) for value in (one.used, one.most))]
        for one in quotas
    ]
    return table(["WHOSE LIMIT", "OF", "USED", "MOST"], cells, [2, 3])


def _value(limit: str, value: int) -> str:
    return format_memory(value) if limit == "memory_mib" else str(value)
