"""Jobs that hold GPUs and do not use them: when to warn and when to end them. Pure, from samples and a clock."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from flagplot_wire.node_policy import check_node_policy

Key = tuple[int, int]
"""(job number, attempt)."""


class IdlePolicy(Struct, frozen=True):
    """What follows when a job's GPUs do nothing for `after_s` seconds."""

    act: Literal["off", "warn", "end"] = "off"
    after_s: int = 0


class Holder(Struct, frozen=True):
    """An attempt that holds GPUs here. `use` is their per cent, None where not measured; `alone`: on no other node."""

    number: int
    attempt: int
    use: tuple[int | None, ...]
    alone: bool = True


class Idling(Struct, frozen=True):
    """Since when (seconds) all its GPUs do nothing, and whether it was warned of that."""

    since: int
    warned: bool = False


def parse_idle(text: str) -> IdlePolicy:
    """`off`, `warn-after=SECONDS` or `end-after=SECONDS`; raises `Refused`."""
    if text == "off":
        return IdlePolicy()
    act, _, seconds = check_node_policy("idle_gpus", text).partition("-after=")
    return IdlePolicy("warn" if act == "warn" else "end", int(seconds))


def judge_idle(
    holders: list[Holder], before: dict[Key, Idling], policy: IdlePolicy, now: int
) -> tuple[list[tuple[Literal["warn", "end"], Key, int]], dict[Key, Idling]]:
    """(What to do, to whom, after how many idle seconds), and what to remember.

    With `end` a job is warned after half of the time, and never ended unwarned, however late one looks. One that runs on other nodes too is only warned, since they
    may be busy. A GPU that was not measured is not idle.
    """
    actions: list[tuple[Literal["warn", "end"], Key, int]] = []
    after: dict[Key, Idling] = {}
    for one in holders:
        key = (one.number, one.attempt)
        if policy.act == "off" or not one.use or any(use != 0 for use in one.use):
            continue
        idling = before.get(key, Idling(now))
        lasts = now - idling.since
        if policy.act == "end" and one.alone and idling.warned and lasts >= policy.after_s:
            actions.append(("end", key, lasts))
        elif not idling.warned and lasts * (2 if policy.act == "end" else 1) >= policy.after_s:
            actions.append(("warn", key, lasts))
            idling = replace(idling, warned=True)
        after[key] = idling
    return actions, after
