"""What people write about nodes that care for their GPUs: the form of each policy, for controller and agent alike."""

from __future__ import annotations

import re

from flagplot_wire.errors import Refused

_FORMS = {
    "vram_guard": (r"warn|kill-youngest|kill-after=\d{1,6}", "write warn, kill-youngest or kill-after=SECONDS"),
    "idle_gpus": (r"off|(warn|end)-after=[1-9]\d{0,6}", "write off, warn-after=SECONDS or end-after=SECONDS"),
    "health_resume": (r"manual|auto", "write manual or auto"),
}
NODE_POLICIES = tuple(_FORMS)


def check_node_policy(key: str, text: str) -> str:
    """The text of one of `NODE_POLICIES` as it is; raises `Refused` with the words that may stand there."""
    form, hint = _FORMS[key]
    if re.fullmatch(form, text, re.ASCII) is None:
        raise Refused("usage", f"{key}: unknown policy {text!r}", hint)
    return text
