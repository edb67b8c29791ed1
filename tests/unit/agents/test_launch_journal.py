"""The journal of attempts, the finding of processes, the reading of outputs, the keeper's size and start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flagplot_agent.launch.journal import Journal
from flagplot_agent.launch.output import read_as, read_piece
from flagplot_agent.launch.processes import boot_id, is_marked, of_attempt, read_process


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def test_an_attempt_is_written_before_it_can_run(journal: Journal) -> None:
    script = journal.begin("41.2", {"recipe": {}}, "#!/bin/sh\n\udcff\n", os.getuid())
    assert script.read_bytes() == b"#!/bin/sh\n\xff\n" and script.stat().st_mode & 0o777 == 0o500
    assert journal.names() == ["41.2"] and journal.begun_of("41.2") is None
    with pytest.raises(FileExistsError):
        journal.begin("41.2", {}, "", os.getuid())
    journal.begin("9.1", {}, "", os.getuid())
    assert journal.names() == ["9.1", "41.2"]


def test_what_a_full_disk_left_does_not_count(journal: Journal, tmp_path: Path) -> None:
    journal.script("1.1").write_text("half")
    (tmp_path / "1.1.log").write_text('\n{"start": {"reci')
    assert journal.names() == []
    journal.begin("1.1", {}, "whole", os.getuid())
    assert list(journal.sync_starts(["1.1", "9.9"])) == ["9.9"], "only what is not there could not be synced"
    assert journal.script("1.1").read_text() == "whole" and journal.names() == ["1.1"]
    with (tmp_path / "1.1.log").open("a") as file:
        file.write('\n{"end": {"cause": "exi')
    assert journal.end_of("1.1") is None
    journal.end("1.1", {"cause": "oom"})
    assert journal.end_of("1.1") == {"cause": "oom"}


def test_equal_scripts_of_a_user_are_one_file_until_it_is_changed(journal: Journal) -> None:
    own = os.getuid()
    first, second = (journal.begin(f"{number}.1", {}, "#!/bin/sh\n:\n", own) for number in (1, 2))
    other = journal.begin("3.1", {}, "#!/bin/sh\n", own)
    assert first.samefile(second) and not first.samefile(other) and second.stat().st_mode & 0o777 == 0o500
    if own == 0:
        theirs = journal.begin("4.1", {}, "#!/bin/sh\n:\n", 1)
        assert not theirs.samefile(first) and (theirs.stat().st_uid, first.stat().st_uid) == (1, 0)
    journal.remove("1.1")
    assert second.read_text() == "#!/bin/sh\n:\n"
    third = journal.begin("5.1", {}, "#!/bin/sh\n:\n", own)
    assert third.read_text() == "#!/bin/sh\n:\n" and not third.samefile(second)
    third.chmod(0o700)
    third.write_text("#!/bin/sh\n!\n")
    third.chmod(0o500)
    assert journal.begin("6.1", {}, "#!/bin/sh\n:\n", own).read_text() == "#!/bin/sh\n:\n"


def test_notes_ends_and_acknowledgements(journal: Journal) -> None:
    journal.begin("1.1", {}, "", os.getuid())
    journal.note_begun("1.1", {"pids": {"5": 6}})
    journal.note_limit("1.1", 90)
    assert journal.begun_of("1.1") == {"pids": {"5": 6}} and journal.limit_of("1.1") == 90
    assert journal.end_of("1.1") is None
    journal.end("1.1", {"cause": "exited"})
    assert journal.end_of("1.1") == {"cause": "exited"} and not journal.acknowledged("1.1")
    journal.acknowledge("1.1")
    journal.acknowledge("2.2")
    assert journal.acknowledged("1.1")
    journal.note_done("1.1", "prologued")
    assert journal.done("1.1", "prologued") and not journal.done("1.1", "epilogued")
    (journal.hooks("1.1") / "prolog.log").touch()
    journal.remove("1.1")
    assert journal.names() == [] and not list(journal.folder.iterdir())


def test_all_processes_of_an_attempt_are_found() -> None:
    environment = {**os.environ, "MARK": f"m{os.getpid()}"}
    child = subprocess.Popen(
        ["bash", "-c", "sleep 60 & setsid sleep 60 & wait"], start_new_session=True, env=environment
    )
    try:
        deadline = time.monotonic() + 10
        mark = f"MARK=m{os.getpid()}".encode()
        while len(found := of_attempt({child.pid}, (), -1)) < 3 or not all(is_marked(pid, (mark,)) for pid in found):
            assert time.monotonic() < deadline
        assert child.pid in found
        assert not is_marked(child.pid, (b"MARK=other",))
    finally:
        for pid in of_attempt({child.pid}, (), -1):
            os.kill(pid, signal.SIGKILL)
        child.wait()
    assert read_process(child.pid) is None
    assert len(boot_id()) == 36


def test_pieces_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(bytes(range(256)) * 10)
    assert read_piece(str(path), 0, 4) == (0, 2560, b"\0\1\2\3", -1, -1)
    assert read_piece(str(path), -2, 99) == (2558, 2560, b"\xfe\xff", -1, -1)
    assert read_piece(str(path), 9999, 5) == (2560, 2560, b"", -1, -1)
    assert read_as(str(path), -9999, 1, "me", os.getuid(), os.getgid()) == (0, 2560, b"\0", -1, -1)
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="regular file"):
            read_piece(str(other), 0, 10)


def test_nothing_of_the_keeper_works_after_each_fork() -> None:
    """`threading` does, longer than the fork itself takes."""
    code = "import sys, flagplot_agent.launch.keeper; print([m for m in ('threading', 'random', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_keeper_starts_fast_is_small_and_alone(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    command = [sys.executable, "-P", "-m", "flagplot_agent.launch.keeper", str(tmp_path)]
    keeper = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 20
        line = socket.socket(socket.AF_UNIX)
        while True:
            try:
                line.connect(str(tmp_path / "keeper.sock"))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < deadline
        assert (tmp_path / "keeper.sock").stat().st_mode & 0o777 == 0o600
        second = subprocess.run(command, timeout=20, check=False)
        assert second.returncode == 0 and keeper.poll() is None
        resident = int(Path(f"/proc/{keeper.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        assert resident < 20 << 20
        line.sendall(b'not json\n{"do": "start"}\n[]\n{"do": "hello"}\n')
        assert b'"hello"' in line.recv(4096)
        line.sendall(b'{"do": "leave"}\n')
        assert keeper.wait(10) == 0
        line.close()
    finally:
        keeper.kill()
        keeper.wait()
