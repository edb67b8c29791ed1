"""What to do about jobs that use more GPU memory than their share: pure, from samples and a clock that is handed in.

CUDA has no limit of its own for processes that share a card. Whoever holds a share is watched instead, so that the
one who takes too much is ended before a neighbour's allocation fails.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from flagplot_wire.node_policy import check_node_policy

WARN_PERCENT = 90
CALM_PERCENT = 80
"""A warning is given again only after use was below this."""
FREEING_MS = 5_000
"""For the driver to give back the memory of a killed process; until then no other of its job is killed."""


class Policy(Struct, frozen=True):
    """What follows an overrun; `after_ms` is how long `kill-after` lets it last."""

    act: Literal["warn", "kill-youngest", "kill-after"] = "kill-youngest"
    after_ms: int = 0


class Process(Struct, frozen=True):
    """A process on a GPU. `started` grows with its age's end (clock ticks since boot); None MiB: not measured."""

    pid: int
    started: int
    memory_mib: int | None


class Share(Struct, frozen=True):
    """What an attempt holds of one shared GPU, and its processes there."""

    number: int
    attempt: int
    gpu: int
    limit_mib: int
    processes: tuple[Process, ...] = ()


class Standing(Struct, frozen=True):
    """What is remembered of a share between two samples; moments in ms, None: not the case."""

    warned: bool = False
    unmeasured: bool = False
    over_since: int | None = None
    killed: Process | None = None
    killed_at: int = 0


class Action(Struct, frozen=True):
    """`warn` the owner, `kill` one process (`pid`) or `end` the attempt; `message` is a sentence without a stop."""

    do: Literal["warn", "kill", "end"]
    number: int
    attempt: int
    message: str
    pid: int = 0


Key = tuple[int, int, int]
"""(job number, attempt, GPU)."""
Standings = dict[Key, Standing]


def parse_policy(text: str) -> Policy:
    """`warn`, `kill-youngest` or `kill-after=SECONDS`; raises `Refused`."""
    act, _, seconds = check_node_policy("vram_guard", text).partition("=")
    if act == "kill-after":
        return Policy("kill-after", int(seconds) * 1000)
    return Policy("warn" if text == "warn" else "kill-youngest")


def judge(shares: list[Share], before: Standings, policy: Policy, now: int) -> tuple[list[Action], Standings]:
    """What to do, and what to remember for the next sample. `now` is in ms of a clock that never goes back.

    Only what was measured counts: an unmeasured process is neither zero nor a reason to act, and the measured
    rest is a lower bound of the truth.
    """
    actions: list[Action] = []
    after: Standings = {}
    for share in shares:
        key = (share.number, share.attempt, share.gpu)
        after[key] = _judge(share, before.get(key, Standing()), policy, now, actions)
    return actions, after


def _judge(share: Share, old: Standing, policy: Policy, now: int, actions: list[Action]) -> Standing:
    measured = [one for one in share.processes if one.memory_mib is not None]
    used = sum(one.memory_mib or 0 for one in measured)
    words = f"GPU {share.gpu}: it used {used} MiB of GPU memory, its share is {share.limit_mib} MiB"

    def act(do: Literal["warn", "kill", "end"], more: str = "", pid: int = 0) -> None:
        actions.append(Action(do, share.number, share.attempt, words + more, pid))

    new = replace(old, unmeasured=len(measured) < len(share.processes))
    if new.unmeasured and not old.unmeasured:
        act("warn", "; the memory of some of its processes cannot be measured, so its share is not guarded in full")
    if used * 100 < share.limit_mib * CALM_PERCENT:
        new = replace(new, warned=False)
    if used <= share.limit_mib:
        if used * 100 >= share.limit_mib * WARN_PERCENT and not new.warned:
            act("warn", f" ({used * 100 // share.limit_mib} %)")
            new = replace(new, warned=True)
        return replace(new, over_since=None, killed=None)
    since = now if old.over_since is None else old.over_since
    new = replace(new, over_since=since, warned=True)
    if policy.act == "kill-youngest":
        if _freeing(share, old, now):
            return new
        youngest = max(measured, key=lambda one: (one.started, one.pid))
        act("kill", "; its youngest process there was killed", youngest.pid)
        return replace(new, killed=youngest, killed_at=now)
    if policy.act == "kill-after" and now - since >= policy.after_ms:
        act("end")
    elif old.over_since is None:
        act("warn", "" if policy.act == "warn" else f"; it is ended if that lasts {policy.after_ms // 1000} s")
    return new


def _freeing(share: Share, old: Standing, now: int) -> bool:
    """Whether a process killed before still holds its memory, and has a right to the time that takes."""
    if old.killed is None or now - old.killed_at >= FREEING_MS:
        return False
    return any((one.pid, one.started) == (old.killed.pid, old.killed.started) for one in share.processes)
