"""A private slurmctld on loopback, with nodes in a cloud that never wakes: jobs are allocated, none is launched.

Everything lives in one temporary folder with ports of its own. The daemons are children that the kernel kills
should this process die, so that nothing is left behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CPUS, MEMORY_MIB, GPUS = 128, 1_000_000, 8
"""Of every node."""

SCHEDULER = (
    "batch_sched_delay=0,sched_min_interval=0,sched_interval=2,default_queue_depth=10000,partition_job_depth=0,"
    "max_sched_time=30,bf_interval=5,bf_max_time=40,bf_max_job_test=10000,bf_continue"
)
"""No pause between two looks and no short queue, so that what is measured is the scheduler, not its waiting."""

CONF = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={slurmd_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/ctld
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmctldDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters={scheduler}
PriorityType=priority/multifactor
GresTypes=gpu
MaxJobCount=200000
MinJobAge=300
MessageTimeout=60
SlurmctldTimeout=300
InactiveLimit=0
PrivateData=cloud
ResumeProgram=/bin/true
SuspendProgram=/bin/true
SuspendTime=-1
ResumeTimeout=36000
ResumeRate=0
SuspendRate=0
NodeName=n[1-{nodes}] CPUs={cpus} Sockets=2 CoresPerSocket={cores} ThreadsPerCore=1 RealMemory={memory} \
Gres=gpu:{gpus} State=CLOUD
PartitionName=main Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=DOWN
PartitionName=full Nodes=n[1-{nodes}] MaxTime=INFINITE State=UP
"""


class Unusable(Exception):
    """Slurm cannot be brought up here; the text says why."""


def installed() -> bool:
    """Whether slurmctld, its clients and munge are here."""
    return all(shutil.which(name) for name in ("slurmctld", "sbatch", "munged"))


def install(shared: Path) -> None:
    """Let `slurm/slurm_up.sh` of the shared folder install the packages, then take its cluster down again."""
    scripts = shared / "slurm"
    if not (scripts / "slurm_up.sh").is_file():
        raise Unusable(f"slurmctld is not installed, and there is no {scripts}/slurm_up.sh to install it with")
    print("installing Slurm …", file=sys.stderr)
    with folder_of_its_own() as folder:
        lab = str(folder / "lab")
        settings = {**os.environ, "SLURMLAB_NODES": "4", "SLURMLAB_GHOSTS": "0", "SLURMLAB_PORT": str(free_port())}
        try:
            up = subprocess.run(
                ["bash", str(scripts / "slurm_up.sh"), lab], check=False, env=settings, capture_output=True, text=True
            )
        finally:
            down = ["bash", str(scripts / "slurm_down.sh"), lab, "--wipe"]
            subprocess.run(down, check=False, capture_output=True, timeout=120)
    if not installed():
        raise Unusable(f"slurm_up.sh did not install it: {up.stderr.strip()[-500:]}")


