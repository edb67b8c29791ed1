"""Steps: what runs inside a job's allocation beside its script, as `srun` starts it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from flagplot_wire.ids import JobNumber

BATCH = "batch"
"""The id of the step that is the job's script."""


class StepSpec(Struct, frozen=True, omit_defaults=True):
    """What a step runs. `argv` empty: the user's login shell. `environment` is that of the caller.

    `tasks`, `nodes`, `tasks_per_node` and `cpus_per_task` are 0 while not given (the job's hold); `nodelist` names
    the nodes it must run on. `gpus_per_task` binds so many of the node's GPUs to each task (0: all of them).
    `pty` gives the one task a terminal of `rows` and `columns`. `stdin` says which ranks get the input (`all`,
    `none`, or a rank). With `kill_on_bad_exit` the first task that fails ends the others.
    `stdout`, `stderr` and `input` are file patterns opened on the nodes (empty: streamed).
    `container_image` runs it in a container of its own, with mounts and a folder as `JobSpec` has them. Without one it
    runs in the job's container, where the job has one, and with `no_container` outside of it. With `keep_left` what its
    tasks leave in the background goes on until the job ends, as behind an SSH server.
    """

    name: str
    argv: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    work_dir: str = ""
    tasks: int = 0
    nodes: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 0
    gpus_per_task: int = 0
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    pty: bool = False
    rows: int = 24
    columns: int = 80
    stdin: str = "all"
    stdout: str = ""
    stderr: str = ""
    input: str = ""
    append: bool = False
    kill_on_bad_exit: bool = False
    kind: Literal["run", "shell", "launcher"] = "run"
    container_image: str = ""
    container_mounts: str = ""
    container_workdir: str = ""
    no_container: bool = False
    keep_left: bool = False


class StepPart(Struct, frozen=True):
    """One node's part of a step: `tasks` of its tasks, the first of them with rank `first_rank`."""

    node: str
    tasks: int
    first_rank: int


class StepEnd(Struct, frozen=True, omit_defaults=True):
    """How a node's part of a step ended. `exit_code` is the highest of its tasks (128 + signal for one killed).

    `cause` is `exited`, `cancelled` (asked to, or with its job), `launch_failed` (`message` says why) or `lost`.
    `cpu_ms` is the CPU time of all its tasks, `memory_peak_mib` the largest resident size of one process.
    """

    number: JobNumber
    attempt: int
    step: int
    node: str
    cause: Literal["exited", "cancelled", "launch_failed", "lost"]
    exit_code: int = 0
    signal: int = 0
    started: int = 0
    time: int = 0
    cpu_ms: int = 0
    memory_peak_mib: int = 0
    message: str = ""


class Step(Struct, frozen=True, omit_defaults=True):
    """A step's record. Times are epoch seconds (0: not yet); `ended` names the parts known to have ended."""

    number: JobNumber
    attempt: int
    step: int
    name: str
    user: str
    state: Literal["RUNNING", "COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL"] = "RUNNING"
    parts: tuple[StepPart, ...] = ()
    command: str = ""
    start_time: int = 0
    end_time: int = 0
    exit_code: int = 0
    signal: int = 0
    cpu_ms: int = 0
    memory_peak_mib: int = 0
    message: str = ""
    ended: tuple[str, ...] = ()
    pty: bool = False
    batch: bool = False

    @property
    def tasks(self) -> int:
        """How many tasks it has in all."""
        return sum(part.tasks for part in self.parts)

    @property
    def id(self) -> str:
        """Its id as Slurm writes it: `123.0`, `123.batch`."""
        return f"{self.number}.{BATCH if self.batch else self.step}"


BATCH_STEP = -1
"""`Step.step` of the job's script."""
