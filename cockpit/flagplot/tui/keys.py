"""The keys of actions on jobs, the same wherever a job can be acted on."""

from __future__ import annotations

from textual.binding import Binding, BindingType

JOB_ACTIONS: list[BindingType] = [
    Binding("n", "submit", "Submit"),
    Binding("e", "edit", "Edit"),
    Binding("h", "hold", "Hold"),
    Binding("u", "release", "Release"),
    Binding("ctrl+d,ctrl+k", "cancel", "Cancel job"),
    Binding("R", "requeue", "Requeue", show=False),
]
"""Cancelling and requeuing are on keys that no finger hits by mistake, and ask first."""

CHANGES = frozenset({"submit", "edit", "hold", "release", "cancel", "requeue"})
"""The actions above, all unbound in read-only mode."""
