"""A job's end starts what fits in its place before the next scheduling cycle."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from support.controller_rig import Client, FakeAgent, spec, start_inside, until

from flagplot_wire.job import State
from flagplotd.service import cycle


async def test_a_job_starts_at_the_end_of_another_without_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    plans, plan = [], cycle._plan

    def counted(*what: Any) -> Any:
        plans.append(what)
        return plan(*what)

    monkeypatch.setattr(cycle, "_plan", counted)
    folder = Path(tempfile.mkdtemp(prefix="fp-b-"))
    controller = await start_inside(folder / "d")
    agent = await FakeAgent("n1").connect(controller.server.port, controller.server.folder)
    client = await Client.local(controller.server.folder)
    try:
        whole = spec("whole", gpus=2, limit=3_600)
        running, planned = [(await client.submit(whole)).number for _ in range(2)]
        behind = [(await client.submit(spec(f"small{one}", gpus=1, limit=3_600))).number for one in range(3)]
        await agent.launched(running)

        def quiet() -> bool:
            server = controller.server
            busy = server.cycle._wanted.is_set() or server.cycle._turn.locked()
            return not busy and len(plans) > started and server.state.forecasts.keys() == {planned, *behind}

        # The cycle that starts a job does not know when it ends yet.
        started = len(plans)
        controller.server.cycle.want()
        await until(quiet)
        # No cycle follows any more while this test lasts.
        monkeypatch.setattr(cycle, "DEBOUNCE_S", 3_600)
        before = len(plans)
        agent.end(running)
        await agent.launched(planned)
        assert len(plans) == before and (await client.job(planned)).status.state is State.RUNNING
        agent.end(planned)
        # Who was planned first has started: the rest is left to a cycle.
        await client.wait_state(planned, State.COMPLETED)
        assert {(await client.job(number)).status.state for number in behind} == {State.PENDING}
    finally:
        await client.close()
        await agent.leave()
        await controller.close()
        shutil.rmtree(folder)
