"""A bad line between two network namespaces: packets of two TUN devices are handed on late, some never.

For kernels without `tc netem`: TCP's own timers and retransmissions are at work over it, as over a real line.
"""

from __future__ import annotations

import fcntl
import heapq
import multiprocessing
import os
import random
import select
import struct
import subprocess
import time
from typing import Any

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MOST_BYTES = 65_535


def tun(name: str, namespace: str, address: str, peer: str) -> int:
    """A TUN device moved into a namespace; returns the descriptor that carries its packets."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    ip("link", "set", name, "netns", namespace)
    ip("-n", namespace, "addr", "add", address, "peer", peer, "dev", name)
    ip("-n", namespace, "link", "set", name, "up")
    ip("-n", namespace, "link", "set", "lo", "up")
    return device


def ip(*words: str) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


class Line:
    """Hands packets on between two descriptors, in a process of its own; `set` changes how bad it is."""

    def __init__(self, one: int, other: int, seed: int) -> None:
        # Milliseconds one way, lost in a thousand.
        self._state = multiprocessing.Array("i", [0, 0])
        self._process = multiprocessing.Process(target=carry, args=(one, other, self._state, seed), daemon=True)
        self._process.start()

    def set(self, one_way_ms: int, lost_permille: int) -> None:
        """From the next packet on."""
        self._state[0], self._state[1] = one_way_ms, lost_permille

    def end(self) -> None:
        """No packet more."""
        self._process.terminate()
        self._process.join()


def carry(one: int, other: int, state: Any, seed: int) -> None:
    """Until killed: read packets, keep each until it is due, write it at the other end."""
    dice, due, count = random.Random(seed), [], 0
    ends = {one: other, other: one}
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        for ready in select.select([one, other], [], [], wait)[0]:
            packet = os.read(ready, MOST_BYTES)
            if dice.randrange(1_000) >= state[1]:
                count += 1
                heapq.heappush(due, (time.monotonic() + state[0] / 1_000, count, ends[ready], packet))
        while due and due[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(due)
            os.write(to, packet)
