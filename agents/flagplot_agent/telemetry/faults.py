"""When a GPU that answers is unfit for new jobs all the same. Pure."""

from __future__ import annotations

from msgspec import Struct

COOLER_C = 5
"""A card counts as hot until it is so much cooler than where it slows down."""
OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
"""Xids that a job's own mistake causes (NVIDIA's Xid catalogue; its Kubernetes device plugin leaves out the same)."""


class Health(Struct, frozen=True):
    """What the driver tells of a card; None where it does not. Temperatures are °C."""

    uncorrected: int | None = None
    """ECC errors since the driver was loaded that could not be corrected."""
    remap_failed: bool | None = None
    remap_pending: bool | None = None
    temperature_c: int | None = None
    slowdown_c: int | None = None
    xid: int = 0
    """The last critical error of the card itself since the agent was started (0: none)."""


def fault_of(health: Health, was_hot: bool = False) -> str:
    """What is wrong and what to do; empty for a healthy card."""
    if health.xid:
        return f"Xid {health.xid}: reset the card, then restart the agent"
    if health.remap_failed:
        return "its memory has no spare rows left: replace the card"
    if health.remap_pending:
        return "a row of its memory waits to be remapped: reset the card"
    if health.uncorrected:
        return f"{health.uncorrected} uncorrected ECC errors since its driver was loaded: reset the card"
    return f"hot: it slows down at {health.slowdown_c} °C" if is_hot(health, was_hot) else ""


def is_hot(health: Health, was_hot: bool) -> bool:
    """Whether it is so hot that it slows down, or was and has not cooled down yet."""
    if health.temperature_c is None or not health.slowdown_c:
        return False
    return health.temperature_c >= health.slowdown_c - (COOLER_C if was_hot else 0)


def is_of_the_card(xid: int) -> bool:
    """Whether a critical error tells of the card and not of a program."""
    return xid > 0 and xid not in OF_PROGRAMS
