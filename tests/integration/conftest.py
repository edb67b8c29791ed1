"""What tests of real parts share. Those with a controller of their own make their `controller`."""

from __future__ import annotations

import pwd
from collections.abc import AsyncIterator, Iterator

import pytest
from support.controller_rig import Client
from support.people import person

from flagplotd.controller import Controller


@pytest.fixture
async def client(controller: Controller) -> AsyncIterator[Client]:
    made = await Client.local(controller.server.folder)
    yield made
    await made.close()


@pytest.fixture
def alice() -> Iterator[pwd.struct_passwd]:
    """A user of this machine who has nothing to do with the agent's."""
    with person("fpa") as made:
        yield made
