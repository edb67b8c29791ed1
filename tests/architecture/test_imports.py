"""The walls between the parts, and what a cold command may load."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("textual", "numba", "numpy", "asyncssh", "sqlite3", "sqlite_utils", "pynvml")


def loaded(code: str) -> set[str]:
    """The names of the top-level modules that `code` leaves loaded, in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "module",
    [
        "flagplot.cli.main",
        "flagplot.client.connection",
        "flagplot.script.build",
        "flagplot.view.queue",
        "flagplot.output.table",
    ],
)
def test_commands_load_nothing_heavy(module: str) -> None:
    assert not loaded(f"import {module}") & set(HEAVY)


def test_planning_types_load_without_the_compiler() -> None:
    assert "numba" not in loaded("import flagplotd.sched.plan, flagplotd.core.step")


def test_help_of_the_simulator_loads_nothing_heavy() -> None:
    code = "import flagplotd.main, flagplotd.sim.cli as cli; [cli.cli.get_command(None, name) for name in cli.COMMANDS]"
    assert not loaded(code) & {"numba", "numpy", "asyncssh"}


def test_the_keeper_is_small() -> None:
    assert not loaded("import flagplot_agent.launch.keeper") & {*HEAVY, "asyncio", "msgspec"}
