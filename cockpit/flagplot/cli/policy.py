"""`flagplot account | user | qos | partition | reservation`: add, modify, remove and show.

A setting travels as the text that was given; the controller reads it.
"""

from __future__ import annotations

from typing import Any, Literal

import click
from msgspec import Struct

from flagplot.cli.common import ask, finish, json_option, local_moment
from flagplot.client.calls import Calls
from flagplot.output.table import table
from flagplot.view.policy import Kind, policy_table
from flagplot_wire.errors import Refused
from flagplot_wire.policy import Association
from flagplot_wire.requests import ChangePolicy, GetPolicy

Setting = tuple[str, str, str]
"""Option without its dashes, metavar (empty: yes or no), help."""
Verb = Literal["add", "modify", "remove"]

_LIMITS: tuple[Setting, ...] = (
    ("max-jobs", "N", "Most running jobs."),
    ("max-submit", "N", "Most pending and running jobs."),
    ("max-nodes", "N", "Most nodes of all running jobs."),
    ("max-cpus", "N", "Most CPUs of all running jobs."),
    ("max-gpus", "N", "Most GPUs of all running jobs."),
    ("max-mem", "SIZE", "Most memory of all running jobs."),
    ("gpu-minutes", "N", "Most GPU minutes: used (decayed) and still promised to running jobs."),
    ("max-nodes-per-job", "N", "Most nodes of one job."),
    ("max-cpus-per-job", "N", "Most CPUs of one job."),
    ("max-gpus-per-job", "N", "Most GPUs of one job."),
    ("max-wall", "TIME", "Longest time limit of one job."),
)
_DEFAULT_QOS: Setting = ("default-qos", "QOS", "QoS of jobs that name none.")
_DESCRIPTION: Setting = ("description", "TEXT", "What it is, for people.")
_COMMENT: Setting = ("comment", "TEXT", "A comment, for people.")
_PREEMPTION: tuple[Setting, ...] = (
    ("preempt-mode", "MODE", "What becomes of its jobs when preempted: off, cancel, requeue or suspend."),
    ("grace", "TIME", "Between the warning and the end of a preempted job: seconds, or 5m, 2h."),
)


def _limits(prefix: str, whose: str) -> tuple[Setting, ...]:
    return tuple((prefix + name, metavar, f"{text.rstrip('.')}, {whose}.") for name, metavar, text in _LIMITS)


SETTINGS: dict[Kind, tuple[Setting, ...]] = {
    "account": (
        ("parent", "ACCOUNT", "The account above; root without it."),
        ("shares", "N", "Shares among its siblings."),
        ("qos", "QOS,...", "QoS that may be used: +a adds one, -a takes one away; empty: those of the account above."),
        _DEFAULT_QOS,
        ("coordinators", "USER,...", "Users who may change the users of it and of the accounts below it."),
        _DESCRIPTION,
        *_LIMITS,
    ),
    "user": (
        ("account", "ACCOUNT", "The account; needed to add, and where the user is in several."),
        ("default", "", "Jobs that name no account go to this one."),
        ("shares", "N", "Shares among the users of the account, or parent."),
        ("priority", "N", "Added to the priority of the jobs."),
        ("qos", "QOS,...", "QoS that may be used: +a adds one, -a takes one away; empty: those of the account."),
        _DEFAULT_QOS,
        *_LIMITS,
    ),
    "qos": (
        ("priority", "N", "Priority among the QoS."),
        ("preempts", "QOS,...", "QoS whose jobs its jobs may preempt."),
        *_PREEMPTION,
        ("exempt", "TIME", "After its start a job is not preempted for so long: seconds, or 5m, 2h."),
        ("usage-percent", "N", "How much of what its jobs use counts as usage."),
        _DESCRIPTION,
        *_LIMITS,
        *_limits("user-", "for each user"),
        *_limits("account-", "for each account"),
    ),
    "partition": (
        ("nodes", "NODES", "A host list, or ALL."),
        ("state", "STATE", "up, or down: its jobs wait."),
        ("default", "", "Jobs that name no partition go to this one."),
        ("max-time", "TIME", "Longest time limit."),
        ("default-time", "TIME", "Time limit of jobs without one."),
        ("max-nodes", "N", "Most nodes of one job; 0: any number."),
        ("tier", "N", "Jobs in higher tiers come first."),
        ("allow-users", "USER,...", "Only these users; empty: all."),
        ("allow-accounts", "ACCOUNT,...", "Only these accounts and those below them; empty: all."),
        ("allow-qos", "QOS,...", "Only jobs of these QoS; empty: all."),
        ("qos", "QOS", "A QoS whose limits hold in it as well."),
        *_PREEMPTION,
        _COMMENT,
    ),
    "reservation": (
        ("start", "TIME", "When it begins: now (without it), now+2hours, 2026-12-24T18:00."),
        ("end", "TIME", "When it ends; or give a duration."),
        ("duration", "TIME", "How long it lasts, as --time of jobs."),
        ("nodes", "NODES", "A host list, or ALL."),
        ("cores", "N", "Cores of each node; with neither cores nor GPUs the whole nodes."),
        ("gpus", "N", "GPUs of each node."),
        ("licenses", "NAME[:N],...", "Licenses to keep."),
        ("users", "USER,...", "Users whose jobs may use it."),
        ("accounts", "ACCOUNT,...", "Accounts whose jobs may use it."),
        ("partition", "PARTITION", "The nodes of this partition."),
        ("flags", "FLAG,...", "maint, flex, ignore_jobs, daily, weekly."),
        _COMMENT,
    ),
}
"""The settings of each kind, as the controller names them."""

