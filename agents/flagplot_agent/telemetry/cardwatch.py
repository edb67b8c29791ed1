"""What NVML tells of the health of whole cards: ECC errors, remapped rows, heat, and critical errors (Xid)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from flagplot_agent.telemetry.faults import Health, fault_of, is_hot, is_of_the_card

T = TypeVar("T")
MOST_EVENTS = 100
"""Of one sample: a card that only makes errors must not hold it up."""


class CardWatch:
    """Remembers what has to last between two samples: Xids, and which cards were hot. `lib` is pynvml."""

    def __init__(self, lib: Any, ask: Callable[[Callable[[], T]], T | None]) -> None:
        self._lib = lib
        self._ask: Callable[[Callable[[], Any]], Any] = ask
        self._events = self._ask(lib.nvmlEventSetCreate)
        self._watched: set[int] = set()
        self._xids: dict[int, int] = {}
        self._hot: set[int] = set()

    def fault(self, card: int, handle: Any) -> str:
        """What is wrong with a card that answers; empty for a healthy one."""
        lib = self._lib
        self._watch(card, handle)
        rows = self._ask(lambda: lib.nvmlDeviceGetRemappedRows(handle))
        kinds = lib.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, lib.NVML_VOLATILE_ECC
        health = Health(
            self._ask(lambda: lib.nvmlDeviceGetTotalEccErrors(handle, *kinds)),
            bool(rows[3]) if rows is not None else None,
            bool(rows[2]) if rows is not None else None,
            self._ask(lambda: lib.nvmlDeviceGetTemperature(handle, lib.NVML_TEMPERATURE_GPU)),
            self._ask(lambda: lib.nvmlDeviceGetTemperatureThreshold(handle, lib.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)),
            self._xids.get(card, 0),
        )
        was_hot = card in self._hot
        (self._hot.add if is_hot(health, was_hot) else self._hot.discard)(card)
        return fault_of(health, was_hot)

    def _watch(self, card: int, handle: Any) -> None:
        """Have a card's critical errors told, and take what was told since."""
        lib = self._lib
        if self._events is None:
            return
        if card not in self._watched:
            self._watched.add(card)
            self._ask(lambda: lib.nvmlDeviceRegisterEvents(handle, lib.nvmlEventTypeXidCriticalError, self._events))
        for _ in range(MOST_EVENTS):
            event = self._ask(lambda: lib.nvmlEventSetWait_v2(self._events, 0))
            if event is None:
                return
            told = self._ask(partial(lib.nvmlDeviceGetIndex, event.device))
            if told is not None and is_of_the_card(event.eventData):
                self._xids[told] = event.eventData
