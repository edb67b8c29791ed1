"""What a person may do, told before the controller has to refuse it."""

from __future__ import annotations

from flagplot.language import tr
from flagplot_wire.replies import Welcome


def role_word(welcome: Welcome | None) -> str:
    """The highest role as one word."""
    roles = welcome.roles if welcome else ()
    return next((role for role in ("admin", "operator") if role in roles), "user")


def why_not(welcome: Welcome | None, right: str, owner: str = "") -> str:
    """A sentence why not, empty when allowed.

    Rights: `submit`; `change` (cancel, hold, edit a job of `owner`); `drain`, `resume`, `reboot`, `reserve` (nodes).
    """
    if welcome is None:
        return tr("The controller has not answered yet.")
    role = role_word(welcome)
    if role in ("admin", "operator") or right == "submit":
        return ""
    if right in ("drain", "resume", "reboot", "reserve"):
        sentence = tr("Only operators and admins may {right} nodes; {user} is {role}.")
        return sentence.format(right=right, user=welcome.user, role=role)
    if owner and owner != welcome.user:
        return tr("This job is {owner}'s; only they, operators and admins may change it.").format(owner=owner)
    return ""
