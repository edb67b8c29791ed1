"""What the core wants done in the world, after its events are durable."""

from __future__ import annotations

from msgspec import Struct

from flagplot_wire.agentlink import Attempt
from flagplot_wire.events import Body
from flagplot_wire.ids import JobNumber
from flagplot_wire.replies import Acted, Failure, StepStarted, Submitted


class LaunchOn(Struct, frozen=True):
    """Send this attempt's part to `node`; the dispatcher adds the payload from the store."""

    node: str
    number: JobNumber
    attempt: int
    node_index: int


class StopOn(Struct, frozen=True):
    """End this attempt on `node`. `kill_wait_s` is the time from SIGTERM to SIGKILL."""

    node: str
    number: JobNumber
    attempt: int
    kill_wait_s: int
    reason: str = ""


class SignalOn(Struct, frozen=True):
    """Send one signal to this attempt on `node`."""

    node: str
    number: JobNumber
    attempt: int
    signal: str


class ExtendOn(Struct, frozen=True):
    """Tell `node` the new time limit of this attempt (seconds from its start, 0: none)."""

    node: str
    number: JobNumber
    attempt: int
    deadline_s: int


class RebootOn(Struct, frozen=True):
    """Have `node` reboot."""

    node: str
    reason: str


class AckOn(Struct, frozen=True):
    """Tell `node` that these ends are durable."""

    node: str
    ends: tuple[Attempt, ...]


class AckStepOn(Struct, frozen=True):
    """Tell `node` that these ends of steps (job, attempt, step) are durable."""

    node: str
    ends: tuple[tuple[JobNumber, int, int], ...]


class StopStepOn(Struct, frozen=True):
    """End a step's part on `node`."""

    node: str
    number: JobNumber
    attempt: int
    step: int
    kill_wait_s: int


class Replan(Struct, frozen=True):
    """Something changed that may let a job start: run a scheduling cycle soon."""


Order = LaunchOn | StopOn | SignalOn | ExtendOn | AckOn | AckStepOn | StopStepOn | RebootOn | Replan


class Outcome(Struct, frozen=True):
    """What one `step` did: events already applied to the state, orders, and the answer if somebody asked."""

    events: tuple[Body, ...] = ()
    orders: tuple[Order, ...] = ()
    reply: Submitted | Acted | StepStarted | Failure | None = None
