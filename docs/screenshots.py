"""Draw the pictures of the README into docs/pictures: the cockpit on a sample cluster, no controller needed.

`python docs/screenshots.py [PICTURE ...] [--size 120x36] [--theme dark] [--to docs/pictures]`
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import msgspec
from textual.pilot import Pilot

from flagplot.client.mirror import Mirror
from flagplot.tui.app import FlagplotApp

HERE = Path(__file__).resolve().parent
KEYS: dict[str, tuple[str, ...]] = {
    "queue": (),
    "job": ("slash", *"gang", "enter", "p"),
    "nodes": ("2",),
    "nodes-large": ("2", "0", "plus", "plus"),
    "nodes-table": ("2", "t"),
    "node": ("2", "right", "right", "enter"),
    "gpus": ("3",),
    "timeline": ("4",),
    "events": ("5",),
    "submit": ("n",),
    "help": ("question_mark",),
    "confirm": ("ctrl+d",),
    "drain": ("2", "right", "right", "D"),
}
"""The keys that lead to each picture from the start."""
README = ("queue", "job", "nodes", "node", "gpus", "timeline", "submit")
"""The pictures drawn when none is named."""


def sample_cluster() -> ModuleType:
    """The cluster of the tests: 12 nodes, 96 GPUs, some 40 jobs."""
    path = HERE.parent / "tests" / "support" / "sample_cluster.py"
    spec = importlib.util.spec_from_file_location("sample_cluster", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tidy(mirror: Mirror) -> Mirror:
    """The same cluster without the texts that are there to break consoles."""
    for number in [number for number, job in mirror.jobs.items() if job.user == "mallory"]:
        del mirror.jobs[number]
        mirror.forecasts.pop(number, None)
    for name, node in mirror.nodes.items():
        if node.drain is not None:
            drain = msgspec.structs.replace(node.drain, reason=node.drain.reason.replace("\x1b[2J", ""))
            mirror.nodes[name] = msgspec.structs.replace(node, drain=drain)
    return mirror


async def settle(app: FlagplotApp, pilot: Pilot[int]) -> None:
    """Wait until nothing is left to load or draw."""
    await pilot.pause()
    for _ in range(100):
        if not any(worker.is_running for worker in app.workers):
            break
        await pilot.pause(0.02)
    app.show_now()
    await pilot.pause()


async def draw(keys: tuple[str, ...], size: tuple[int, int], theme: str) -> str:
    """One picture as SVG."""
    sample = sample_cluster()
    mirror = tidy(sample.sample_mirror())
    calls, _ = sample.sample_calls(mirror)
    app = FlagplotApp(mirror=mirror, calls=calls, clock=lambda: int(sample.NOW), theme=theme)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settle(app, pilot)
        return app.export_screenshot(title="flagplot")


def main() -> None:
    """Draw what the arguments ask for."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    wanted = arguments()
    os.chdir("/")  # The forms show where one is.
    width, _, height = wanted.size.partition("x")
    wanted.to.mkdir(parents=True, exist_ok=True)
    for name in wanted.pictures or README:
        if name not in KEYS:
            raise SystemExit(f"There is no picture {name!r}: choose of {' '.join(KEYS)}")
        svg = asyncio.run(draw(KEYS[name], (int(width), int(height)), wanted.theme))
        path = wanted.to / f"{name}.svg"
        path.write_text(svg, encoding="utf-8")
        sys.stdout.write(f"{path}\n")


def arguments() -> argparse.Namespace:
    """What to draw, how large, in which theme, to where."""
    parser = argparse.ArgumentParser(description="Draw pictures of the cockpit.")
    parser.add_argument("pictures", nargs="*", help=f"of {' '.join(KEYS)}; those of the README without any")
    parser.add_argument("--size", default="110x34")
    parser.add_argument("--theme", default="dark")
    parser.add_argument("--to", type=Path, default=HERE / "pictures")
    found = parser.parse_args()
    found.to = found.to.resolve()
    return found


if __name__ == "__main__":
    main()
