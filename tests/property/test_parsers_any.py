"""Parsers on anything: they give a value or a refusal, and writing undoes reading."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flagplot.script.build import parse_script
from flagplot_wire import constraint, indices, units, values
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts, expand_hosts, natural_key
from flagplot_wire.ids import parse_job_ref
from flagplot_wire.patterns import Fields, expand_pattern
from flagplot_wire.text import clean, fit, width

names = some.builds(
    lambda prefix, number, pad, suffix: f"{prefix}{str(number).zfill(pad)}{suffix}",
    some.sampled_from(["gpu", "n", "dgx-a", "x1-"]), some.integers(0, 120), some.integers(0, 3),
    some.sampled_from(["", "-ib", "b"]),
)  # fmt: skip
readers: list[Callable[[str], Any]] = [
    units.parse_time_limit, units.parse_memory, units.parse_count, values.parse_gpus, values.parse_gres,
    values.parse_dependency, values.parse_node_count, values.parse_array, values.parse_licenses,
    values.parse_switches, values.parse_gres_flags, constraint.parse, expand_hosts, parse_job_ref,
    lambda text: units.parse_begin(text, 1_000_000), lambda text: parse_script(f"#!/bin/sh\n#SBATCH {text}\n", "x"),
]  # fmt: skip


@given(some.lists(names, min_size=1, max_size=30))
def test_host_lists_come_back(hosts: list[str]) -> None:
    again = expand_hosts(compress_hosts(hosts))
    assert sorted(again) == sorted(set(hosts))
    assert len(set(map(natural_key, again))) == len(again)


@pytest.mark.parametrize("reader", range(len(readers)))
@given(some.one_of(some.text(max_size=30), some.text("0123456789-:,%[]+agpu?kMG_ ", max_size=20)))
def test_any_text_is_read_or_refused(reader: int, text: str) -> None:
    try:
        readers[reader](text)
    except Refused as refused:
        assert refused.message and refused.code


@given(some.sets(some.integers(0, 60), min_size=1), some.integers(0, 60))
def test_index_lists(numbers: set[int], one: int) -> None:
    text = indices.compress_indices(numbers)
    assert indices.expand_indices(text) == sorted(numbers)
    assert indices.count_indices(text) == len(numbers)
    assert indices.first_indices(text, 5) == sorted(numbers)[:5]
    assert indices.has_index(text, one) == (one in numbers)
    left = indices.remove_index(text, one)
    assert (indices.expand_indices(left) if left else []) == sorted(numbers - {one})
    assert indices.mask_of(text) == sum(1 << number for number in numbers)


@given(some.text())
def test_clean_text_steers_nothing(text: str) -> None:
    shown = clean(text)
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in shown)
    assert not any(0x202A <= ord(character) <= 0x202E or 0x2066 <= ord(character) <= 0x2069 for character in shown)
    assert clean(shown) == shown


@given(some.text(some.characters(categories=["L", "N", "P", "Zs"]), max_size=30), some.integers(1, 20))
def test_fitted_text_has_the_width(text: str, columns: int) -> None:
    assert width(fit(clean(text), columns)) == columns


@given(some.text(max_size=40))
def test_patterns_never_fail(pattern: str) -> None:
    assert isinstance(expand_pattern(pattern, Fields(1, "n", "u", "h")), str)


@given(some.integers(0, 10_000 * 86_400 // 60))
def test_time_limits_come_back(minutes: int) -> None:
    assert units.parse_time_limit(units.format_limit(minutes * 60)) == minutes * 60


@given(some.sets(some.integers(0, 300), max_size=60), some.integers(0, 70))
def test_masks_are_lists_and_their_lowest_bits(members: set[int], count: int) -> None:
    text = indices.compress_indices(members)
    mask = indices.mask_of(text)
    assert indices.list_of(mask) == text
    assert indices.list_of(indices.lowest_of(mask, count)) == indices.compress_indices(sorted(members)[:count])
