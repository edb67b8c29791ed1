"""A controller for one agent: an SSH server that speaks the frames and remembers all that it hears."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
from msgspec import Struct

from flagplot_wire import agentlink as al
from flagplot_wire.alloc import Allocation, GpuPart, NodeAlloc
from flagplot_wire.codec import Decoder, encode
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import JobSpec, Payload, Request

GPU_NODE = """
sockets = 1
cores = 64
threads = 1
memory_mib = 65536
switch = "s1"
gpus = [{type = "h100", count = 4, vram_mib = 81920, name = "NVIDIA H100 80GB HBM3"}]
"""


class FakeController:
    """Accepts the agent; `heard` are its frames in order, over all its connections."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.epoch = 1
        self.port = 0
        self.heard: list[Struct] = []
        self.hellos: list[al.AgentHello] = []
        self.acknowledging = True
        self.heartbeat_s = 1
        self.policies: dict[str, str] = {}
        self.clock_ahead_s = 0
        self._process: asyncssh.SSHServerProcess[bytes] | None = None
        self._listener: asyncssh.SSHAcceptor | None = None
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(folder / "agent"))
        key.write_public_key(str(folder / "agent.pub"))
        host = asyncssh.generate_private_key("ssh-ed25519")
        host.write_private_key(str(folder / "host"))
        host.write_public_key(str(folder / "host.pub"))

    async def open(self) -> None:
        """Listen, on the same port as before."""
        self._listener = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_host_keys=[str(self.folder / "host")],
            authorized_client_keys=str(self.folder / "agent.pub"),
            process_factory=self._serve,
            encoding=None,
        )
        self.port = self._listener.get_port()

    async def close(self) -> None:
        """Drop the agent and stop listening."""
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
        if self._process is not None:
            if not self._process.channel.is_closing():
                self._process.channel.get_connection().abort()
            self._process = None

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        assert process.subsystem == "flagplot-agent"
        assert process.get_extra_info("username") == "agent"
        self._process = process
        decoder: Decoder[Any] = Decoder(al.FromAgent)
        try:
            while data := await process.stdin.read(65_536):
                for _, body in decoder.feed(data):
                    self._take(process, body)
        except (asyncssh.Error, OSError):
            return
        finally:
            process.close()

    def _take(self, process: asyncssh.SSHServerProcess[bytes], body: Struct) -> None:
        self.heard.append(body)
        if isinstance(body, al.AgentHello):
            self.hellos.append(body)
            process.stdout.write(
                encode(al.AgentWelcome(Epoch(self.epoch), "test", self.heartbeat_s, 1, 5, **self.policies))
            )
        if isinstance(body, al.AskTime):
            self.send(al.TellTime(body.call, int(time.time()) + self.clock_ahead_s))
        ends = body.ended if isinstance(body, al.AgentHello) else (body.end,) if isinstance(body, al.Ended) else ()
        if ends and self.acknowledging:
            self.send(al.AckEnds(tuple(al.Attempt(end.number, end.attempt) for end in ends)))

    def send(self, body: Struct) -> None:
        """Send one frame to the agent that is connected."""
        assert self._process is not None
        self._process.stdout.write(encode(body))

    def health(self) -> al.HealthReport | None:
        """The last report of the node's health."""
        return next((body for body in reversed(self.heard) if isinstance(body, al.HealthReport)), None)

    def ends(self, number: int, attempt: int = 1) -> list[al.AttemptEnd]:
        """Every report of an end, repeated ones too."""
        found = [body.end for body in self.heard if isinstance(body, al.Ended)]
        found += [end for hello in self.hellos for end in hello.ended]
        return [end for end in found if (end.number, end.attempt) == (number, attempt)]

    async def end(self, number: int, attempt: int = 1, seconds: float = 20) -> al.AttemptEnd:
        """Wait for an end."""
        return (await until(lambda: self.ends(number, attempt), seconds, f"the end of {number}.{attempt}"))[0]

    async def started(self, number: int, attempt: int = 1) -> al.Started:
        """Wait for the confirmation of a start."""

        def find() -> list[al.Started]:
            told = [body.started if isinstance(body, al.Ended) else body for body in self.heard]
            all_of_them = [body for body in told if isinstance(body, al.Started)]
            return [one for one in all_of_them if (one.number, one.attempt) == (number, attempt)]

        return (await until(find, 20, f"the start of {number}.{attempt}"))[0]

    async def piece(self, call: al.ReadFile) -> al.FilePiece:
        """Ask for a piece of a file."""
        self.send(call)

        def find() -> list[al.FilePiece]:
            return [body for body in self.heard if isinstance(body, al.FilePiece) and body.call == call.call]

        return (await until(find, 20, "a piece of a file"))[0]


