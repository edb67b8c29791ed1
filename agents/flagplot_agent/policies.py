"""Which policies are in force here: what this node was told at its start, else what the controller tells all nodes."""

from __future__ import annotations

import logging

from flagplot_agent.config import Config
from flagplot_agent.guard import Policy, parse_policy
from flagplot_agent.idle import IdlePolicy, parse_idle
from flagplot_wire.agentlink import AgentWelcome
from flagplot_wire.errors import Refused
from flagplot_wire.ids import Epoch
from flagplot_wire.node_policy import NODE_POLICIES, check_node_policy

log = logging.getLogger("flagplot-agent")


class Policies:
    """An option comes before `agent.toml`, that before the controller's word, that before the default."""

    def __init__(self, config: Config) -> None:
        self._own = config
        self.guard: Policy
        self.idle: IdlePolicy
        self.resume: bool
        self.told(AgentWelcome(Epoch(0)))

    def told(self, welcome: AgentWelcome) -> None:
        """The controller accepted us."""
        own, gpus = self._own, self._own.settings.gpus
        theirs = {key: understood(key, getattr(welcome, key)) for key in NODE_POLICIES}
        self.guard = parse_policy(own.vram_guard or gpus.vram_guard or theirs["vram_guard"] or "kill-youngest")
        self.idle = parse_idle(own.idle_gpus or gpus.idle or theirs["idle_gpus"] or "off")
        self.resume = (own.settings.health.resume or theirs["health_resume"] or "manual") == "auto"


def understood(key: str, text: str) -> str:
    """The controller's word; none where it is of a newer version that knows more words."""
    try:
        return check_node_policy(key, text) if text else ""
    except Refused as wrong:
        log.warning("the controller's policy is left aside: %s", wrong.message)
        return ""
