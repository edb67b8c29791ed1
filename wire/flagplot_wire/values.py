"""Values of submit options: GPUs, gres, dependencies, node counts, arrays, licenses, switches (sbatch(1))."""

from __future__ import annotations

import re
from typing import Literal, get_args

from flagplot_wire.errors import Refused
from flagplot_wire.indices import MAX_INDEX, compress_indices, expand_indices
from flagplot_wire.job import ArraySpec, Dependency, DependencyTerm, GpuCount, LicenseCount, Transfer
from flagplot_wire.units import parse_count, parse_time_limit

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_LICENSE = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.@+-]*)(?:[:=](\d{1,9}))?", re.ASCII)
GRES_FLAGS = (
    "enforce-binding", "disable-binding", "allow-task-sharing", "multiple-tasks-per-sharing", "one-task-per-sharing",
)  # fmt: skip
"""The words of `--gres-flags`; the first alone has effect."""
_Kind = Literal["after", "afterany", "afterok", "afternotok", "singleton"]


def _typed_count(text: str, whole: str) -> GpuCount:
    pieces = text.split(":")
    if len(pieces) == 1 and pieces[0][:1].isdigit():
        return GpuCount(_count(pieces[0], whole))
    if not _TYPE.fullmatch(pieces[0]) or len(pieces) > 2:
        raise _bad_gres(whole)
    return GpuCount(_count(pieces[1], whole) if len(pieces) == 2 else 1, pieces[0].lower())


def _count(text: str, whole: str) -> int:
    try:
        return parse_count(text)
    except Refused as wrong:
        raise _bad_gres(whole) from wrong


def _bad_gres(whole: str) -> Refused:
    return Refused("bad_gres", f"{whole!r} asks for no GPUs that can be read", "write gpu:2, gpu:a100:2 or shard:3")


def parse_gpus(text: str) -> tuple[GpuCount, ...]:
    """`--gpus`, `--gpus-per-node`: `2`, `a100`, `a100:2,l4:1`; counts of 0 ask for nothing."""
    found = [_typed_count(part.strip(), text) for part in text.split(",")]
    return tuple(gpu for gpu in found if gpu.count)


def parse_gres(text: str) -> tuple[tuple[GpuCount, ...], int, str]:
    """`--gres`: whole GPUs for each node, shards of one GPU, and the type the shards are of.

    `none` asks for nothing. A GPU and shards in one request are refused, as Slurm does.
    """
    if text.strip().lower() == "none":
        return (), 0, ""
    gpus: list[GpuCount] = []
    shards, share_type = 0, ""
    for part in text.split(","):
        name, colon, rest = part.strip().partition(":")
        kind = name.removeprefix("gres/").lower()
        if kind not in ("gpu", "shard"):
            raise Refused("bad_gres", f"{part.strip()!r}: there is no gres {kind!r}", "there are gpu and shard")
        amount = _typed_count(rest, text) if colon else GpuCount(1)
        if kind == "gpu" and amount.count:
            gpus.append(amount)
        elif kind == "shard" and amount.count:
            if shards:
                raise Refused("bad_gres", f"{text!r} asks for two shares", "a job may hold one share on each node")
            shards, share_type = amount.count, amount.type
    if gpus and shards:
        raise Refused(
            "bad_gres",
            f"{text!r} asks for whole GPUs and for shards: a job may have one kind only",
            "ask for gpu or for shard",
        )
    return tuple(gpus), shards, share_type


def parse_dependency(text: str) -> Dependency:
    """`--dependency`: `afterok:11:12,afterany:13`, `?` for "any of", `singleton`, a plain number."""
    if "," in text and "?" in text:
        raise _bad_dependency(text, "only one of , and ? may separate the terms")
    any_of = "?" in text
    terms = [_term(part.strip(), text) for part in text.split("?" if any_of else ",")]
    return Dependency(tuple(terms), any_of)


def _term(part: str, whole: str) -> DependencyTerm:
    if re.fullmatch(r"\d+(_\d+)?", part, re.ASCII):
        return DependencyTerm("afterany", (part,))
    kind, *jobs = part.split(":")
    if kind not in get_args(_Kind):
        raise _bad_dependency(whole, f"there is no {kind!r}")
    if kind == "singleton":
        if jobs:
            raise _bad_dependency(whole, "singleton takes no job")
        return DependencyTerm("singleton")
    delay, numbers = 0, []
    for job in jobs:
        found = re.fullmatch(r"(\d+(?:_\d+)?)(?:\+(\d{1,7}))?", job, re.ASCII)
        if not found or (found[2] and kind != "after"):
            raise _bad_dependency(whole, f"{job!r} is no job number")
        numbers.append(found[1])
        delay = max(delay, int(found[2] or 0) * 60)
    if not numbers:
        raise _bad_dependency(whole, f"{kind} names no job")
    return DependencyTerm(kind, tuple(numbers), delay)  # type: ignore[arg-type]


