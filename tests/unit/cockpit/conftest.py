"""Surroundings of the cockpit's tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A person without settings: nobody's own `queue.toml`, themes or clusters change what is tested."""
    for name in ("NO_COLOR", "FLAGPLOT_CONFINED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
