"""Styles by role: what a thing means decides how it looks, the theme decides the colour.

A theme may set a variable named like the role (`state-running`, `owner-3`, …) to any Rich style; a role that
the theme leaves out takes a colour of the theme that every theme has.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.color import Color, ColorParseError

FALLBACK: dict[str, tuple[str, str]] = {
    # role: (theme variable of Textual, attributes)
    "plain": ("", ""),
    "bold": ("", "bold"),
    "faint": ("text-muted", "dim"),
    "dim": ("text-muted", "dim"),
    "brand": ("accent", "bold"),
    "badge": ("warning", "bold reverse"),
    "key": ("accent", "bold"),
    "good": ("success", ""),
    "warning": ("warning", ""),
    "bad": ("error", "bold"),
    "tab": ("text-muted", ""),
    "tab-on": ("accent", "bold reverse"),
    "header": ("text-muted", "bold"),
    "header-sorted": ("accent", "bold"),
    "cursor": ("", "reverse"),
    "cursor-blurred": ("", "underline"),
    "marked": ("", "bold"),
    "mark": ("accent", "bold"),
    "match": ("warning", "bold underline"),
    "number": ("", ""),
    "meter": ("secondary", ""),
    "state-running": ("success", ""),
    "state-pending": ("primary", ""),
    "state-held": ("warning", ""),
    "state-suspended": ("warning", ""),
    "state-completing": ("accent", ""),
    "state-completed": ("text-muted", "dim"),
    "state-cancelled": ("text-muted", "dim"),
    "state-failed": ("error", "bold"),
    "state-timeout": ("error", ""),
    "state-idle": ("success", ""),
    "state-mixed": ("primary", ""),
    "state-allocated": ("accent", ""),
    "state-draining": ("warning", ""),
    "state-drained": ("warning", "bold"),
    "state-down": ("error", "bold"),
    "state-unknown": ("text-muted", ""),
    "state-planned": ("accent", ""),
}

CURSORS = {"cursor": "block-cursor", "cursor-blurred": "block-cursor-blurred"}
"""Roles of the cursor's row and the prefix of Textual's own variables for it."""

OWNERS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00", "#b3b3b3")
"""Okabe and Ito's colours, told apart by colour-blind eyes; used where the theme names no owners."""


def role_style(role: str, variables: Mapping[str, str]) -> Style:
    """The style of a role under a theme's variables."""
    own = variables.get(f"role-{role}", variables.get(role))
    if own is not None:
        return parse_style(own)
    if role in CURSORS and (style := cursor_style(CURSORS[role], variables)):
        return style
    base, attributes = FALLBACK.get(role, ("", ""))
    style = parse_style(variables.get(base, "")) if base else Style()
    if not style.color and base.startswith("text-"):
        style = Style()
    return style + Style.parse(attributes) if attributes else style


def cursor_style(prefix: str, variables: Mapping[str, str]) -> Style | None:
    """The cursor's row in Textual's own cursor colours; None where the theme has none (then it is reversed)."""
    try:
        back = Color.parse(variables.get(f"{prefix}-background", ""))
        base = Color.parse(variables.get("background", "black"))
    except ColorParseError:
        return None
    if back.ansi is not None or base.ansi is not None:
        return None
    solid = base.blend(back.with_alpha(1.0), back.a)
    front = solid.get_contrast_text(1.0)
    return Style(color=front.rich_color, bgcolor=solid.rich_color, bold=prefix == "block-cursor")


def parse_style(text: str) -> Style:
    """A Rich style from a theme's value; values that only Textual knows (`auto 60%`) give a plain style."""
    try:
        return Style.parse(text) if text else Style()
    except StyleSyntaxError:
        return Style()


def owner_colour(user: str, mine: str, variables: Mapping[str, str], taken: dict[str, int]) -> str:
    """The colour of an owner: the person's own jobs always take the first.

    Others take the one their name points to, or the next that nobody has; `taken` remembers who has which.
    """
    owners: list[str] = []
    while f"owner-{len(owners) + 1}" in variables:
        owners.append(variables[f"owner-{len(owners) + 1}"])
    palette = owners or list(OWNERS)
    if user == mine or len(palette) == 1:
        return palette[0]
    others = len(palette) - 1
    if user not in taken:
        slot = crc32(user.encode()) % PLACES
        used = {place % others for place in taken.values()}
        taken[user] = next((slot + step for step in range(others) if (slot + step) % others not in used), slot)
    return palette[1 + taken[user] % others]


PLACES = 840
"""Owners are given one of so many places, whatever the size of a theme's palette (its multiples go round)."""
