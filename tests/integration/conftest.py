"""What tests with a controller of their own share; each makes its `controller`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from support.controller_rig import Client

from flagplotd.controller import Controller


@pytest.fixture
async def client(controller: Controller) -> AsyncIterator[Client]:
    made = await Client.local(controller.server.folder)
    yield made
    await made.close()
