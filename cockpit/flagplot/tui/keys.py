"""The keys of actions on jobs, the same wherever a job can be acted on."""

from __future__ import annotations

from textual.binding import Binding, BindingType

JOB_ACTIONS: list[BindingType] = [
    Binding("n", "submit", "Submit", tooltip="Submit a new job"),
    Binding("E", "resubmit", "Resubmit", show=False, tooltip="Submit the job anew, with changes"),
    Binding("e", "edit", "Edit", tooltip="Edit the job: time limit, name, partition, …"),
    Binding("ctrl+d,ctrl+k", "cancel", "Cancel job", tooltip="Cancel job, after asking"),
    Binding("h", "hold", "Hold", tooltip="Hold: a pending job does not start"),
    Binding("u", "release", "Release", tooltip="Release a held job"),
    Binding("R", "requeue", "Requeue", show=False, tooltip="Requeue: stop it and start it anew, after asking"),
]
"""Cancelling and requeuing are on keys that no finger hits by mistake, and ask first."""

FIELD_KEYS: list[BindingType] = [
    Binding("tab", "app.focus_next", "Next field", show=False, priority=True),
    Binding("shift+tab", "app.focus_previous", "Previous field", show=False, priority=True),
]
"""In forms: they act before the next key is read, so that fast typing lands in the next field over a slow line too."""

CHANGES = frozenset({"submit", "resubmit", "edit", "hold", "release", "cancel", "requeue"})
"""The actions above, all unbound in read-only mode."""
