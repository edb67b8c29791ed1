"""`flagplotd simulate swf`: replay a log of processors."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from flagplot_wire.errors import Refused
from flagplot_wire.text import clean, fit
from flagplotd.sim import report, swf
from flagplotd.sim.engine import POLICIES, simulate


@click.command("swf")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--procs", type=click.IntRange(1, 10**9), help="Processors of the machine (default: as the log says).")
@click.option("--policy", type=click.Choice(POLICIES), default="easy", show_default=True, help="How jobs are chosen.")
@click.option("--clairvoyant", is_flag=True, help="The scheduler knows each run time, instead of what was requested.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw plots with ASCII characters.")
def command(file: Path, procs: int | None, policy: str, clairvoyant: bool, as_json: bool, ascii_only: bool) -> None:
    """Replay FILE, a log in the Standard Workload Format, plain or gzip."""
    log = swf.read(file)
    total = procs or log.max_procs
    if not total:
        raise Refused("usage", f"{clean(str(file))} does not say how many processors the machine has", "give --procs N")
    jobs = swf.workload(log, total)
    if not jobs.submit:
        why = ", ".join(f"{count} {swf.DROPPED[key]}" for key, count in jobs.dropped.items() if count)
        raise Refused("usage", f"{clean(str(file))} holds no job that can run on {total} processors: {why}")
    outcome = simulate(jobs, policy, clairvoyant)
    figures = report.measure(outcome)
    if as_json:
        asked = {"trace": file.name, "procs": total, "policy": policy, "clairvoyant": clairvoyant}
        whole = {**asked, **msgspec.structs.asdict(figures)}
        click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
        return
    how = f", {total:,} processors, {policy}{', clairvoyant' if clairvoyant else ''}"
    title = fit(clean(file.name), report.WIDTH - len(how)).rstrip() + how
    plain = ascii_only or "utf" not in (sys.stdout.encoding or "").lower()
    click.echo(report.page(title, outcome, figures, plain))
