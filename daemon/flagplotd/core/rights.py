"""Who may preempt whom, and what becomes of the preempted: Slurm's PreemptType, PreemptMode, GraceTime and
PreemptExemptTime (slurm.schedmd.com/preempt.html)."""

from __future__ import annotations

from msgspec import Struct

from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Partition
from flagplot_wire.policy import PreemptMode, Qos
from flagplotd.core.state import Settings, State

_NO_QOS, _NO_PARTITION = Qos(""), Partition("")


class Rights(Struct, frozen=True):
    """The settings that rights follow from, apart from the state. A QoS's own words go before its partition's, and
    those before the cluster's."""

    settings: Settings
    qos: dict[str, Qos]
    partitions: dict[str, Partition]

    def may(self, job: Job, victim: Job) -> bool:
        """Whether `job` is above `victim`: by the list of its QoS, or by the tier of its partition."""
        if self.settings.preempt_by == "qos":
            return victim.spec.qos in self._qos(job).preempts
        return self._partition(job).priority_tier > self._partition(victim).priority_tier

    def any_right(self, job: Job) -> bool:
        """Whether there is anything that the job may preempt, running or not."""
        if self.settings.preempt_by == "qos":
            return bool(self._qos(job).preempts)
        tier = self._partition(job).priority_tier
        return any(other.priority_tier < tier for other in self.partitions.values())

    def mode(self, victim: Job) -> PreemptMode:
        """What becomes of it. GPUs keep their memory while a job is stopped, so that one with GPUs is requeued instead
        of suspended; one that must not be requeued is cancelled instead."""
        own = self._qos(victim).preempt_mode or self._partition(victim).preempt_mode
        mode = own or self.settings.preempt_mode
        allocation = victim.status.allocation
        if mode == "suspend" and allocation is not None and any(part.gpus for part in allocation.nodes):
            mode = "requeue"
        if mode == "requeue" and not victim.spec.requeue:
            mode = "cancel"
        return mode

    def grace_s(self, victim: Job) -> int:
        """Seconds from SIGTERM to SIGKILL; without a grace of its own those of every stopped job."""
        return self._qos(victim).grace_s or self._partition(victim).grace_s or self.settings.kill_wait_s

    def exempt(self, victim: Job, now: int) -> bool:
        """Whether its start is too short ago."""
        return now - victim.status.start_time < (self._qos(victim).exempt_s or self.settings.preempt_exempt_s)

    def rank(self, victim: Job) -> int:
        """How dear it is beside other victims: the priority of its QoS, or the tier of its partition."""
        by_qos = self.settings.preempt_by == "qos"
        return self._qos(victim).priority if by_qos else self._partition(victim).priority_tier

    def _qos(self, job: Job) -> Qos:
        return self.qos.get(job.spec.qos, _NO_QOS)

    def _partition(self, job: Job) -> Partition:
        return self.partitions.get(job.spec.partition, _NO_PARTITION)


def rights(state: State) -> Rights:
    """The rights of this moment."""
    return Rights(state.settings, dict(state.qos), dict(state.partitions))


def possible(state: State) -> bool:
    """Whether any job could have a right over another."""
    if state.settings.preempt_by == "qos":
        return any(qos.preempts for qos in state.qos.values())
    return len({partition.priority_tier for partition in state.partitions.values()}) > 1


def why_not_victim(state: State, of: Rights, victim: Job, now: int) -> str:
    """Why this job is nobody's victim now; empty where it may be."""
    allocation = victim.status.allocation
    if victim.status.state not in (JobState.RUNNING, JobState.SUSPENDED) or allocation is None:
        return "it does not run"
    mode = of.mode(victim)
    if mode == "off":
        return "it is not preempted"
    if victim.status.state is JobState.SUSPENDED and mode != "suspend":
        return "it is suspended already"
    if of.exempt(victim, now):
        return "it started too short ago"
    away = [name for name in allocation.names if name not in state.nodes or not state.nodes[name].responding]
    if away:
        return f"{away[0]} does not respond"
    if victim.status.parts_ended:
        return "it is ending"
    return ""
