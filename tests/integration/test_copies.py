"""`flagplot cp` between here and a node: folders, wildcards, several sources, going on after an interruption."""

from __future__ import annotations

import os
import pty
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import BIN, Cluster, wait_until
from support.other_identity import as_somebody_else

from flagplot_wire.filetree import PART

RUN = str(BIN / "flagplot")


@pytest.fixture(scope="module")
def held(fleet: Cluster) -> Iterator[int]:
    number = fleet.submit("-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(number, "RUNNING")
    yield number
    fleet.run("cancel", str(number))


def test_folders_wildcards_and_several_sources(fleet: Cluster, held: int, tmp_path: Path) -> None:
    there = tmp_path / "there"
    for name in ("a.pt", "b.pt", "c.log"):
        (fleet.work / "run/inner").mkdir(parents=True, exist_ok=True)
        (fleet.work / "run" / name).write_bytes(os.urandom(100_000))
    (fleet.work / "single").write_text("single\n")
    fleet.cli("cp", "run", "single", f"{held}:{there}/")
    assert sorted(path.name for path in there.iterdir()) == ["run", "single"] and (there / "run/inner").is_dir()
    (fleet.work / "back").mkdir()
    fleet.cli("cp", f"{held}:{there}/run/*.pt", f"{held}:{there}/single", "back")
    assert sorted(path.name for path in (fleet.work / "back").iterdir()) == ["a.pt", "b.pt", "single"]
    assert (fleet.work / "back/a.pt").read_bytes() == (fleet.work / "run/a.pt").read_bytes()
    assert (fleet.work / "back/a.pt").stat().st_mtime_ns == (fleet.work / "run/a.pt").stat().st_mtime_ns


def test_mistakes_are_told(fleet: Cluster, held: int, tmp_path: Path) -> None:
    (fleet.work / "one").write_text("")
    for words, code, text in (
        (("one", "two"), 2, "must be in a job"),
        ((f"{held}:/a", f"{held}:/b"), 2, "must be in a job"),
        (("one", f"{held}:/a", f"{held}:/b"), 2, "must be in a job"),
        (("none", f"{held}:{tmp_path}/"), 2, "there is no none"),
        ((f"{held}:{tmp_path}/*.none", "."), 3, "*.none: No such file"),
        ((f"{held}:/a", f"{held}:/b", "one"), 2, "one is no folder"),
        (("one", f"{held}:{tmp_path}/no/folder"), 3, f"{tmp_path}/no: there is no such folder"),
        (("one", f"{held}:relative"), 2, "must be absolute"),
        (("one", "999999:/tmp/x"), 4, "no job 999999"),
    ):
        done = fleet.run("cp", *words)
        assert done.returncode == code and text in done.stderr, (words, done.stderr)


@pytest.mark.parametrize("way", ["up", "down"])
def test_it_goes_on_after_an_interruption(fleet: Cluster, held: int, tmp_path: Path, way: str) -> None:
    data = os.urandom(30_000_000)
    source = (fleet.work if way == "up" else tmp_path) / f"large-{way}"
    target = (tmp_path if way == "up" else fleet.work) / "copy"
    source.write_bytes(data)
    words = ["cp", str(source), f"{held}:{target}"] if way == "up" else ["cp", f"{held}:{source}", str(target)]
    part = target.parent / f"{PART}copy"
    copying = subprocess.Popen([RUN, *words], env=fleet.environment, cwd=fleet.work, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not part.exists() or part.stat().st_size < 2_000_000:
        assert copying.poll() is None and time.monotonic() < deadline
    copying.send_signal(signal.SIGINT)
    copying.communicate(timeout=20)
    assert copying.returncode == 130 and not target.exists()
    wait_until(lambda: part.exists() and part.stat().st_size > 1_000_000, 20, "the part")
    fleet.cli(*words, "--resume")
    assert target.read_bytes() == data and not part.exists()


def test_a_line_tells_how_far_it_is(fleet: Cluster, held: int, tmp_path: Path) -> None:
    (fleet.work / "shown").write_bytes(os.urandom(20_000_000))
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [RUN, "cp", "shown", f"{held}:{tmp_path}/shown"], env=fleet.environment, cwd=fleet.work, stdin=slave, stdout=slave,
        stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    seen = b""
    while process.poll() is None or select.select([master], [], [], 0)[0]:
        if select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 65_536)
            except OSError:
                break
    os.close(master)
    assert process.wait(20) == 0 and b"shown  " in seen and b" MiB of 19.1 MiB  " in seen and seen.endswith(b"\r\x1b[K")
    quiet = fleet.run("cp", "shown", f"{held}:{tmp_path}/again")
    assert (quiet.stdout, quiet.stderr) == ("", ""), "not on a terminal"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to run jobs as other users")
def test_it_reads_and_writes_as_the_jobs_user(fleet: Cluster, alice: pwd.struct_passwd, tmp_path: Path) -> None:
    environment = as_somebody_else(fleet, alice.pw_name)
    home = Path(environment["HOME"])

    def hers(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [RUN, "--cluster", "there", *words], env=environment, cwd=home, capture_output=True, text=True, check=False
        )

    job = int(hers("submit", "--parsable", "-D", "/", "-o", "/dev/null", "--wrap", "sleep 600").stdout)
    fleet.wait_state(job, "RUNNING")
    (home / "file").write_text("x")
    place = Path(f"/tmp/fp-copy-{alice.pw_name}")
    try:
        done = hers("cp", "file", f"{job}:{place}/")
        assert done.returncode == 0, done.stderr
        assert place.owner() == (place / "file").owner() == alice.pw_name
        assert "Permission denied" in hers("cp", "file", f"{job}:/etc/fp-copy").stderr
        assert "Permission denied" in hers("cp", f"{job}:/etc/shadow", "shadow").stderr
        assert fleet.run("cp", f"{job}:{place}/file", "stolen").returncode == 6
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)
        fleet.run("cancel", str(job))