class Rig:
    """A fake controller and a real agent process with its keeper."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.agent_dir = folder / "agent-dir"
        self.controller = FakeController(folder)
        (folder / "node.toml").write_text(GPU_NODE)
        self.agent: subprocess.Popen[bytes] | None = None
        self.options: list[str] = []
        self.environment: dict[str, str] = {}
        self.simulated = True
        self.run_as: dict[str, Any] = {}
        """More arguments of `Popen` for the agent."""
        self.prefix: list[str] = []
        """A command that the agent is started by."""

    async def start(self) -> None:
        """Start the agent and wait until it has joined."""
        joined = len(self.controller.hellos)
        with open(self.folder / "agent.log", "ab") as log:
            self.agent = subprocess.Popen(
                [
                    *self.prefix, sys.executable, "-m", "flagplot_agent.main", "run", "--dir", str(self.agent_dir), "--node", "gpu01",
                    "--controller", f"127.0.0.1:{self.controller.port}", "--key", str(self.folder / "agent"),
                    "--host-key", str(self.folder / "host.pub"),
                    *(("--simulate", str(self.folder / "node.toml")) if self.simulated else ()), *self.options,
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **self.environment}, **self.run_as,
            )  # fmt: skip
        await until(lambda: len(self.controller.hellos) > joined, 30, f"a hello\n{self.log()}")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Kill the agent and reap it."""
        assert self.agent is not None
        self.agent.send_signal(number)
        self.agent.wait(20)

    def log(self) -> str:
        """What agent and keeper wrote."""
        paths = [self.folder / "agent.log", self.agent_dir / "keeper.log"]
        return "".join(path.read_text(errors="replace")[-3000:] for path in paths if path.exists())

    def keeper_pid(self) -> int:
        """The keeper's pid, told by its socket."""
        return keeper_pid(self.agent_dir)

    def launch(
        self, number: int, script: str, *, attempt: int = 1, send: bool = True, allocation: Allocation | None = None,
        node_index: int = 0, deadline_s: int = 0, kill_wait_s: int = 5, request: Request | None = None,
        stdout: str = "%j.out", uid: int | None = None, user: str = "", environment: dict[str, str] | None = None,
        epoch: int | None = None, **more: Any,
    ) -> al.Launch:  # fmt: skip
        """Make a launch of a script and send it."""
        spec = more.pop("spec", None) or JobSpec(
            f"job{number}", str(self.work), request or Request(), stdout=stdout, partition="gpu"
        )
        launch = al.Launch(
            Epoch(self.controller.epoch if epoch is None else epoch),
            JobNumber(number),
            attempt,
            user or _own_name(),
            os.getuid() if uid is None else uid,
            os.getgid() if uid is None else more.pop("gid", uid),
            spec,
            Payload(
                script,
                environment={"PATH": os.environ["PATH"]} | (environment or {}),
                args=more.pop("args", ()),
                umask=more.pop("umask", 0o022),
                limits=more.pop("limits", {}),
            ),
            allocation or Allocation((part("gpu01"),)),
            node_index,
            deadline_s,
            kill_wait_s,
            **more,
        )
        if send:
            self.controller.send(launch)
        return launch

    def out(self, name: str) -> str:
        """A file of the working folder; empty while it is not there."""
        path = self.work / name
        return path.read_text(errors="replace") if path.exists() else ""

    async def close(self) -> None:
        """End agent, jobs and keeper, and check that they are gone."""
        keeper = self.keeper_pid() if (self.agent_dir / "keeper.sock").exists() else 0
        if self.agent is not None and self.agent.poll() is None:
            self.controller.send(al.Leave("cancel"))
            try:
                await asyncio.to_thread(self.agent.wait, 20)
            except subprocess.TimeoutExpired:
                self.kill()
        if keeper:
            await until(lambda: not alive(keeper), 20, f"the keeper's end\n{self.log()}")
        await self.controller.close()


def part(
    node: str,
    *,
    gpus: tuple[GpuPart, ...] = (),
    tasks: int = 1,
    first_rank: int = 0,
    memory: int = 0,
    cpus: str = "62-63",
) -> NodeAlloc:
    """One node's part; its CPUs do not exist here unless others are given, so nothing is bound."""
    return NodeAlloc(node, 2, cpus, memory, gpus, tasks, first_rank)


@asynccontextmanager
async def opened_rig(for_people: bool = False) -> AsyncIterator[Rig]:
    """A rig whose controller listens and whose agent is not started yet; ended and removed at the end. With
    `for_people` other users of this machine can go to its folder and write to `work`."""
    folder = Path(tempfile.mkdtemp(prefix="flagplot-a-"))
    made = Rig(folder)
    if for_people:
        folder.chmod(0o711)
        made.work.chmod(0o777)
    await made.controller.open()
    yield made
    await made.close()
    shutil.rmtree(folder)


def alive(pid: int) -> bool:
    """True while a process lives (one that waits to be reaped does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def keeper_pid(folder: Path) -> int:
    """Who listens on the keeper's socket; 0 when nobody does."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(str(folder / "keeper.sock"))
        except (ConnectionRefusedError, FileNotFoundError):
            return 0
        credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[:4], sys.byteorder)


async def until(condition: Callable[[], Any], seconds: float = 20, what: str = "it") -> Any:
    """Wait for a condition; fails naming `what`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come within {seconds} s"
        await asyncio.sleep(0.01)
    return value


def _own_name() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name
