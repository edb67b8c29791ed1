"""The program `flagplot`: global options, and its commands loaded when they are called."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click

from flagplot_wire import __version__
from flagplot_wire.errors import Exit, Refused
from flagplot_wire.text import clean

COMMANDS: dict[str, tuple[str, str]] = {
    "account": ("flagplot.cli.policy:account", "Add, modify, remove and show accounts."),
    "attach": ("flagplot.cli.attach:command", "Watch what a running step writes, and type into it."),
    "bcast": ("flagplot.cli.bcast:command", "Send a file to every node of a job."),
    "cancel": ("flagplot.cli.act:cancel", "Cancel jobs, or send them a signal."),
    "connect": ("flagplot.cli.connect:command", "Pin a remote controller's host key and remember it."),
    "cp": ("flagplot.cli.files:cp", "Copy files between here and a job."),
    "demo-jobs": ("flagplot.cli.demo_jobs:command", ""),
    "down": ("flagplot.cli.down:command", "Stop the cluster on this machine."),
    "drain": ("flagplot.cli.nodes_act:drain", "Take nodes out of service for new jobs."),
    "events": ("flagplot.cli.events:command", "Show the journal, or follow it."),
    "explain": ("flagplot.cli.explain:command", "Say why a job is pending and when it is planned."),
    "fetch": ("flagplot.cli.stage:fetch", "Fetch what jobs left by --stage-out."),
    "forward": ("flagplot.cli.forward:command", "Forward local ports to a job."),
    "gpus": ("flagplot.cli.gpus:command", "List GPUs, their shards and who holds them."),
    "hold": ("flagplot.cli.act:hold", "Keep pending jobs from starting."),
    "keys": ("flagplot.cli.keys:command", "Print every key of the cockpit, as keys.toml takes them."),
    "logs": ("flagplot.cli.logs:command", "Print a job's output, or follow it."),
    "nodes": ("flagplot.cli.nodes:command", "List nodes."),
    "partition": ("flagplot.cli.policy:partition", "Add, modify, remove and show partitions."),
    "qos": ("flagplot.cli.policy:qos", "Add, modify, remove and show qualities of service."),
    "queue": ("flagplot.cli.queue:command", "List jobs."),
    "release": ("flagplot.cli.act:release", "Let held jobs start."),
    "reboot": ("flagplot.cli.nodes_act:reboot", "Reboot nodes as soon as they hold no jobs."),
    "remove": ("flagplot.cli.nodes_act:remove", "Forget nodes that are gone for good."),
    "requeue": ("flagplot.cli.act:requeue", "Start jobs again from the beginning."),
    "reservation": ("flagplot.cli.policy:reservation", "Add, modify, remove and show reservations."),
    "resume": ("flagplot.cli.nodes_act:resume", "Give drained nodes back to jobs."),
    "rsh": ("flagplot.cli.shell:rsh", "Run a command on another node of this job (for MPI's launchers)."),
    "run": ("flagplot.cli.run:command", "Run a command over a job's nodes, in a job made for it where there is none."),
    "script": ("flagplot.cli.script:command", "Print a job's script."),
    "shell": ("flagplot.cli.shell:command", "Open a shell inside a running job."),
    "show": ("flagplot.cli.show:command", "Show a job, node or partition in full; priorities; fair shares."),
    "ssh-config": ("flagplot.cli.ssh_config:command", "Print a block for ~/.ssh/config that leads into jobs."),
    "ssh-proxy": ("flagplot.cli.ssh_config:proxy", "Speak SSH for one job; ssh calls it."),
    "stage": ("flagplot.cli.stage:stage", "Send the files of --stage-in that a job still waits for."),
    "status": ("flagplot.cli.status:command", "Show the controller and its agents."),
    "submit": ("flagplot.cli.submit:command", "Submit a job script."),
    "up": ("flagplot.cli.up:command", "Start a cluster on this machine and open the cockpit."),
    "update": ("flagplot.cli.update:command", "Change jobs."),
    "usage": ("flagplot.cli.usage:command", "Show who used what, your jobs' efficiency, and what limits leave."),
    "user": ("flagplot.cli.policy:user", "Add, modify, remove and show users of accounts."),
    "web": ("flagplot.cli.web:command", "Serve the cockpit to a browser of this machine."),
    "wait": ("flagplot.cli.wait:command", "Wait for jobs to end; exits with their code."),
}
"""Name → (module:attribute, one line of help; empty: hidden)."""


class LazyGroup(click.Group):
    """Imports a command's module only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names but the hidden."""
        return [name for name, (_, text) in COMMANDS.items() if text]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items() if text])


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flagplot")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of a cluster on this machine.")
@click.option("--cluster", metavar="NAME", help="A cluster that `flagplot connect` has remembered.")
@click.option("--read-only", is_flag=True, help="Open the cockpit without the keys that change anything.")
@click.option(
    "--theme", metavar="NAME", help="Theme of the cockpit (dark, light, contrast, colourblind, …), or your own."
)
@click.option("-C", "--no-color", is_flag=True, help="Draw the cockpit without colours.")
@click.option("-U", "--ascii", is_flag=True, help="Draw the cockpit in ASCII alone.")
@click.option("-M", "--no-mouse", is_flag=True, help="Leave the mouse to the terminal.")
@click.option("--reduced-motion", is_flag=True, help="Nothing slides or blinks in the cockpit.")
@click.pass_context
def cli(
    ctx: click.Context, /, data_dir: Path | None, cluster: str | None, read_only: bool, theme: str | None, **_: bool
) -> None:
    """The cockpit and command line of a Flagplot cluster; without a command the cockpit opens."""
    if ctx.invoked_subcommand is not None:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("usage", "the cockpit needs a terminal", "use a command instead, such as: flagplot queue")
    from flagplot.client.target import resolve
    from flagplot.tui.app import run
    from flagplot.tui.looks import Looks

    target = resolve(data_dir=data_dir, cluster=cluster)
    ctx.exit(run(target, read_only=read_only, theme=theme, looks=Looks.of(ctx.params)))


def entry() -> None:
    """Run; every refusal becomes a sentence on standard error and its exit code."""
    try:
        cli(standalone_mode=False)
    except Refused as refused:
        print(f"flagplot: {clean(refused.message, keep_newlines=True)}", file=sys.stderr)
        if refused.hint:
            print(f"  {clean(refused.hint)}", file=sys.stderr)
        sys.exit(int(refused.exit))
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(wrong.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(int(Exit.INTERRUPTED))
    except BrokenPipeError:
        # The reader (head, less) has seen enough; Python must not complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(int(Exit.FAILED))


if __name__ == "__main__":
    entry()
