"""What the agent knows of the attempts of its node, in memory and in the journal for the agent that comes after."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from flagplot_agent.launch.journal import Journal, key_of, name_of
from flagplot_agent.state import AgentState, Key
from flagplot_wire import agentlink as al
from flagplot_wire.ids import JobNumber

Held = dict[Key, tuple[dict[str, Any] | None, list[dict[str, Any]]]]
"""What the keeper noted of each running attempt (None: it has not started it), and the GPUs that it holds."""


class Attempts:
    """`state` decides about orders; here is what was written down of each attempt at its start."""

    def __init__(self, journal: Journal, state: AgentState) -> None:
        self.journal = journal
        self.state = state
        self._starts: dict[Key, dict[str, Any]] = {}
        self._begun: dict[Key, dict[str, Any]] = {}
        self._standing: dict[Key, dict[str, dict[str, Any]]] = {}
        """Stops and extensions of what runs, for a keeper that comes after this one."""

    def read_journal(self, owed: Callable[[str, dict[str, Any]], bool]) -> None:
        """Take up what an agent before us began; `owed` tells whether something is still to do after an end."""
        for name in self.journal.names():
            key = key_of(name)
            start = self._starts[key] = self.journal.start_of(name)
            begun = self.journal.begun_of(name)
            if begun is not None:
                self._begun[key] = begun
            end = self.journal.end_of(name)
            if end is None or owed(name, start):
                self.state.running[key] = begun["started"] if begun else 0
            else:
                self.state.end(end_of(key, end))
                if self.journal.acknowledged(name):
                    self.state.acknowledge(*key)

    def begin(self, key: Key, start: dict[str, Any]) -> None:
        """An attempt was written down."""
        self._starts[key] = start
        self.state.running[key] = 0

    def started(self, key: Key, noted: dict[str, Any]) -> None:
        """The keeper started a running attempt."""
        self.state.running[key] = noted["started"]
        self._begun[key] = noted

    def ended(self, key: Key, found: dict[str, Any]) -> al.AttemptEnd:
        """The end of an attempt as the journal has it was dealt with; returns it for the controller."""
        end = end_of(key, found)
        self.state.end(end)
        self._begun.pop(key, None)
        self._standing.pop(key, None)
        return end

    def acknowledged(self, keys: Iterable[Key], keep: int) -> None:
        """The controller has these ends. The newest `keep` are kept, to know a start that is repeated."""
        for key in keys:
            self.state.acknowledge(*key)
            self.journal.acknowledge(name_of(key))
        for key in self.state.forget(keep):
            self._starts.pop(key, None)
            self.journal.remove(name_of(key))

    def stand(self, key: Key, order: dict[str, Any]) -> None:
        """An order of the keeper that stays in force whichever keeper is there."""
        self._standing.setdefault(key, {})[order["do"]] = order

    def standing(self, key: Key) -> list[dict[str, Any]]:
        """The orders that are in force."""
        return list(self._standing.get(key, {}).values())

    def why_stopped(self, key: Key) -> str | None:
        """The reason of a stop that stands against an attempt; None where it may go on."""
        stop = self._standing.get(key, {}).get("stop")
        return None if stop is None else str(stop["reason"])

    def start_of(self, key: Key) -> dict[str, Any]:
        """What was written down of an attempt that is known here."""
        return self._starts[key]

    def scripts(self, key: Key) -> dict[int, str]:
        """The script that each task of an attempt executes here, by rank."""
        script = str(self.journal.script(name_of(key)))
        return {task["rank"]: script for task in self._starts[key]["recipe"]["tasks"]}

    def output_of(self, key: Key, stream: str) -> str | None:
        """The file of an attempt's `stdout` or `stderr` (empty: it has none here); None for an unknown attempt."""
        start = self._starts.get(key)
        return str(start[stream] or start["stdout"]) if start else None

    def confirmation(self, key: Key) -> al.Started | None:
        """What the controller is told of a running attempt's start; None while the keeper has not started it."""
        begun = self.begun(key)
        if begun is None:
            return None
        start = self._starts[key]
        notes = (*start["recipe"]["notes"], *begun["notes"])
        return al.Started(
            JobNumber(key[0]), key[1], self.state.running[key], start["stdout"], start["stderr"],
            tuple(begun["enforced"]), notes,
        )  # fmt: skip

    def begun(self, key: Key) -> dict[str, Any] | None:
        """What the keeper noted of a running attempt; None while it has not started it."""
        return self._begun.get(key) if self.state.running.get(key) else None

    def held(self) -> Held:
        """What runs."""
        return {key: (self._begun.get(key), self._starts[key]["gpus"]) for key in self.state.running}

    def nodes_of(self, key: Key) -> int:
        """On how many nodes a running attempt is; 0 where it was begun before that was written down."""
        return int(self._starts[key].get("nodes", 0))

    def kill_wait(self, key: Key) -> int:
        """Seconds from SIGTERM to SIGKILL of a running attempt."""
        return int(self._starts[key]["recipe"]["kill_wait_s"])

    def uid_of(self, number: int) -> int | None:
        """The uid that a job runs as here; None where it does not run."""
        found = next((key for key in self.state.running if key[0] == number), None)
        return int(self._starts[found]["recipe"]["uid"]) if found is not None else None

    def job_of(self, uid: int) -> tuple[int, list[str]] | None:
        """The job of a uid that started last here, and the files to join its control groups by; None without one."""
        theirs = [
            (started, key)
            for key, started in self.state.running.items()
            if started and key in self._begun and self._starts[key]["recipe"]["uid"] == uid
        ]
        if not theirs:
            return None
        key = max(theirs)[1]
        return key[0], list(self._begun[key].get("joins", ()))


def end_of(key: Key, found: dict[str, Any]) -> al.AttemptEnd:
    """An end as the journal has it, for the controller."""
    end: al.AttemptEnd = msgspec.convert({"number": key[0], "attempt": key[1], **found}, al.AttemptEnd)
    return end
