"""Every command, option, configuration key and exit code stands in a manual page, and every page formats."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from flagplot import theming
from flagplot.cli.main import COMMANDS, cli
from flagplot.cli.update import _KEYS
from flagplot.script.options import OPTIONS
from flagplot_agent import settings
from flagplot_agent.hooks import words
from flagplot_agent.launch import recipe
from flagplot_agent.main import parser
from flagplot_wire.errors import Exit
from flagplot_wire.node_policy import NODE_POLICIES
from flagplotd import config
from flagplotd.core.keys import KEYS
from flagplotd.core.state import Settings
from flagplotd.main import cli as daemon
from flagplotd.sched.plan import Policy
from flagplotd.sim.cli import cli as simulator

MAN = Path(__file__).resolve().parents[2] / "man"
PAGES = sorted(MAN.iterdir())


def text(name: str) -> str:
    """A page as it reads: escapes and fonts resolved."""
    plain = re.sub(r"\\f[BIR]", "", (MAN / name).read_text())
    return plain.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")


def stands(word: str, page: str) -> bool:
    """True when the page has `word` as a word of its own."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", page) is not None


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its path, hidden ones left out."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


@pytest.mark.parametrize(("group", "page"), [(cli, "flagplot.1"), (daemon, "flagplotd.8"), (simulator, "flagplotd.8")])
def test_commands_and_options(group: click.Group, page: str) -> None:
    page_text = text(page)
    missing = []
    for path, command in [((), group), *commands(group)]:
        if path and not stands(path[-1], page_text):
            missing.append(" ".join(path))
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                missing += [f"{path} {name}" for name in (*parameter.opts, *parameter.secondary_opts)
                            if not stands(name, page_text)]  # fmt: skip
    assert missing == []
    assert len(COMMANDS) > 20


def test_agent_options() -> None:
    page = text("flagplot-agent.8")
    top = parser()
    assert all(stands(word, page) for action in top._actions for word in action.option_strings)
    for action in top._subparsers._group_actions[0].choices.items():  # type: ignore[union-attr]
        name, sub = action
        assert stands(name, page)
        for option in sub._actions:
            assert all(stands(word, page) for word in option.option_strings), option.option_strings


def test_agent_settings() -> None:
    page = text("flagplot-agent.8")
    structs = (
        settings.Settings,
        settings.HookSettings,
        settings.HealthSettings,
        settings.Disk,
        settings.RebootSettings,
        settings.Access,
        settings.Containers,
        settings.Gpus,
    )
    assert [key for one in structs for key in one.__struct_fields__ if not stands(key, page)] == []
    own = re.findall(r'"((?:SLURM|FLAGPLOT)_[A-Z_]*[A-Z])"', Path(words.__file__).read_text())
    assert len(own) > 8 and [name for name in own if not stands(name, page) and name != "SLURM_PROCID"] == [
        "SLURM_LOCALID"
    ]


def test_script_options() -> None:
    page = text("flagplot-script.7")
    for option in OPTIONS:
        assert stands(f"--{option.long}", page), option.long
        assert not option.short or stands(f"-{option.short}", page), option.short


def test_job_environment() -> None:
    page = text("flagplot-script.7")
    own = r'"((?:SLURMD?|FLAGPLOT|CUDA|MASTER|WORLD|LOCAL)_[A-Z_]*[A-Z]|RANK)"'
    names = set(re.findall(own, Path(recipe.__file__).read_text()))
    assert len(names) > 40
    assert [name for name in sorted(names) if not stands(name, page)] == []


def test_update_keys() -> None:
    page = text("flagplot.1").lower()
    assert [key for key in _KEYS if not stands(key, page)] == []


def test_exit_codes() -> None:
    page = text("flagplot.1")
    for code in Exit:
        assert re.search(rf"\.B {int(code)}\n.*\({code.name}\)", page), code


def test_configuration_keys() -> None:
    page = text("flagplotd.toml.5")
    keys = {*Settings.__struct_fields__, *Policy.__struct_fields__, *config._CONTROLLER, *config._PARTITION} - {
        "cluster", "node_weights"
    }  # fmt: skip
    assert [key for key in sorted(keys) if not stands(key, page)] == []
    keys = {*config._LIMITS, *config._PREEMPTION, *NODE_POLICIES}
    for kind, table in KEYS.items():
        prefixes = ("user-", "account-") if kind == "qos" else ()
        keys |= {key for key in table if not key.startswith(prefixes)} if kind != "partition" else set()
    assert [key for key in sorted(keys) if not stands(key, page)] == []
    headings = set(re.findall(r"^\.SH \[+(\w+)\]+$", page, re.MULTILINE))
    assert headings == set(config._TOP)
    assert [key for key in ("name", "names", "admins", "operators") if not stands(key, page)] == []


def test_theme_keys() -> None:
    page = text("flagplot-config.5")
    assert [
        key for key in (*theming.COLOURS, *theming.STATES, *theming.ROLES, *theming.TOP) if not stands(key, page)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_format_without_warnings(page: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed, so pages cannot be formatted")
    done = subprocess.run(
        ["man", "-l", "--warnings", "-E", "UTF-8", str(page)], capture_output=True, text=True, check=False,
        env={**os.environ, "MANWIDTH": "100", "MANPAGER": "cat", "LANG": "C.UTF-8"}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    assert "NAME" in done.stdout