_PLURAL: dict[Kind, str] = {
    "account": "accounts", "user": "users in an account", "qos": "qualities of service", "partition": "partitions",
    "reservation": "reservations",
}  # fmt: skip
_ABOUT: dict[Kind, str] = {
    "account": "Accounts: who shares the cluster, how much, up to which limits.",
    "user": "Users in accounts. USER@ACCOUNT names one of several.",
    "qos": "Qualities of service: priority, preemption, limits.",
    "partition": "Partitions. Changes outlive restarts of the controller.",
    "reservation": "Reservations: nodes or licenses kept free for somebody, or for maintenance.",
}


def values_of(given: dict[str, Any]) -> dict[str, str]:
    """Settings by name from click's parameters; those not given are left out, times become epoch seconds."""
    values = {}
    for parameter, value in given.items():
        name = parameter.replace("_", "-")
        if isinstance(value, bool):
            values[name] = "yes" if value else "no"
        elif name in ("start", "end") and value and not value.isdecimal():
            values[name] = str(local_moment(value))
        elif value is not None:
            values[name] = value
    return values


def _option(setting: Setting) -> click.Option:
    name, metavar, text = setting
    if not metavar:
        return click.Option([f"--{name}/--no-{name}"], default=None, help=text)
    return click.Option([f"--{name}"], metavar=metavar, help=text)


def _change(kind: Kind, verb: Verb) -> click.Command:
    @click.pass_context
    def run(context: click.Context, /, names: tuple[str, ...], as_json: bool, **given: Any) -> None:
        values = values_of(given)
        _check(kind, verb, names, values)
        finish(ask(context, lambda calls: calls.change_policy(ChangePolicy(verb, kind, names, values))), as_json)

    settings = SETTINGS[kind]
    if verb == "remove":
        settings = settings[:1] if kind == "user" else ()
    text = f"{verb.capitalize()} {_PLURAL[kind]}." + (" An empty value takes a limit away." if verb == "modify" else "")
    names = click.Argument(["names"], nargs=-1, required=True, metavar="NAME...")
    return json_option(click.Command(verb, callback=run, params=[names, *map(_option, settings)], help=text))


def _check(kind: Kind, verb: Verb, names: tuple[str, ...], values: dict[str, str]) -> None:
    nowhere = [name for name in names if "@" not in name]
    if kind == "user" and verb == "add" and nowhere and not values.get("account"):
        raise Refused(
            "usage", f"no account was given for {nowhere[0]}", f"flagplot user add {nowhere[0]} --account ACCOUNT"
        )
    if verb == "modify" and not values.keys() - ({"account"} if kind == "user" else set()):
        raise Refused("usage", "nothing to change was given", f"flagplot {kind} modify --help lists the settings")


async def _find(calls: Calls, kind: Kind, names: tuple[str, ...]) -> list[Struct]:
    """The records of these names, or all; raises `Refused` naming one that is not there."""
    found: list[Struct]
    if kind == "partition":
        partitions = [one for one in (await calls.partitions()).partitions if not names or one.name in names]
        found, there = [*partitions], {one.name for one in partitions}
    else:
        records = (await calls.policy(GetPolicy(kind, names))).records
        users = {record.user for record in records if isinstance(record, Association)}
        found, there = [*records], users | {record.key for record in records}
    for name in names:
        if name not in there:
            raise Refused("not_found", f"there is no {kind} {name!r}", f"flagplot {kind} show lists them")
    return found


def _show(kind: Kind) -> click.Command:
    @click.pass_context
    def run(context: click.Context, /, names: tuple[str, ...], as_json: bool) -> None:
        found = ask(context, lambda calls: _find(calls, kind, names))
        if as_json:
            from flagplot.output.json import print_json, record_object

            print_json([record_object(record) for record in found])
            return
        print(table(*policy_table(kind, found)))

    text = f"List {_PLURAL[kind]}, all or these."
    names = click.Argument(["names"], nargs=-1, metavar="[NAME]...")
    return json_option(click.Command("show", callback=run, params=[names], help=text))


def group(kind: Kind) -> click.Group:
    """`flagplot KIND`, with its four verbs."""
    commands = [_change(kind, "add"), _change(kind, "modify"), _change(kind, "remove"), _show(kind)]
    return click.Group(kind, commands=commands, help=_ABOUT[kind])


account, user, qos = group("account"), group("user"), group("qos")
partition, reservation = group("partition"), group("reservation")
