"""Searching a job's output backwards on its node, without reading holes and without holding what was read."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from flagplot_agent.launch import output
from flagplot_agent.launch.output import BLOCK, read_piece

GIB = 1 << 30


def test_the_last_place_before_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"one Error\ntwo\nthree ERROR\nfour\n")
    at, size, data, found, searched = read_piece(str(path), -1, 100, b"error")
    assert (at, size, found, searched) == (0, 31, 20, 20) and data.startswith(b"one")
    assert read_piece(str(path), 20, 4, b"error") == (2, 31, b"e Er", 4, 4)
    assert read_piece(str(path), 21, 4, b"error")[3] == 20, "it begins before the offset and reaches beyond"
    assert read_piece(str(path), 4, 4, b"error") == (0, 31, b"", -1, 0)
    assert read_piece(str(path), 9_999, 4, b"Four")[3] == 26


def test_against_rfind_over_borders_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    monkeypatch.setattr(output, "BLOCK", 16)
    path = tmp_path / "out"
    for _ in range(200):
        data = bytes(dice.choice(b"abAB\n") for _ in range(dice.randrange(120)))
        words = bytes(dice.choice(b"ab") for _ in range(dice.randrange(1, 40)))
        path.write_bytes(data)
        before = dice.randrange(0, 130)
        expected = (
            data.lower().rfind(words, 0, min(before, len(data)) + len(words) - 1) if min(before, len(data)) else -1
        )
        assert read_piece(str(path), before, 9, words)[3] == expected, (data, words, before)


def test_a_sparse_file_of_ten_gibibytes(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("wb") as file:
        file.write(b"the needle at the top\n")
        file.truncate(10 * GIB)
        file.seek(5 * GIB)
        file.write(b"half way\n")
        file.seek(10 * GIB - 9)
        file.write(b"the end.\n")
    if path.stat().st_blocks * 512 > GIB:
        pytest.skip("this file system keeps no sparse files")
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))\n"
        "from flagplot_agent.launch.output import read_piece\n"
        f"end = read_piece({str(path)!r}, -65536, 65536)\n"
        f"found = [read_piece({str(path)!r}, -1, 64, words)[3:] for words in (b'NEEDLE', b'half', b'nothing')]\n"
        "print(end[0], end[1], end[2][-9:].decode().strip(), found)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == (
        f"{10 * GIB - 65_536} {10 * GIB} the end. [(4, 4), ({5 * GIB}, {5 * GIB}), (-1, 0)]"
    )


def test_a_long_search_pauses_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"needle" + b"x" * (3 * BLOCK))
    monkeypatch.setattr(output, "SEARCH_S", -1.0)
    offset, steps = -1, []
    while True:
        _, size, data, found, searched = read_piece(str(path), offset, 10, b"needle")
        steps.append(searched)
        if found >= 0:
            break
        assert not data and searched > 0
        offset = searched
    assert steps == [size - BLOCK, size - 2 * BLOCK, size - 3 * BLOCK, 0]


@pytest.mark.skipif(os.getuid() != 0, reason="only a root agent reads in another process")
def test_a_root_agent_searches_as_the_user() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "out"
        path.write_bytes('grüße -x "quoted"\n'.encode())
        path.chmod(0o644)
        words = 'grüße -x "'.encode()
        assert output.read_as(str(path), -1, 99, "nobody", 65_534, 65_534, words)[3] == 0
