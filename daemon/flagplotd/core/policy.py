"""Accounts, users and QoS, as people add, modify and remove them; who may change what."""

from __future__ import annotations

from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.policy import ROOT, Account, Qos
from flagplot_wire.replies import Acted
from flagplotd.core import associations, keys, partitions, reservations, values
from flagplotd.core.limits import account_of
from flagplotd.core.people import each
from flagplotd.core.records import check_default_qos, check_record, find
from flagplotd.core.state import State, Who
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import ChangeRecords

OPERATORS_CHANGE = ("partition", "reservation")


def change_records(step: Stepper, stimulus: ChangeRecords) -> Acted:
    """Add, modify or remove by name; one refusal does not stop the rest, a wrong key or right stops all."""
    request, who = stimulus.request, stimulus.who
    _check_request(who, request.verb, request.kind, request.names, request.values)

    def one(text: str) -> str:
        if request.kind == "user":
            return associations.change(step, who, request.verb, text, request.values)
        name = values.name(text)
        if request.kind == "account":
            return _change_account(step, request.verb, name, request.values, who.user)
        if request.kind == "qos":
            return _change_qos(step, request.verb, name, request.values, who.user)
        change = partitions.change if request.kind == "partition" else reservations.change
        return change(step, request.verb, name, request.values, who.user)

    return each(request.names, one)


def _check_request(who: Who, verb: str, kind: keys.Kinds, names: tuple[str, ...], settings: dict[str, str]) -> None:
    if kind in OPERATORS_CHANGE and not who.operator:
        raise Refused("not_permitted", f"only operators change {kind}s; you are {who.user}")
    if kind in ("account", "qos") and not who.admin:
        plural = "accounts" if kind == "account" else "QoS"
        raise Refused("not_permitted", f"only admins change {plural}; you are {who.user}")
    if not names:
        raise Refused("bad_request", f"no {kind} is named", f"name what to {verb}")
    found = [keys.find(kind, key).name for key in settings]
    if verb == "modify" and not set(found) - ({"account"} if kind == "user" else set()):
        raise Refused("bad_request", "nothing to change", f"give settings: {', '.join(keys.KEYS[kind])}")
    unwanted = [key for key in found if not (kind == "user" and key == "account")]
    if verb == "remove" and unwanted:
        raise Refused("bad_request", f"{unwanted[0]} has no meaning for what is removed", "leave it away")


def _change_account(step: Stepper, verb: str, name: str, settings: dict[str, str], by: str) -> str:
    state = step.state
    if verb == "add":
        if account_of(state, name) is not None:
            raise Refused("exists", f"there is an account {name} already", "modify it, or choose another name")
        return _keep(step, keys.changed(Account(name), "account", settings, step.now), "added", by)
    old = account_of(state, name) or find("account", name, state.accounts)
    if verb == "modify":
        return _keep(step, keys.changed(old, "account", settings, step.now), f"changed {', '.join(settings)}", by)
    if name == ROOT:
        raise Refused("in_use", "the account root is above all others and stays", "take its limits away instead")
    _refuse_used(f"account {name}", _uses_of_account(state, name))
    step.emit(ev.PolicyRemoved("account", name, by))
    return "removed"


def _uses_of_account(state: State, name: str) -> list[str]:
    jobs = state.submitted.get(f"account:{name}", 0)
    uses = [f"account {one.name} is below it" for one in state.accounts.values() if one.parent == name]
    uses += [f"user {one.user} is in it" for one in state.associations.values() if one.account == name]
    uses += [f"{jobs} pending and running jobs are in it"] if jobs else []
    uses += [f"partition {one.name} names it" for one in state.partitions.values() if name in one.allow_accounts]
    return uses + [f"reservation {one.name} names it" for one in state.reservations.values() if name in one.accounts]


def _change_qos(step: Stepper, verb: str, name: str, settings: dict[str, str], by: str) -> str:
    there = step.state.qos
    if verb == "add":
        if name in there:
            raise Refused("exists", f"there is a QoS {name} already", "modify it, or choose another name")
        return _keep(step, keys.changed(Qos(name), "qos", settings, step.now), "added", by) + _spared(step.state, name)
    old = find("QoS", name, there)
    if verb == "modify":
        said = _keep(step, keys.changed(old, "qos", settings, step.now), f"changed {', '.join(settings)}", by)
        return said + _spared(step.state, name)
    _refuse_used(f"QoS {name}", _uses_of_qos(step.state, name))
    step.emit(ev.PolicyRemoved("qos", name, by))
    return "removed"


def _spared(state: State, name: str) -> str:
    """What to say where a QoS may preempt others whose jobs stay all the same."""
    general = [state.settings.preempt_mode, *(one.preempt_mode for one in state.partitions.values())]
    if any(mode not in ("", "off") for mode in general):
        return ""
    spared = [low for low in state.qos[name].preempts if state.qos[low].preempt_mode in ("", "off")]
    if not spared:
        return ""
    return f"; jobs of {', '.join(spared)} are not preempted yet: give that QoS a preempt-mode"


def _uses_of_qos(state: State, name: str) -> list[str]:
    jobs = state.submitted.get(f"qos:{name}", 0)
    uses = [f"{jobs} pending and running jobs have it"] if jobs else []
    uses += [f"account {one.name} names it" for one in state.accounts.values() if name in (*one.qos, one.default_qos)]
    uses += [
        f"user {one.user} in account {one.account} names it"
        for one in state.associations.values()
        if name in (*one.qos, one.default_qos)
    ]
    uses += [f"QoS {one.name} preempts it" for one in state.qos.values() if name in one.preempts]
    return uses + [
        f"partition {one.name} names it" for one in state.partitions.values() if name in (*one.allow_qos, one.qos)
    ]


def _refuse_used(what: str, uses: list[str]) -> None:
    if uses:
        more = f", and {len(uses) - 1} more" if len(uses) > 1 else ""
        raise Refused("in_use", f"{what} cannot be removed: {uses[0]}{more}", "change or remove those first")


def _keep(step: Stepper, record: Account | Qos, what: str, by: str) -> str:
    check_record(step.state, record)
    if isinstance(record, Account):
        check_default_qos(step.state, record)
    step.emit(ev.PolicyChanged(record, what, by))
    step.replan()
    return what
