"""The radix sort of the queue gives what a comparing sort does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some
from support.thorough import examples

from flagplotd.sched.kernel.sorting import places

LEAST, MOST = -(2**63), 2**63 - 1
keys = some.one_of(
    some.integers(-3, 3), some.integers(0, 2**33), some.integers(LEAST, MOST), some.sampled_from((LEAST, MOST))
)


@examples(300)
@given(some.lists(keys, max_size=60))
def test_places_are_those_of_a_stable_sort(values: list[int]) -> None:
    given_ = np.array(values, np.int64)
    assert places(given_).tolist() == np.argsort(given_, kind="stable").tolist()
