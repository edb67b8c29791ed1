"""What fits no policy is told in one clear message: by command to a running controller, and in its configuration."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.controller_rig import Client, FakeAgent, OutsideController

from flagplot_wire import requests
from flagplot_wire.errors import Exit, Refused
from flagplotd.main import cli

CONFIG = """
[licenses]
matlab = 2
[[qos]]
name = "high"
[[account]]
name = "physics"
qos = "high"
max_gpus_per_job = 1
max_wall = "1:00:00"
"""
BY_COMMAND = (
    ("submit --wrap true -A fysics", "there is no account 'fysics'", "did you mean 'physics'?"),
    ("submit --wrap true -q hi", "there is no QoS 'hi'", "did you mean 'high'?"),
    ("submit --wrap true -A physics --gpus-per-node 2 -t 5", "the job asks for 2 GPUs: account physics may use at most 1",
     "ask for less, or for a higher limit"),
    ("submit --wrap true -A physics -t 2:00:00", "the job's time limit is 2:00:00: that of account physics is at most",
     "1:00:00"),
    ("submit --wrap true -L matlab:3", "the job asks for 3 licenses matlab: the cluster has 2", ""),
    ("submit --wrap true -L ansys", "there is no license 'ansys'", "matlab"),
    ("submit --wrap true --reservation lost", "there is no reservation 'lost'", ""),
    ("submit --wrap true --nice=99999999999999999999", "nice", ""),
    ("update 1 --account fysics", "there is no account 'fysics'", "did you mean 'physics'?"),
    ("update 1 --qos hi", "there is no QoS 'hi'", "did you mean 'high'?"),
    ("update 1 --account physics --time 2:00:00", "that of account physics is at most 1:00:00", ""),
    ("update 1 --licenses matlab:3", "the job asks for 3 licenses matlab: the cluster has 2", ""),
    ("update 1 --licenses matlab:x", "license 'matlab:x': 'x' is no whole number", ""),
    ("update 1 --reservation lost", "there is no reservation 'lost'", ""),
    ("update 1 --site-factor 2147483647", "2147483647 is not in the range", ""),
    ("update 1 --site-factor 99999999999999999999", "99999999999999999999", ""),
    ("account add optics --parent fysics", "account optics names account 'fysics', which is not there", ""),
    ("account modify physics --parent physics", "account physics would be below itself: physics → physics", ""),
    ("account modify physics --qos hi", "account physics names QoS 'hi', which is not there", ""),
    ("account add optics --shares 99999999999", "99999999999", ""),
    ("user add ada --account physics --shares some", "some", ""),
    ("qos add urgent --priority 99999999999", "99999999999", ""),
    ("reservation add two --start now+1hour --duration 60 --nodes n1", "n1 is reserved by one then",
     "choose other nodes or another time"),
    ("reservation add two --start now+3hours --end now+2hours --nodes n1", "reservation two ends before it starts", ""),
    ("reservation add two --start now+3hours --duration 60 --nodes n9", "reservation two names node 'n9'", ""),
    ("reservation add two --start now+3hours --duration 60 --nodes n1 --cores 999", "n1 has", "cores"),
)  # fmt: skip
"""A command, what it says, and what else stands there."""
IN_THE_FILE = (
    ("[[switch]]\nname = 'a'\nswitches = 'b'\n[[switch]]\nname = 'b'\nswitches = 'a'\n",
     "switch: switches go round in a circle: b → a → b"),
    ("[[switch]]\nname = 'top'\nswitches = ['left', 'right']\n[[switch]]\nname = 'left'\nnodes = 'n1'\n",
     "switch: switch top joins switch 'right', which is not there"),
    ("[[switch]]\nname = 'a'\nnodes = 'n1'\n[[switch]]\nname = 'b'\nnodes = 'n1'\n",
     "node n1 is in two: leaf switch a and leaf switch b"),
    ("[[node]]\nnames = 'n1'\n[[switch]]\nname = 'a'\nnodes = 'n[1-2]'\n", "switch a joins node 'n2', which is not there"),
    ("[scheduler]\nweight_fairshare = 4294967296\n",
     "scheduler.weight_fairshare: must be a whole number from 0 to 4294967295, not 4294967296"),
    ("[scheduler]\nweight_age = -1\n", "scheduler.weight_age: must be a whole number from 0 to 4294967295, not -1"),
    ("[scheduler]\nweight_qos = 1e9\n", "scheduler.weight_qos: must be a whole number from 0 to 4294967295"),
    ("[limits]\nweight_gpu = 2147483648\n", "limits.weight_gpu: must be a whole number"),
    ("[[qos]]\nname = 'high'\npriority = 99999999999\n", "qos.priority: "),
    ("[[account]]\nname = 'a'\nparent = 'b'\n[[account]]\nname = 'b'\nparent = 'a'\n", "would be below itself: a → b → a"),
    ("[[user]]\nname = 'ada'\naccount = 'lost'\n", "user ada in account lost names account 'lost', which is not there"),
    ("[[partition]]\nname = 'p'\nqos = 'lost'\n", "partition p names QoS 'lost', which is not there"),
    ("[[reservation]]\nname = 'one'\nstart = 2037-01-01T10:00:00\nduration = '2:00:00'\nnodes = 'n1'\n"
     "[[reservation]]\nname = 'two'\nstart = 2037-01-01T11:00:00\nduration = '2:00:00'\nnodes = 'n[1-2]'\n",
     "n1 is reserved by two then"),
)  # fmt: skip
"""A configuration and the sentence with which it is refused."""


@pytest.fixture
async def controller() -> AsyncIterator[OutsideController]:
    folder = Path(tempfile.mkdtemp(prefix="fp-b-"))
    (folder / "d").mkdir()
    (folder / "d" / "flagplotd.toml").write_text(CONFIG)
    made = await OutsideController(folder / "d").start()
    client = await Client.local(made.folder)
    agent = await FakeAgent("n1").connect(made.port, made.folder)
    settings = {"start": "now+1hour", "duration": "60", "nodes": "n1"}
    assert (await client.ask(requests.ChangePolicy("add", "reservation", ("one",), settings))).results[0].error == ""
    done = by_command(made, "submit --wrap true --hold -t 30")
    assert done.returncode == 0, done.stderr
    yield made
    await agent.leave()
    await client.close()
    made.end()
    shutil.rmtree(folder)


def by_command(controller: OutsideController, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from flagplot.cli.main import entry; entry()", *shlex.split(line)],
        env={**os.environ, "FLAGPLOT_DATA_DIR": str(controller.folder)}, cwd=controller.folder,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip


async def test_by_command(controller: OutsideController) -> None:
    gate = asyncio.Semaphore(4)

    async def wrong(line: str, says: str, hint: str) -> str:
        async with gate:
            done = await asyncio.to_thread(by_command, controller, line)
        told = " ".join((done.stdout + done.stderr).split())
        clear = says in told and hint in told and "Traceback" not in told
        fine = clear and done.returncode in (Exit.USAGE, Exit.REFUSED, Exit.NOT_FOUND)
        return "" if fine else f"{line}: exit {done.returncode}: {told}"

    found = await asyncio.gather(*(wrong(*row) for row in BY_COMMAND))
    assert "\n".join(filter(None, found)) == ""


@pytest.mark.parametrize(("text", "says"), IN_THE_FILE)
def test_in_the_file(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "flagplotd.toml"
    file.write_text(text)
    with pytest.raises(Refused) as refused:
        cli.main(["check", "--data-dir", str(tmp_path)], standalone_mode=False)
    assert refused.value.message.startswith(f"{file}: ") and says in refused.value.message
    assert refused.value.exit == Exit.USAGE and "\n" not in refused.value.message
