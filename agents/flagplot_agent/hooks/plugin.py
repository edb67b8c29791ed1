"""What a plugin of the agent is. A distribution names one by an entry point of the group `flagplot.agent.plugins`.

The entry point is called without arguments when the agent starts (a subclass of `Plugin` will do); its methods are called
for every job on this node, each in a thread of the agent, as the agent's user. What they raise ends the job's start.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

GROUP = "flagplot.agent.plugins"


class HookJob(Struct, frozen=True):
    """The part of an attempt that runs on this node. `facts` are the variables that prolog and epilog get."""

    number: int
    attempt: int
    node: str
    user: str
    uid: int
    gid: int
    name: str
    work_dir: str
    gpus: tuple[str, ...]
    facts: dict[str, str]


class HookEnd(Struct, frozen=True):
    """How the part ended: `cause` and `message` as in `flagplot_wire.agentlink.AttemptEnd`."""

    cause: str
    exit_code: int
    signal: int
    message: str


class Plugin:
    """Does nothing; override what you need."""

    def before_launch(self, job: HookJob) -> None:
        """After the prolog, before any process of the job. Raise to refuse the start."""

    def environment(self, job: HookJob, environment: Mapping[str, str]) -> Mapping[str, str | None]:
        """Variables to set (None: to remove) in a task whose environment is `environment`."""
        return {}

    def after_end(self, job: HookJob, end: HookEnd) -> None:
        """All processes of the job are gone; the epilog comes after this."""
