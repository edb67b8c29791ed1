"""The command line's settings and columns of policy are the controller's: same names, same fields."""

from __future__ import annotations

from typing import Any

import pytest

from flagplot.cli.policy import SETTINGS
from flagplot.view.policy import COLUMNS, Kind
from flagplot_wire.node import Partition
from flagplot_wire.policy import Account, Association, Qos, Reservation
from flagplotd.core import keys

NOW = 1_764_590_000
PLAIN: dict[Kind, Any] = {
    "account": Account("a"),
    "user": Association("u", "a"),
    "qos": Qos("q"),
    "partition": Partition("p", all_nodes=True),
    "reservation": Reservation("r", NOW, NOW + 60),
}
UNSHOWN = {("account", "parent"), ("user", "account"), ("reservation", "duration")}
"""The tree shows a parent, an account names its row, and a duration becomes an end."""
TEXTS = {
    "default": "yes", "state": "down", "nodes": "gpu[01-02]", "max-mem": "8G", "max-wall": "10", "max-time": "10",
    "default-time": "10", "preempt-mode": "requeue", "start": str(NOW - 60), "end": str(NOW + 3_600),
    "licenses": "matlab:4", "flags": "maint,daily",
}  # fmt: skip
"""A value that is no default; every other setting takes 7."""


def test_options_are_the_settings_of_the_controller() -> None:
    options = {kind: sorted(name for name, _, _ in settings) for kind, settings in SETTINGS.items()}
    assert options == {kind: sorted(table) for kind, table in keys.KEYS.items()}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in SETTINGS for name, _, _ in SETTINGS[kind]])
def test_a_setting_shows_in_the_column_of_its_name_and_in_no_other(kind: Kind, name: str) -> None:
    if (kind, name) in UNSHOWN:
        return
    text = next(
        (TEXTS[word] for word in (name, name.removeprefix("user-").removeprefix("account-")) if word in TEXTS), "7"
    )
    before = PLAIN[kind]
    after = keys.changed(before, kind, {name: text}, NOW)
    changed = [heading for heading, cell, _ in COLUMNS[kind] if cell(before) != cell(after)]
    assert changed == [name.upper()]
