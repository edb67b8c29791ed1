"""The queue's order: a stable radix sort, which goes over a million keys some few times and never compares two."""

from __future__ import annotations

import numpy as np
from numba import njit

from flagplotd.sched.kernel.compiler import OPTIONS

BITS = 11
"""Of a digit: so many counters stay in the nearest cache."""


@njit(**OPTIONS)
def places(keys):
    """The places of N keys (64 bits, signed) from the least to the greatest, equal ones as they stand: int64[N]."""
    count = keys.shape[0]
    order = np.arange(count)
    at = 1
    while at < count and keys[at - 1] <= keys[at]:
        at += 1
    if at >= count:
        return order
    low, digits, mask = keys.min(), 1 << BITS, np.uint64((1 << BITS) - 1)
    left, other = np.empty(count, np.uint64), np.empty(count, np.int64)
    for at in range(count):
        left[at] = np.uint64(keys[at]) - np.uint64(low)
    right, counts = np.empty(count, np.uint64), np.zeros(digits, np.int64)
    shift, most = np.uint64(0), left.max()
    while shift < 64 and most >> shift > 0:
        counts[:] = 0
        for at in range(count):
            counts[left[at] >> shift & mask] += 1
        total = 0
        for digit in range(digits):
            counts[digit], total = total, total + counts[digit]
        for at in range(count):
            digit = left[at] >> shift & mask
            right[counts[digit]], other[counts[digit]] = left[at], order[at]
            counts[digit] += 1
        left, right, order, other = right, left, other, order
        shift += np.uint64(BITS)
    return order
