"""`flagplotd simulate history` beside a running controller, on what that really lived through."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.controller_rig import Client, FakeAgent, OutsideController, spec


async def test_a_real_past_is_replayed_while_the_controller_runs() -> None:
    folder = Path(tempfile.mkdtemp(prefix="fp-h-"))
    outside = await OutsideController(folder / "d").start()
    client = await Client.local(outside.folder)
    agent = await FakeAgent("n1").connect(outside.port, outside.folder)
    numbers = [(await client.submit(spec(f"job{index}", gpus=2))).number for index in range(3)]
    for number in numbers:
        await agent.launched(number)
        agent.end(number)
        await client.wait_state(number, "COMPLETED")
    file = folder / "other.toml"
    file.write_text("[scheduler]\nreservations = 1\n")
    command = [sys.executable, "-m", "flagplotd.main", "simulate", "history", "--policy", str(file), "--json"]
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        env={**os.environ, "FLAGPLOT_DATA_DIR": str(outside.folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [told[course]["waits"]["jobs"] for course in ("before", "present", "after")] == [3, 3, 3]
    assert told["after"] == told["present"] and told["present"]["unstarted"] == 0
    # One job at a time on its two GPUs, each over in a moment: a cycle in the real one waits for a few hundredths.
    assert abs(told["before"]["waits"]["mean_s"] - told["present"]["waits"]["mean_s"]) <= 2
    await agent.leave()
    await client.close()
    outside.end()
    shutil.rmtree(folder)
