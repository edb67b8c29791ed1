"""`flagplotd simulate`: its commands, each a module `NAME_command`, loaded when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.util import find_spec

import click

COMMANDS = {
    "swf": "Replay a log of processors in the Standard Workload Format.",
    "openb": "Place the pods of the openb trace on its nodes.",
    "history": "Replay this cluster's own past under other settings.",
}
"""Name and one line of help; those count whose module exists."""


def _module(name: str) -> str:
    return f"flagplotd.sim.{name}_command"


class LazyGroup(click.Group):
    """Imports a command's module only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands that this build has."""
        return [name for name in COMMANDS if find_spec(_module(name))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = importlib.import_module(_module(cmd_name)).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Replay a workload trace through the scheduler. Nothing is stored and no controller is asked."""


def main(args: Sequence[str]) -> int:
    """Run a command and return its exit code; refusals are left to the program, as those of its other commands."""
    try:
        code = cli.main(list(args), prog_name="flagplotd simulate", standalone_mode=False)
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    return int(code or 0)
