"""A whole scheduling cycle of the controller, part by part: what the event loop does, and what the scheduler's thread does.

Each cycle follows on the one before, 5 s later, with nothing between but what that one started; the first makes
everything. Milliseconds of the processor.

    python benchmarks/bench_cycle.py [--jobs 100000] [--nodes 10000] [--cycles 4]
"""

from __future__ import annotations

import argparse
import gc
import time

from cycle_state import NOW, filled

from flagplotd.core import stimuli as st
from flagplotd.core.fairshare import Remembered
from flagplotd.core.step import step
from flagplotd.sched import warmup
from flagplotd.sched.forecasts import Known
from flagplotd.sched.plan import Policy, run
from flagplotd.sched.priority import inputs
from flagplotd.sched.snapshot import take
from flagplotd.sched.standing import Standing


class Clock:
    """Milliseconds of the processor since the last look."""

    def __init__(self) -> None:
        self._at = time.process_time()

    def ms(self) -> float:
        """Since the last look."""
        before, self._at = self._at, time.process_time()
        return (self._at - before) * 1e3


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=100_000)
    options.add_argument("--nodes", type=int, default=10_000)
    options.add_argument("--cycles", type=int, default=4)
    chosen = options.parse_args()
    warmup.compile_all(lambda _what, _done, _total: None)
    state = filled(chosen.jobs, chosen.nodes)
    policy, memory, standing = Policy(), Remembered(), Standing()
    known = Known(standing.table)
    gc.collect()
    gc.freeze()
    clock = Clock()
    take(state, NOW)
    print(f"{chosen.jobs:,} pending, {chosen.nodes:,} nodes; a snapshot made of nothing takes {clock.ms():.0f} ms")
    print(
        f"{'cycle':<6}{'sync':>9}{'inputs':>9}{'apply':>9}  |{'snapshot':>10}{'plan':>9}{'forecasts':>11}{'started':>9}{'told':>9}"
    )
    for cycle in range(chosen.cycles):
        now = NOW + 5 * cycle
        clock.ms()
        standing.sync(state, now)
        sync = clock.ms()
        given = inputs(state, policy, memory)
        known.table = standing.table
        first = clock.ms()
        snapshot = standing.snapshot()
        snapshot.inputs = given
        taken = clock.ms()
        done = run(snapshot, policy)
        planned = clock.ms()
        forecasts = done.forecasts(known)
        said = clock.ms()
        for body in step(state, st.Planned(done.starts, forecasts, whole=False), now).events:
            standing.note(body)
        print(f"{cycle:<6}{sync:>9.1f}{first:>9.1f}{clock.ms():>9.1f}  |{taken:>10.1f}{planned:>9.1f}{said:>11.1f}"
              f"{len(done.starts):>9,}{len(forecasts):>9,}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
