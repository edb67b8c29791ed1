"""`flagplot demo-jobs`: the stream of sample jobs of the demo fleet (started and stopped by up and down)."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from pathlib import Path
from typing import Any

import click

from flagplot.client.calls import Calls
from flagplot.script.build import build, parse_arguments, wrap_script
from flagplot_wire.errors import Refused
from flagplot_wire.requests import GetQueue

MOST_PENDING = 25
EVERY_S = 2.0

SAMPLES: tuple[tuple[int, str, str], ...] = (
    (
        6,
        "--job-name=llm-pretrain --partition=h100 --nodes=2 --gpus-per-node=8 --cpus-per-task=32 --time=4:00:00",
        "180",
    ),
    (9, "--job-name=finetune-7b --gpus-per-node=4 --cpus-per-task=16 --mem=200G --time=2:00:00", "120"),
    (9, "--job-name=vit-small --gpus-per-node=2 --cpus-per-task=8 --mem=64G --time=1:00:00", "90"),
    (12, "--job-name=notebook --gres=shard:2 --cpus-per-task=2 --mem=16G --time=1:00:00", "150"),
    (10, "--job-name=eval --gres=shard:3 --cpus-per-task=4 --mem=24G --time=30", "45"),
    (6, "--job-name=serve-embed --partition=l40s --vram=20G --cpus-per-task=4 --mem=32G --time=8:00:00", "200"),
    (5, "--job-name=sweep --array=0-11%4 --gpus-per-node=1 --cpus-per-task=4 --mem=32G --time=20", "40"),
    (6, "--job-name=preprocess --cpus-per-task=16 --mem=48G --time=30", "35"),
    (5, "--job-name=tests --partition=debug --gpus-per-node=1 --cpus-per-task=4 --mem=8G --time=10", "20"),
    (3, "--job-name=broken --gpus-per-node=1 --mem=8G --time=10", "fail"),
    (3, "--job-name=profile --partition=l40s --gpus-per-node=8 --exclusive --time=30", "60"),
)
"""(weight, options, seconds that it runs)"""

SCRIPT = """echo "$SLURM_JOB_NAME on $SLURM_JOB_NODELIST, GPUs ${{CUDA_VISIBLE_DEVICES:-none}}"
for step in $(seq 1 {steps}); do
  printf 'step %d of {steps}  loss 0.%03d\\n' "$step" $((9000 / (step + 10)))
  sleep 1
done
{end}"""


@click.command("demo-jobs", hidden=True)
@click.option("--seed", type=int, help="Seed of the stream; printed when not given.")
@click.pass_context
def command(context: click.Context, seed: int | None) -> None:
    """Submit sample jobs until stopped, never more than some pending ones."""
    from flagplot.client.target import resolve

    seed = seed if seed is not None else int(time.time())
    print(f"seed {seed}", flush=True)
    data_dir = context.find_root().params.get("data_dir")
    target = resolve(data_dir=data_dir)
    work = (target.data_dir or Path.cwd()) / "work"
    work.mkdir(mode=0o700, exist_ok=True)
    asyncio.run(stream(target, work, random.Random(seed)))


async def stream(target: Any, work: Path, dice: random.Random) -> None:
    """Keep the fleet busy; goes on after the controller was away."""
    from flagplot.client.connection import Connection

    last = 0
    while True:
        try:
            connection = await Connection.open(target)
            try:
                calls = Calls(connection)
                while True:
                    queue = await calls.queue(GetQueue(states=("PENDING",)))
                    if len(queue.jobs) < MOST_PENDING:
                        last = await submit(calls, work, dice, last)
                    await asyncio.sleep(EVERY_S if last > 40 else EVERY_S / 5)
            finally:
                await connection.close()
        except Refused as refused:
            print(refused.message, flush=True)
            await asyncio.sleep(EVERY_S)


async def submit(calls: Calls, work: Path, dice: random.Random, last: int) -> int:
    """Submit one sample job; now and then it depends on the one before. Returns its number."""
    _, options, seconds = dice.choices(SAMPLES, [weight for weight, _, _ in SAMPLES])[0]
    steps = 8 if seconds == "fail" else max(int(int(seconds) * dice.uniform(0.5, 1.3)), 5)
    end = 'echo "CUDA error: an illegal memory access was encountered" >&2; exit 1' if seconds == "fail" else ""
    words = options.split()
    if last and dice.random() < 0.08:
        words.append(f"--dependency=afterany:{last}")
    given, _ = parse_arguments([*words, f"--output={work}/%x-%j.log"])
    spec, payload, _ = build(
        [], given, script_text=wrap_script(SCRIPT.format(steps=steps, end=end)), script_name="wrap", args=[],
        work_dir=str(work), environment={"PATH": "/usr/local/bin:/usr/bin:/bin"}, now=int(time.time()),
    )  # fmt: skip
    try:
        return (await calls.submit(spec, payload, uuid.uuid4().hex)).number
    except Refused as refused:
        if refused.code == "no_controller":
            raise
        print(f"{spec.name}: {refused.message}", flush=True)
        return last