@contextlib.contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """A temporary folder that munge accepts: world-executable, unlike the usual ones."""
    folder = Path(tempfile.mkdtemp(prefix="flagplot-b-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Sdiag:
    """What `sdiag` tells: jobs started by both schedulers, and the last backfill cycle (times in microseconds).

    `depth` counts the jobs the last cycle looked at, `tried` those among them that had a chance to start.
    """

    started: int
    cycles: int
    last_us: int
    mean_us: int
    depth: int
    tried: int
    main_us: int


class Slurm:
    """One slurmctld at a time over a folder; `held` jobs are kept from one start to the next."""

    def __init__(self, folder: Path, scheduler: str = SCHEDULER) -> None:
        self.folder, self.scheduler = folder, scheduler
        self.conf = folder / "slurm.conf"
        self.env = {**os.environ, "SLURM_CONF": str(self.conf), "LC_ALL": "C.UTF-8"}
        self.children: list[subprocess.Popen[bytes]] = []
        self.controller: subprocess.Popen[bytes] | None = None

    def munge(self) -> None:
        """Start munged with a key and a socket of its own."""
        home = self.folder / "munge"
        home.mkdir(mode=0o711)
        home.chmod(0o711)
        key = home / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        self._spawn(
            "munged", "--foreground", f"--socket={home}/munge.socket", f"--key-file={key}", "--num-threads=4",
            f"--pid-file={home}/munged.pid", f"--log-file={home}/munged.log", f"--seed-file={home}/munge.seed",
        )  # fmt: skip
        wait_for((home / "munge.socket").exists, 20, "munged")

    def start(self, nodes: int, keep: Path | None = None) -> None:
        """Start slurmctld with `nodes` nodes and an empty queue, or with the jobs that `keep` holds."""
        state = self.folder / "ctld"
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir(mode=0o700)
        if keep is not None:
            for name in ("job_state", "last_config_lite"):
                if (keep / name).is_file():
                    shutil.copy(keep / name, state / name)
            for scripts in keep.glob("hash.*"):
                shutil.copytree(scripts, state / scripts.name)
        text = CONF.format(
            host=socket.gethostname().split(".")[0], port=free_port(), slurmd_port=free_port(), folder=self.folder,
            scheduler=self.scheduler, nodes=nodes, cpus=CPUS, cores=CPUS // 2, memory=MEMORY_MIB, gpus=GPUS,
        )  # fmt: skip
        self.conf.write_text(text)
        (self.folder / "gres.conf").write_text(f"NodeName=n[1-{nodes}] Name=gpu Count={GPUS}\n")
        self.controller = self._spawn("slurmctld", "-D", "-i")
        wait_for(lambda: "is UP" in self.ask("scontrol", "ping", check=False), 60, "slurmctld")

    def stop(self) -> None:
        """Stop slurmctld; its state stays in the folder."""
        if self.controller is not None:
            self._end(self.controller, 60)
            self.controller = None

    def close(self) -> None:
        """Stop everything that was started, the last first."""
        self.stop()
        for child in reversed(self.children):
            self._end(child, 10)

    def keep(self, name: str) -> Path:
        """Copy the state of a stopped slurmctld beside it."""
        return Path(shutil.copytree(self.folder / "ctld", self.folder / name))

    def ask(self, *words: str, check: bool = True, seconds: float = 120) -> str:
        """What a client prints."""
        done = subprocess.run(words, check=False, env=self.env, capture_output=True, text=True, timeout=seconds)
        if check and done.returncode:
            raise Unusable(f"{' '.join(words[:4])}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(self, jobs: Sequence[Sequence[str]], clients: int = 8) -> float:
        """Submit jobs (their sbatch options) by several clients at once; seconds that it took."""

        def one(options: Sequence[str]) -> None:
            self.ask("sbatch", "--export=NONE", "-o", "/dev/null", *options, "--wrap=true")

        began = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            for _ in pool.map(one, jobs):
                pass
        return time.perf_counter() - began

    def partition(self, name: str, state: str) -> None:
        """Set a partition UP or DOWN."""
        self.ask("scontrol", "update", f"partitionname={name}", f"state={state}")

    def count(self, states: str, partition: str = "main") -> int:
        """Jobs in these states."""
        return len(self.ask("squeue", "-h", "-p", partition, "-t", states, "-o", "%i").split())

    def cpu_s(self) -> float:
        """The processor's seconds that slurmctld has used."""
        if self.controller is None:
            return 0.0
        fields = Path(f"/proc/{self.controller.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def diag(self) -> Sdiag:
        """The figures of `sdiag` now."""
        text = self.ask("sdiag")
        main, backfill = text.split("Backfilling stats", 1)
        backfill = backfill.split("Latency for", 1)[0]
        return Sdiag(
            started=figure(main, "Jobs started"),
            cycles=figure(backfill, "Total cycles"),
            last_us=figure(backfill, "Last cycle"),
            mean_us=figure(backfill, "Mean cycle"),
            depth=figure(backfill, "Last depth cycle"),
            tried=figure(backfill, r"Last depth cycle \(try sched\)"),
            main_us=figure(main, "Last cycle"),
        )

    def _spawn(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{words[0]}.out").open("ab")
        child = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.close()
        self.children.append(child)
        return child

    def _end(self, child: subprocess.Popen[bytes], seconds: float) -> None:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def figure(text: str, name: str) -> int:
    """The number behind `name:`; 0 while sdiag does not tell it (before the first cycle)."""
    found = re.search(rf"^\s*{name}:\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0


def wait_for(true: Callable[[], bool], seconds: float, what: str, every: float = 0.1) -> None:
    """Wait until `true()`; says what did not come."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise Unusable(f"{what} is not there after {seconds:.0f} s")
        time.sleep(every)
