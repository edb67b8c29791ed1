"""Users in accounts: admins change all, coordinators those of their accounts and below."""

from __future__ import annotations

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.policy import Association
from flagplotd.core import keys, values
from flagplotd.core.limits import account_of, allowed_qos, chain
from flagplotd.core.records import check_default_qos, check_record, find
from flagplotd.core.state import State, Who
from flagplotd.core.stepper import Stepper


def coordinates(state: State, who: Who, account: str) -> bool:
    """True when they coordinate the account or one above it, or are an admin."""
    records = (state.accounts.get(name) for name in chain(state, account))
    return who.admin or any(who.user in record.coordinators for record in records if record is not None)


def of_user(state: State, user: str) -> list[Association]:
    """A user's associations, the default one first."""
    found = [one for one in state.associations.values() if one.user == user]
    return sorted(found, key=lambda one: (not one.default, one.account))


def change(step: Stepper, who: Who, verb: str, text: str, settings: dict[str, str]) -> str:
    """Add, modify or remove one user in an account; returns what was done in words."""
    rest = dict(settings)
    user, account = _named(text, rest)
    if verb == "add":
        return _add(step, who, user, account, rest)
    chosen = _chosen(step.state, user, account, verb)
    for one in chosen:
        _may(step.state, who, one.account, rest)
    if verb == "modify":
        old = chosen[0]
        new = keys.changed(old, "user", rest, step.now)
        return _keep(step, who, old, new, f"changed {', '.join(rest)}")
    _check_unused(step.state, user, chosen)
    for one in chosen:
        step.emit(ev.PolicyRemoved("user", one.key, who.user))
    return f"removed from {', '.join(one.account for one in chosen)}"


def _named(text: str, settings: dict[str, str]) -> tuple[str, str]:
    """User and account of `ada@physics`, or of `ada` with the setting `account`, which is taken out."""
    user, _, account = text.partition("@")
    for key in [key for key in settings if keys.find("user", key).name == "account"]:
        given = settings.pop(key)
        if account and given and given != account:
            raise Refused(
                "bad_request", f"{values.words(text)} is in {values.words(account)}, not in {values.name(given)}"
            )
        account = account or given
    return values.name(user), values.name(account) if account else ""


def _add(step: Stepper, who: Who, user: str, account: str, settings: dict[str, str]) -> str:
    state = step.state
    if not account:
        raise Refused("bad_request", f"which account is {user} to be in?", "add account=NAME")
    if account_of(state, account) is None:
        find("account", account, state.accounts)
    _may(state, who, account, settings)
    if f"{user}@{account}" in state.associations:
        raise Refused("exists", f"{user} is in account {account} already", "modify the user instead")
    first = not of_user(state, user)
    new = keys.changed(Association(user, account, default=first), "user", settings, step.now)
    return _keep(step, who, None, new, f"added to {account}" + (", the default account" if new.default else ""))


def _chosen(state: State, user: str, account: str, verb: str) -> list[Association]:
    found = of_user(state, user)
    if not found:
        users = dict.fromkeys(one.user for one in state.associations.values())
        find("user", user, users)
    if not account and (verb == "remove" or len(found) == 1):
        return found
    there = ", ".join(one.account for one in found)
    if not account:
        raise Refused("bad_request", f"{user} is in several accounts: {there}", "add account=NAME")
    chosen = [one for one in found if one.account == account]
    if not chosen:
        raise Refused("not_found", f"{user} is not in account {account}", f"{user} is in: {there}")
    return chosen


def _may(state: State, who: Who, account: str, settings: dict[str, str]) -> None:
    """Coordinators give no priority, and no QoS beyond their account's."""
    if not coordinates(state, who, account):
        raise Refused(
            "not_permitted",
            f"only admins and the coordinators of account {account} change its users; you are {who.user}",
        )
    if not who.admin and any(keys.find("user", key).name == "priority" for key in settings):
        raise Refused("not_permitted", "only admins give a user priority")


def _keep(step: Stepper, who: Who, old: Association | None, new: Association, what: str) -> str:
    state = step.state
    check_record(state, new)
    check_default_qos(state, new)
    above = allowed_qos(state, "", new.account)
    had = old.qos if old is not None else ()
    beyond = [name for name in new.qos if above and name not in (*above, *had)]
    if beyond and not who.admin:
        raise Refused("not_permitted", f"account {new.account} may not use QoS {beyond[0]}: only admins give it")
    others = [one for one in of_user(state, new.user) if one.default and one.key != new.key]
    if not new.default and not others:
        raise Refused(
            "bad_value", f"{new.account} is the default account of {new.user}", "make another one the default instead"
        )
    if new.default:
        for other in others:
            if not coordinates(state, who, other.account):
                raise Refused("not_permitted", f"{other.account} is the default account of {new.user}: ask an admin")
    step.emit(ev.PolicyChanged(new, what, who.user))
    for other in others if new.default else ():
        kept = msgspec.structs.replace(other, default=False)
        step.emit(ev.PolicyChanged(kept, "no longer the default", who.user))
    step.replan()
    return what


def _check_unused(state: State, user: str, chosen: list[Association]) -> None:
    for one in chosen:
        jobs = state.submitted.get(f"user:{one.key}", 0)
        if jobs:
            raise Refused(
                "in_use", f"{user} has {jobs} pending and running jobs in account {one.account}",
                "cancel them or wait until they ended",
            )  # fmt: skip
    left = len(of_user(state, user)) - len(chosen)
    if left and any(one.default for one in chosen):
        raise Refused(
            "in_use", f"{chosen[0].account} is the default account of {user}", "make another the default first"
        )
