"""`plan`: the scheduling cycle as a function. Also `estimate` and `never_fits`, which ask the same function."""

from __future__ import annotations

from msgspec import Struct

from flagplot_wire.job import Forecast
from flagplotd.core.stimuli import Start


class Policy(Struct, frozen=True):
    """Weights and settings of the scheduler (integers; see flagplotd.toml(5))."""

    weight_age: int = 1_000
    weight_fairshare: int = 0
    weight_size: int = 0
    weight_partition: int = 1_000
    age_max_s: int = 7 * 86_400
    reservations: int = 100
    """K of EASY backfill: how many blocked jobs at the front get a start that none behind may delay."""
    default_time_s: int = 3_600
    """Taken for jobs without a time limit when planning what runs behind them."""


class Plan(Struct, frozen=True):
    """A cycle's result: what starts now, and a forecast for *every* pending job looked at."""

    starts: tuple[Start, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    examined: int = 0
