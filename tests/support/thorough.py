"""How many random cases a property is tried on: `FLAGPLOT_EXAMPLES=10` tries ten times as many."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings

TIMES = int(os.environ.get("FLAGPLOT_EXAMPLES", "1"))


def examples(count: int) -> Callable[[Any], Any]:
    """Settings of a property tried on `count` cases; a failure prints what runs it again."""
    quiet = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
    phases = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
    return settings(
        max_examples=count * TIMES, deadline=None, suppress_health_check=quiet, phases=phases, print_blob=True
    )