def _bad_dependency(text: str, why: str) -> Refused:
    return Refused(
        "bad_dependency", f"{text!r} is no dependency: {why}", "write afterok:41, afterany:41:42 or singleton"
    )


def parse_node_count(text: str) -> tuple[int, int]:
    """`--nodes`: `4` or `2-4`, as (least, most)."""
    low, dash, high = text.strip().partition("-")
    least = parse_count(low)
    most = parse_count(high) if dash else least
    if least < 1 or most < least:
        raise Refused("bad_nodes", f"{text!r} is no number of nodes", "write 4, or 2-4 with the low end first")
    return least, most


def parse_array(text: str, max_size: int | None = None) -> ArraySpec:
    """`--array`: indices with an optional limit of running elements after the first `%` anywhere.

    `max_size` bounds the index (not the count) at one less, as MaxArraySize does.
    """
    limit = 0
    found = re.search(r"%(\d*)", text)
    if found:
        if not found[1] or int(found[1]) < 1:
            raise _bad_array(text, "the number after % says how many may run at once")
        limit = int(found[1])
        text_indices = text[: found.start()] + text[found.end() :]
    else:
        text_indices = text
    if not text_indices.strip():
        raise _bad_array(text, "it names no index")
    highest = max((int(number) for number in re.findall(r"\d{1,9}", text_indices)), default=0)
    if highest > MAX_INDEX or (max_size is not None and highest >= max_size):
        top = MAX_INDEX if max_size is None else max_size - 1
        raise _bad_array(text, f"the highest index is {top}")
    simple = re.fullmatch(r"\s*(\d+)-(\d+)\s*", text_indices, re.ASCII)
    if simple and int(simple[1]) <= int(simple[2]):
        return ArraySpec(f"{int(simple[1])}-{int(simple[2])}" if simple[1] != simple[2] else simple[1], limit)
    try:
        return ArraySpec(compress_indices(expand_indices(text_indices)), limit)
    except Refused as wrong:
        raise _bad_array(text, wrong.message) from wrong


def _bad_array(text: str, why: str) -> Refused:
    return Refused("bad_array", f"{text!r} is no array: {why}", "write 0-9, 1,3,5, 0-15:4 or 0-99%10")


def parse_licenses(text: str) -> tuple[LicenseCount, ...]:
    """`--licenses`: `matlab`, `matlab:2,foo@server:1`, in the order of first mention; a name given twice adds up.

    Counts of 0 ask for nothing. Licenses joined by `|` or `;` (any of them will do) are refused.
    """
    counts: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ():
        found = _LICENSE.fullmatch(part.strip())
        if not found:
            either = "; licenses of which any would do cannot be asked for" if re.search("[|;]", part) else ""
            hint = "write matlab, matlab:2 or matlab:2,ansys:1"
            raise Refused("bad_license", f"{text!r} names no licenses at {part.strip()!r}{either}", hint)
        counts[found[1]] = counts.get(found[1], 0) + int(found[2] or 1)
    return tuple(LicenseCount(name, count) for name, count in counts.items() if count)


def parse_switches(text: str) -> tuple[int, int]:
    """`--switches`: `1` or `2@1:00:00`, as (the most leaf switches, seconds to wait for that; 0: for ever).

    The time is read as a time limit is: minutes, rounded up to whole ones.
    """
    count, at, wait = text.strip().partition("@")
    try:
        most, seconds = parse_count(count), parse_time_limit(wait) if at else 0
    except Refused as wrong:
        raise _bad_switches(text, wrong.message) from wrong
    if most < 1:
        raise _bad_switches(text, "it must be at least 1")
    return most, seconds


def _bad_switches(text: str, why: str) -> Refused:
    return Refused("bad_switches", f"{text!r} is no number of switches: {why}", "write 1, or 1@2:00:00 to wait 2 hours")


def parse_gres_flags(text: str) -> tuple[str, ...]:
    """`--gres-flags`: the words of a list, each one of `GRES_FLAGS`."""
    flags = tuple(part.strip() for part in text.split(",") if part.strip())
    for flag in flags:
        if flag not in GRES_FLAGS:
            raise Refused("bad_gres", f"there is no GRES flag {flag!r}", f"there are {', '.join(GRES_FLAGS)}")
    return flags


def parse_stage_in(text: str) -> Transfer:
    """`SRC:DEST`: from the submitting machine to an absolute path on the nodes."""
    source, colon, target = text.partition(":/")
    if not colon or not source:
        raise Refused("bad_stage", f"{text!r}: write SRC:DEST, where DEST is an absolute path on the nodes")
    return Transfer(source, f"/{target}")


def parse_stage_out(text: str) -> Transfer:
    """`SRC[:DEST]`: from a path on the first node (relative: in the working folder) to the submitting machine."""
    source, _, target = text.partition(":")
    if not source:
        raise Refused("bad_stage", f"{text!r}: write SRC:DEST, or SRC alone")
    return Transfer(source, target or ".")
