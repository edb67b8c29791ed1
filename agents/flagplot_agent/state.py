"""What an agent decides about orders: pure, without the keeper, the disk or the controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.ids import Epoch, JobNumber

Decision = Literal["start", "answer_started", "answer_ended", "refuse"]
Key = tuple[int, int]
"""(job number, attempt)."""


@dataclass(slots=True)
class AgentState:
    """Attempts: running with their start time (0: not confirmed), ended, and which ends are acknowledged."""

    epoch: Epoch = Epoch(0)
    running: dict[Key, int] = field(default_factory=dict)
    ended: dict[Key, AttemptEnd] = field(default_factory=dict)
    acknowledged: dict[Key, None] = field(default_factory=dict)
    """In the order of their acknowledgement."""
    told: set[Key] = field(default_factory=set)
    """Ends that were sent since the last call of `overdue`."""

    def obeys(self, epoch: Epoch) -> bool:
        """True unless the order comes from a controller older than one already obeyed."""
        return epoch >= self.epoch

    def decide(self, epoch: Epoch, number: int, attempt: int) -> Decision:
        """What to do with a start: an attempt never starts twice, and an older one than known never starts."""
        if not self.obeys(epoch):
            return "refuse"
        key = (number, attempt)
        if key in self.running:
            return "answer_started"
        if key in self.ended:
            return "answer_ended"
        newer = any(known == number and other > attempt for known, other in (*self.running, *self.ended))
        return "refuse" if newer else "start"

    def attempts(self) -> tuple[Attempt, ...]:
        """What runs, for hello and heartbeats."""
        return tuple(Attempt(JobNumber(number), attempt) for number, attempt in sorted(self.running))

    def unacknowledged(self) -> tuple[AttemptEnd, ...]:
        """Ends that the controller may not have."""
        return tuple(end for key, end in sorted(self.ended.items()) if key not in self.acknowledged)

    def overdue(self) -> list[AttemptEnd]:
        """Ends to send again: neither acknowledged nor sent since the last call."""
        found = [end for end in self.unacknowledged() if (end.number, end.attempt) not in self.told]
        self.told.clear()
        return found

    def end(self, end: AttemptEnd) -> None:
        """An attempt ended."""
        self.running.pop((end.number, end.attempt), None)
        self.ended[end.number, end.attempt] = end

    def acknowledge(self, number: int, attempt: int) -> None:
        """The controller has this end."""
        if (number, attempt) in self.ended:
            self.acknowledged[number, attempt] = None

    def forget(self, keep: int) -> list[Key]:
        """Drop the longest acknowledged ends beyond `keep`; returns them, for their folders to be removed."""
        surplus = len(self.acknowledged) - keep
        old = list(self.acknowledged)[: max(surplus, 0)]
        for key in old:
            del self.acknowledged[key]
            del self.ended[key]
        return old
