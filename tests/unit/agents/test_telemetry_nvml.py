"""NVML through the real binding against a real shared library, built here with gcc, in all its moods."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.fake_nvml import build

from flagplot_agent.telemetry.faults import Health, fault_of
from flagplot_agent.telemetry.names import type_word
from flagplot_agent.telemetry.nvml import binding_words, distribution, text_of
from flagplot_wire.job import GpuCount
from flagplot_wire.values import parse_gpus, parse_gres

DISCOVER = """
import json, msgspec
from flagplot_agent.telemetry.inventory import discover_gpus
gpus, driver, notes = discover_gpus()
print(json.dumps({"gpus": [{n: getattr(g, n) for n in g.__struct_fields__} for g in gpus], "driver": driver, "notes": notes}))
"""
SAMPLE = """
import json, os, msgspec
from flagplot_agent.telemetry.inventory import discover
from flagplot_agent.telemetry.sampler import JobProcesses, Sampler
sampler = Sampler(discover("n1", None), None)
sample = sampler.sample(1_000, [JobProcesses(41, 1, [os.getppid()])])
print(json.dumps({
    "gpus": [{n: msgspec.to_builtins(getattr(g, n)) for n in g.__struct_fields__} for g in sample.gpus],
    "faults": [g.fault for g in sampler.inventory.gpus],
}))
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds libnvidia-ml.so.1."""
    return build(tmp_path_factory.mktemp("nvml"))


def ask(code: str, library: Path | None, mode: str = "normal") -> Any:
    """Run a program with the library in place and read what it prints."""
    environment = {**os.environ, "FAKE_NVML": mode, "FAKE_PID": str(os.getpid())}
    if library is not None:
        environment["LD_LIBRARY_PATH"] = str(library)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_cards_with_all_they_tell(library: Path) -> None:
    found = ask(DISCOVER, library)
    assert found["driver"] == "550.54.15" and found["notes"] == []
    first, second = found["gpus"]
    assert (first["uuid"], first["type"], first["name"]) == ("GPU-0", "h100", "NVIDIA H100 80GB HBM3")
    assert (first["pci"], first["minor"], first["mig"]) == ("00000000:3b:00.0", 4, False)
    assert (second["index"], second["uuid"], second["minor"]) == (1, "GPU-1", 5)
    sample = ask(SAMPLE, library)["gpus"][0]
    assert (sample["utilisation"], sample["temperature_c"], sample["power_w"], sample["power_limit_w"]) == (
        37,
        41,
        123,
        700,
    )
    assert sample["processes"] == [{**sample["processes"][0], "pid": os.getpid(), "memory_mib": 300, "job": 41}]


@pytest.mark.parametrize(
    ("mode", "links"), [("linked", [[1], [0]]), ("normal", [[], []]), ("lost", [[], []]), ("unsupported", [[], []])]
)
def test_cards_tell_which_others_nvlink_joins_them_with(library: Path, mode: str, links: list[list[int]]) -> None:
    assert [gpu["links"] for gpu in ask(DISCOVER, library, mode)["gpus"]] == links


def test_the_binding_is_told_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert binding_words() == f"nvidia-ml-py {importlib.metadata.version('nvidia-ml-py')}"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py package is not installed" in binding_words()
    stranger = ModuleType("pynvml")
    stranger.__file__ = "/opt/elsewhere/pynvml.py"
    assert distribution(stranger) == "of no known distribution, /opt/elsewhere/pynvml.py"


def test_no_library_and_no_driver_are_said_in_words(library: Path) -> None:
    assert ask(DISCOVER, None) == {
        "gpus": [],
        "driver": "",
        "notes": ["no GPUs: there is no NVIDIA driver (libnvidia-ml.so.1 was not found)"],
    }
    (note,) = ask(DISCOVER, library, "not_loaded")["notes"]
    assert "modprobe nvidia" in note


def test_a_g1_memory_not_supported_is_unknown_not_zero(library: Path) -> None:
    assert ask(DISCOVER, library, "unsupported")["gpus"][0]["vram_mib"] is None
    sample = ask(SAMPLE, library, "unsupported")["gpus"][0]
    assert (sample["utilisation"], sample["memory_total_mib"], sample["power_w"]) == (None, None, None)
    assert sample["memory_used_mib"] == 300


def test_a_g2_bytes_and_text_are_the_same() -> None:
    assert text_of(b"NVIDIA L4") == text_of("NVIDIA L4") == "NVIDIA L4"


def test_a_g3_one_lost_card_leaves_the_others(library: Path) -> None:
    found = ask(DISCOVER, library, "lost")["gpus"]
    assert [bool(gpu["fault"]) for gpu in found] == [False, True]
    sampled = ask(SAMPLE, library, "lost")
    assert sampled["gpus"][0]["utilisation"] == 37
    assert [bool(fault) for fault in sampled["faults"]] == [False, True]


def test_a_g4_mismatch_says_what_to_do(library: Path) -> None:
    (note,) = ask(DISCOVER, library, "mismatch")["notes"]
    assert "reboot" in note and "different versions" in note


def test_a_g5_mig_devices_are_gpus_of_their_own_type(library: Path) -> None:
    found = ask(DISCOVER, library, "mig")["gpus"]
    assert [(gpu["uuid"], gpu["type"], gpu["mig"]) for gpu in found] == [
        (f"MIG-{index}-0", "a100_1g.5gb", True) for index in range(3)
    ]
    assert [one["utilisation"] for one in ask(SAMPLE, library, "mig")["gpus"]] == [None, None, None]


def test_a_g6_a_process_counts_once_and_the_reserve_for_nobody(library: Path) -> None:
    sample = ask(SAMPLE, library, "twice")["gpus"][0]
    assert [process["pid"] for process in sample["processes"]] == [os.getpid()]
    assert (sample["memory_used_mib"], sample["memory_total_mib"]) == (0, 81_059)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100_1g.5gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "h100_1g.10gb_me"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA RTX A6000", "a6000"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA H200", "h200"),
        ("", "gpu"),
    ],
)
def test_type_words(name: str, word: str) -> None:
    assert type_word(name) == word
    assert parse_gres(f"gpu:{word}:2") == ((GpuCount(2, word),), 0, "") and parse_gpus(word) == (GpuCount(1, word),)


UNFIT = """
import json, os
from flagplot_agent.telemetry.inventory import discover
from flagplot_agent.telemetry.sampler import Sampler
sampler = Sampler(discover("n1", None), None)
found = []
for now, (mode, xid) in enumerate(json.loads(os.environ["MOODS"])):
    os.environ["FAKE_NVML"], os.environ["FAKE_XID"] = mode, xid
    sampler.sample(1_000 + now, [])
    found.append([gpu.fault for gpu in sampler.inventory.gpus])
