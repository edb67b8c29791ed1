"""Readers of the openb trace (Alibaba, cluster-trace-gpu-v2023): nodes and pods as CSV with a head line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from flagplot_wire.errors import Refused

WHOLE = 1_000
"""A whole GPU in GPU-milli."""
MOST = 10**12
"""No number of a trace is larger: sums of scores stay far inside 64 bits."""
MOST_GPUS = 64


class TraceNode(NamedTuple):
    """CPU in milli, memory in MiB, whole GPUs of one model."""

    cpu: int
    mem: int
    gpus: int
    model: str


class TracePod(NamedTuple):
    """CPU in milli, memory in MiB, `gpus` GPUs of `need` milli each, of one of the models in `spec` (none: of any)."""

    cpu: int
    mem: int
    gpus: int
    need: int
    spec: tuple[str, ...]


class Row:
    """One line of a CSV file, whose values are refused by file, line and column."""

    def __init__(self, path: Path, line: int, values: dict[str, str]) -> None:
        self.path, self.line, self.values = path, line, values

    def wrong(self, column: str, why: str) -> Refused:
        """The refusal of this row's value in `column`."""
        return Refused("usage", f"{self.path}, line {self.line}, column {column}: {why}", "correct or remove the line")

    def number(self, column: str, default: int | None = None, most: int = MOST) -> int:
        """The whole number in `column`; `default` where the file has no such column."""
        if column not in self.values and default is not None:
            return default
        text = self.values[column].strip()
        if not (text.isascii() and text.isdigit()):
            raise self.wrong(column, f"'{text}' is not a whole number of 0 or more")
        if len(text) > 18 or int(text) > most:
            raise self.wrong(column, f"{text} is more than {most}")
        return int(text)

    def text(self, column: str) -> str:
        """The text in `column`; empty where the file has no such column."""
        return self.values.get(column, "").strip()


def rows(path: Path, needed: tuple[str, ...]) -> Iterator[Row]:
    """Every line of a CSV file whose head names the `needed` columns; other columns may be there or not."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            head = [name.strip() for name in next(lines, [])]
            for column in needed:
                if column not in head:
                    raise Refused("usage", f"{path}, line 1: there is no column {column}", f"it has {', '.join(head)}")
            some = False
            for values in lines:
                if not values:
                    continue
                if len(values) != len(head):
                    message = f"{path}, line {lines.line_num}: {len(values)} values for {len(head)} columns"
                    raise Refused("usage", message, "correct or remove the line")
                some = True
                yield Row(path, lines.line_num, dict(zip(head, values, strict=True)))
    except OSError as wrong:
        raise Refused("not_found", f"{path} cannot be read: {wrong.strerror}") from wrong
    except (UnicodeDecodeError, csv.Error) as wrong:
        raise Refused("usage", f"{path} is not a CSV file in UTF-8: {wrong}") from wrong
    if not some:
        raise Refused("usage", f"{path} has no line below its head")


def read_nodes(path: Path) -> list[TraceNode]:
    """The nodes of a file with cpu_milli, memory_mib, gpu and model (the last may be missing)."""
    nodes = []
    for row in rows(path, ("cpu_milli", "memory_mib", "gpu")):
        gpus = row.number("gpu", most=MOST_GPUS)
        nodes.append(TraceNode(row.number("cpu_milli"), row.number("memory_mib"), gpus, row.text("model")))
    return nodes


def read_pods(path: Path) -> list[TracePod]:
    """The pods of a file with cpu_milli and num_gpu. Without memory_mib they need none, without gpu_milli whole GPUs,
    without gpu_spec any model."""
    pods = []
    for row in rows(path, ("cpu_milli", "num_gpu")):
        gpus = row.number("num_gpu", most=MOST_GPUS)
        need = row.number("gpu_milli", WHOLE, most=WHOLE) if gpus else 0
        if gpus and not need:
            raise row.wrong("gpu_milli", "a pod with a GPU needs 1 to 1000 of each")
        spec = tuple(sorted({word.strip() for word in row.text("gpu_spec").split("|")} - {""}))
        pods.append(TracePod(row.number("cpu_milli"), row.number("memory_mib", 0), gpus, need, spec))
    return pods
