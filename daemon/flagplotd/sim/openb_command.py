"""`flagplotd simulate openb`: what placement alone makes of a GPU trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flagplotd.sim.openb import Outcome

POLICIES = ("flagplot", "fgd", "bestfit", "random")
LEVELS = {False: " ▁▂▃▄▅▆▇█", True: " .:#"}
WIDTH, HEIGHT = 65, 8

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("openb")
@click.option("--nodes", required=True, type=_file, help="CSV: cpu_milli, memory_mib, gpu, model.")
@click.option("--pods", required=True, type=_file, help="CSV: cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec.")
@click.option("--policy", type=click.Choice(POLICIES), default="flagplot", show_default=True, help="How to place.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of the order.")
@click.option(
    "--arrivals",
    type=click.FloatRange(0.01, 100),
    default=1.3,
    show_default=True,
    help="GPU that arrives, as a part of the cluster's.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters.")
def command(nodes: Path, pods: Path, policy: str, seed: int, arrivals: float, as_json: bool, ascii_only: bool) -> None:
    """Place the pods of the openb trace one by one, as the FGD paper does, and say how much GPU is allocated."""
    import msgspec

    from flagplotd.sim.openb import simulate, workload
    from flagplotd.sim.openb_csv import read_nodes, read_pods

    percent = round(arrivals * 100)
    outcome = simulate(workload(read_nodes(nodes), read_pods(pods)), policy, seed, percent)
    if as_json:
        fragmented = outcome.fragmented_percent
        result = {
            "policy": policy,
            "seed": seed,
            "arrivals": percent / 100,
            "pods": outcome.pods,
            "failed": outcome.failed,
            "gpu_allocated_percent": round(outcome.allocated_percent, 3),
            "idle_fragmented_percent": None if fragmented is None else round(fragmented, 3),
        }
        click.echo(msgspec.json.encode(result).decode())
    else:
        click.echo("\n".join(report(outcome, policy, seed, percent, ascii_only)))


def report(outcome: Outcome, policy: str, seed: int, percent: int, ascii_only: bool) -> list[str]:
    """The figures in words, and a plot of the allocated GPU against the GPU that has arrived."""
    lines = [
        f"policy {policy}, seed {seed}: {outcome.allocated_percent:.2f} % of the GPUs allocated",
        f"{outcome.pods} pods arrived, {outcome.failed} of them fitted nowhere",
    ]
    if outcome.fragmented_percent is not None:
        lines.append(f"{outcome.fragmented_percent:.1f} % of the idle GPU was a fragment when 90 % had arrived")
    return [*lines, "", *plot(curve(outcome, WIDTH), percent, ascii_only)]


def curve(outcome: Outcome, width: int) -> list[float]:
    """Allocated percent at `width` equal steps of what has arrived."""
    last = int(outcome.arrived[-1])
    found = []
    for step in range(1, width + 1):
        pod = int(outcome.arrived.searchsorted(last * step // width, side="right")) - 1
        found.append(100 * int(outcome.allocated[pod]) / outcome.capacity if pod >= 0 else 0.0)
    return found


def plot(values: list[float], percent: int, ascii_only: bool) -> list[str]:
    """Bars of 0 to 100 percent, HEIGHT lines high, over an axis that ends at `percent`."""
    levels = LEVELS[ascii_only]
    top = len(levels) - 1
    lines = []
    for row in range(HEIGHT - 1, -1, -1):
        filled = [min(max(round(value * HEIGHT * top / 100) - row * top, 0), top) for value in values]
        label = {HEIGHT - 1: "100 %", HEIGHT // 2 - 1: " 50 %"}.get(row, "")
        lines.append(f"{label:>6} {''.join(levels[level] for level in filled)}".rstrip())
    end = f"{percent} %"
    name = "arrived"
    gap = len(values) - len("0") - len(name) - len(end)
    lines.append(" " * 7 + "0" + " " * (gap // 2) + name + " " * (gap - gap // 2) + end)
    return lines