print(json.dumps(found))
"""


@pytest.mark.parametrize("mode", ["ecc", "pending", "failed"])
def test_a_card_with_memory_errors_is_unfit_and_the_other_is_not(
    library: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOODS", json.dumps([("normal", "0"), (mode, "0"), ("normal", "0")]))
    words = {"ecc": "3 uncorrected ECC errors", "pending": "waits to be remapped", "failed": "replace the card"}
    before, (fine, unfit), after = ask(UNFIT, library)
    assert before == after == ["", ""] and fine == "" and words[mode] in unfit


def test_an_xid_of_the_card_lasts_and_one_of_a_program_is_nothing(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOODS", json.dumps([("normal", "0"), ("normal", "31"), ("normal", "48"), ("normal", "48")]))
    fault = "Xid 48: reset the card, then restart the agent"
    assert ask(UNFIT, library) == [["", ""], ["", ""], ["", fault], ["", fault]]


def test_a_hot_card_is_unfit_until_it_is_five_degrees_cooler(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOODS", json.dumps([("hot", "0"), ("normal", "0")]))
    hot = "hot: it slows down at 40 °C"
    assert ask(UNFIT, library) == [[hot, hot], ["", ""]]
    warm = Health(temperature_c=86, slowdown_c=90)
    assert fault_of(warm) == "" and fault_of(warm, was_hot=True) == "hot: it slows down at 90 °C"
    assert fault_of(Health(temperature_c=84, slowdown_c=90), was_hot=True) == "" == fault_of(Health(temperature_c=99))


LASTING = """
import json, os
from flagplot_agent.telemetry.inventory import discover
from flagplot_agent.telemetry.sampler import Sampler
sampler = Sampler(discover("n1", None), None)
found = []
for now, mode in ((1_000, "lost"), (1_002, "normal"), (1_004, "normal"), (1_040, "normal")):
    os.environ["FAKE_NVML"] = mode
    sampler.sample(now, [])
    found.append([(gpu.uuid, bool(gpu.fault)) for gpu in sampler.inventory.gpus])
print(json.dumps(found))
"""


def test_a_card_that_could_not_be_told_apart_keeps_its_fault_until_it_is_found_again(library: Path) -> None:
    lost = [["GPU-0", False], ["unknown-1", True]]
    assert ask(LASTING, library, "lost") == [lost, lost, lost, [["GPU-0", False], ["GPU-1", False]]]
