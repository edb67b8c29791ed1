"""A controller with conservative backfill remembers what it promised."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from support.controller_rig import Client, FakeAgent, spec, start_inside, until

from flagplot_wire.ids import JobNumber
from flagplotd.config import Config
from flagplotd.sched.plan import Policy


async def test_who_gets_in_front_does_not_move_who_was_promised_a_start() -> None:
    folder = Path(tempfile.mkdtemp(prefix="fp-p-"))
    controller = await start_inside(folder / "d", Config(policy=Policy(backfill="conservative")))
    agent = await FakeAgent("n1").connect(controller.server.port, controller.server.folder)
    client = await Client.local(controller.server.folder)
    try:
        whole = spec("whole", gpus=2, limit=3_600)
        running, promised = [(await client.submit(whole)).number for _ in range(2)]
        await agent.launched(running)

        def start(number: JobNumber) -> int | None:
            known = controller.server.state.forecasts.get(number)
            return known.start if known is not None else None

        before = await until(lambda: start(promised))
        ahead = (await client.submit(spec("ahead", gpus=2, limit=7_200, nice=-1_000_000))).number
        assert await until(lambda: start(ahead)) == before + 3_600
        assert start(promised) == before
        agent.end(running)
        await agent.launched(promised)
    finally:
        await client.close()
        await agent.leave()
        await controller.close()
        shutil.rmtree(folder)
