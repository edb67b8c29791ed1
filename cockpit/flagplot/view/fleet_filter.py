"""The filter of nodes and GPUs: words, `!` to negate, `state: user: part: switch: rack: type:` fields, numbers. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from flagplot.client.mirror import Mirror
from flagplot.view.fleet import NodeFact, partitions_of, place_of
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts

Test = Callable[[NodeFact], bool]
_COMPARE = re.compile(r"^(free|gpus|cpus|jobs)(>=|<=|>|<|=)(\d+)$")
_OPERATORS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq}
_FIELDS = {
    "state": "state",
    "st": "state",
    "user": "user",
    "u": "user",
    "part": "part",
    "partition": "part",
    "p": "part",
    "switch": "switch",
    "rack": "rack",
    "resv": "resv",
    "reservation": "resv",
    "type": "type",
    "gpu": "type",
    "node": "node",
    "w": "node",
    "feature": "feature",
    "job": "job",
}


def node_filter(mirror: Mirror, text: str) -> Test:
    """One test of all the words of a filter; half-typed fields match everything."""
    tests = []
    for token in text.split():
        body = token.removeprefix("!")
        test = _token(mirror, body) if body else None
        if test is not None:
            tests.append(_not(test) if token.startswith("!") else test)
    return lambda fact: all(test(fact) for test in tests)


def _not(test: Test) -> Test:
    return lambda fact: not test(fact)


def _token(mirror: Mirror, body: str) -> Test | None:
    low = body.lower()
    if found := _COMPARE.match(low):
        return _number(found[1], _OPERATORS[found[2]], int(found[3]))
    head, colon, tail = low.partition(":")
    if colon and head in _FIELDS:
        return _field(mirror, _FIELDS[head], tail) if tail else None
    if "[" in body or "," in body:
        try:
            names = set(expand_hosts(body))
        except Refused:
            # A host list that is still being typed.
            return None
        return lambda fact: fact.node.name in names
    return lambda fact: low in _words(fact)


def _number(word: str, compare: Callable[[int, int], bool], value: int) -> Test:
    match word:
        case "free":
            return lambda fact: compare(fact.gpus_free, value)
        case "gpus":
            return lambda fact: compare(len(fact.gpus), value)
        case "cpus":
            return lambda fact: compare((fact.cpus or 0) - fact.cpus_used, value)
    return lambda fact: compare(len(fact.jobs), value)


def _field(mirror: Mirror, field: str, low: str) -> Test:
    me = mirror.welcome.user if mirror.welcome else ""
    match field:
        case "state":
            return lambda fact: any(
                fact.look.lower().startswith(word) or (word == "drain" and fact.node.drain is not None)
                for word in low.split(",")
                if word
            )
        case "user":
            wanted = me.lower() if low == "me" and me else low
            return lambda fact: any(job.user.lower().startswith(wanted) for job in fact.jobs)
        case "part":
            return lambda fact: any(name.lower().startswith(low) for name in partitions_of(mirror, fact.node.name))
        case "switch" | "rack":
            return lambda fact: place_of(mirror, fact, field).lower().startswith(low)
        case "resv":
            return lambda fact: any(one.name.lower().startswith(low) for one in fact.reserved)
        case "type":
            return lambda fact: any(gpu.gpu.type.lower().startswith(low) for gpu in fact.gpus)
        case "feature":
            return lambda fact: fact.node.inventory is not None and low in fact.node.inventory.features
        case "job":
            return lambda fact: any(job.display_id.startswith(low) for job in fact.jobs)
    return lambda fact: fact.node.name.lower().startswith(low)


def _words(fact: NodeFact) -> str:
    """Everything a plain word is searched in."""
    inventory = fact.node.inventory
    parts = [fact.node.name, fact.look, fact.gpu_type, fact.reason]
    parts += [inventory.switch, *inventory.features] if inventory else []
    parts += [job.user for job in fact.jobs]
    return " ".join(parts).lower()
