"""The controller as a process: killed, restarted, doubled, and without its port."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.controller_rig import Client, FakeAgent, OutsideController, dial, spec, until

from flagplot_wire import requests
from flagplot_wire.errors import Exit

RUN = [sys.executable, "-m", "flagplotd.main"]


@pytest.fixture
async def outside() -> AsyncIterator[OutsideController]:
    folder = Path(tempfile.mkdtemp(prefix="fp-o-"))
    made = await OutsideController(folder / "d").start()
    yield made
    if made.process is not None and made.process.poll() is None:
        made.end()
    shutil.rmtree(folder)


async def test_nothing_acknowledged_is_lost_by_kill_9(outside: OutsideController) -> None:
    client = await Client.local(outside.folder)
    agent = await FakeAgent("n1").connect(outside.port, outside.folder)
    first = (await client.submit(spec("first", gpus=1), key="k1")).number
    second = (await client.submit(spec("second", gpus=1))).number
    for number in (first, second):
        await agent.launched(number)
    waiting = (await client.submit(spec("waiting", gpus=2), script="#!/bin/sh\nwaits\n")).number
    port = outside.port
    outside.end(signal.SIGKILL)
    await asyncio.wait_for(agent.closed.wait(), 10)
    agent.end(first, exit_code=7, send=False)
    await outside.start()
    assert outside.port == port
    client = await Client.local(outside.folder)
    assert client.welcome.epoch == 2
    again = await client.submit(spec("first", gpus=1), key="k1")
    assert (again.number, again.again) == (first, True)
    assert (await client.ask(requests.GetNodes())).nodes[0].state == "DOWN"
    assert (await client.job(second)).status.state == "RUNNING"
    await agent.leave()
    await agent.connect(outside.port, outside.folder)
    ended = await client.wait_state(first, "FAILED")
    assert ended.status.exit_code == 7
    await until(lambda: not agent.unacknowledged, what="the acknowledgement")
    assert (await client.job(second)).status.attempt == 1
    agent.end(second)
    await client.wait_state(second, "COMPLETED")
    launch = await agent.launched(waiting)
    assert launch.payload.script == "#!/bin/sh\nwaits\n"
    assert [launch.number for launch in agent.launches] == [first, second, waiting]
    assert (await client.submit()).number == waiting + 1
    seqs = [event.seq for event in (await client.ask(requests.GetEvents())).events]
    assert seqs == list(range(1, len(seqs) + 1))
    await agent.leave()


async def test_a_second_controller_is_refused(outside: OutsideController) -> None:
    assert outside.process is not None
    command = [*RUN, "run", "--data-dir", str(outside.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == Exit.UNAVAILABLE
    assert f"another controller (pid {outside.process.pid}) is running" in done.stderr
    assert "Traceback" not in done.stderr
    assert outside.process.poll() is None


async def test_clean_stop_and_a_taken_port(outside: OutsideController) -> None:
    assert outside.end() == 0
    assert not (outside.folder / "controller.json").exists() and not (outside.folder / "controller.sock").exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [*RUN, "run", "--data-dir", str(outside.folder), "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == Exit.UNAVAILABLE
    assert f"port {port}" in done.stderr and "--port" in done.stderr and "Traceback" not in done.stderr


async def test_damaged_store_is_refused(outside: OutsideController) -> None:
    outside.end()
    database = outside.folder / "flagplot.db"
    content = bytearray(database.read_bytes())
    content[4_096:12_288] = b"\xa5" * 8_192
    database.write_bytes(content)
    command = [*RUN, "run", "--data-dir", str(outside.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == Exit.REFUSED and "is damaged" in done.stderr and "recover" in done.stderr
    assert database.read_bytes() == content


async def test_check_and_wrong_configuration(outside: OutsideController) -> None:
    outside.end()
    command = [*RUN, "check", "--data-dir", str(outside.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and "store: fine" in done.stdout
    (outside.folder / "flagplotd.toml").write_text("[controler]\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == Exit.USAGE
    assert "unknown key 'controler'" in done.stderr and "did you mean 'controller'?" in done.stderr


async def test_keys_added_while_it_runs(outside: OutsideController) -> None:
    key = outside.folder.parent / "anna"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    command = [*RUN, "add-key", "--data-dir", str(outside.folder), "--user", "anna", "--role", "operator", f"{key}.pub"]
    subprocess.run(command, check=True, timeout=60)
    connection = await dial(outside.port, key, outside.folder)
    anna = await Client.ssh(connection)
    assert (anna.welcome.user, anna.welcome.roles) == ("anna", ("user", "operator"))
    await anna.close()
    connection.close()
