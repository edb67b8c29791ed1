"""Copies through a stream: whole trees, what is gone on with, what cannot be copied, senders that mean ill."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flagplot_wire.errors import Refused
from flagplot_wire.filetree import PART, Channel, Receiver, matching, send
from flagplot_wire.step_messages import message


class Copy:
    """One copy from `tops` to `place`; `sent` and `got` are the bytes that each side was told of."""

    def __init__(self, tops: list[str], place: str, resume: bool = False, cut: int = 0) -> None:
        self.sent = self.got = self.raw = 0
        self.problems: list[str] = []
        self.wrong: BaseException | None = None
        left, right = socket.socketpair()

        def write(data: bytes) -> None:
            if cut and self.raw + len(data) > cut:
                left.shutdown(socket.SHUT_RDWR)
                raise EOFError("cut")
            self.raw += len(data)
            left.sendall(data)

        def sending() -> None:
            try:
                self.problems = send(Channel(lambda: left.recv(65_536), write), tops, self.told("sent"))
            except (EOFError, OSError):
                # The receiver tells what is wrong.
                self.problems.append("cut")
            left.close()

        thread = threading.Thread(target=sending)
        thread.start()
        channel = Channel(lambda: right.recv(65_536), right.sendall)
        self.receiver = Receiver(channel, place, resume, self.told("got"))
        try:
            self.receiver.run()
        except (EOFError, OSError, Refused) as wrong:
            self.wrong = wrong
        right.close()
        thread.join(20)

    def told(self, name: str) -> Callable[[int], None]:
        def tell(count: int) -> None:
            setattr(self, name, getattr(self, name) + count)

        return tell


def tree(folder: Path, dice: random.Random) -> Path:
    """A folder with files of many sizes, empty folders and a link inside."""
    for place in range(12):
        inside = folder / f"d{place % 4}" / f"e{place % 3}"
        inside.mkdir(parents=True, exist_ok=True)
        (inside / f"f{place} ü").write_bytes(dice.randbytes(dice.choice([0, 1, 1000, 400_000])))
    (folder / "empty").mkdir()
    (folder / "d0/link").symlink_to("../d1/e0")
    (folder / "d1").chmod(0o750)
    (folder / "script").write_bytes(b"#!/bin/sh\n")
    (folder / "script").chmod(0o755)
    return folder


def content(folder: Path) -> dict[str, Any]:
    """All below a folder: modes, times, bytes and links."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = about.st_mode & 0o777
        else:
            found[name] = about.st_mode & 0o777, about.st_mtime_ns, path.read_bytes()
    return found


@pytest.fixture
def dice() -> random.Random:
    seed = random.randrange(2**32)
    print("seed", seed)
    return random.Random(seed)


def test_a_tree_comes_as_it_is(tmp_path: Path, dice: random.Random) -> None:
    source = tree(tmp_path / "source", dice)
    for place, where in (
        (f"{tmp_path}/new", "new"),
        (f"{tmp_path}/made/", "made/source"),
        (f"{tmp_path}/made", "made/source"),
    ):
        copy = Copy([str(source)], place)
        assert (copy.wrong, copy.problems) == (None, [])
        assert content(tmp_path / where) == content(source)
        assert copy.sent == copy.got == sum(len(one[2]) for one in content(source).values() if isinstance(one, tuple))
    several = Copy([str(source / "script"), str(source / "d1")], f"{tmp_path}/made/")
    assert several.wrong is None and content(tmp_path / "made/d1") == content(source / "d1")
    refused = Copy([str(source / "script"), str(source / "d1")], f"{tmp_path}/one")
    assert isinstance(refused.wrong, Refused) and "is no folder" in str(refused.wrong)


def test_a_copy_that_was_cut_is_gone_on_with(tmp_path: Path, dice: random.Random) -> None:
    source = tree(tmp_path / "source", dice)
    (source / "zlarge").write_bytes(dice.randbytes(5_000_000))
    cut = Copy(
        [str(source)], f"{tmp_path}/copy", cut=sum(path.stat().st_size for path in source.rglob("f*")) + 3_000_000
    )
    assert cut.wrong is not None
    part = tmp_path / "copy" / f"{PART}zlarge"
    assert part.stat().st_size > 1_000_000 and not (tmp_path / "copy/zlarge").exists()
    again = Copy([str(source)], f"{tmp_path}/copy", resume=True)
    assert (again.wrong, again.problems) == (None, []) and content(tmp_path / "copy") == content(source)
    assert (
        again.raw < 4_000_000 and again.sent == 5_000_000 + sum(path.stat().st_size for path in source.rglob("f*")) + 10
    )
    nothing = Copy([str(source)], f"{tmp_path}/copy", resume=True)
    assert nothing.raw < 10_000 and content(tmp_path / "copy") == content(source)


def test_a_part_of_something_else_is_not_gone_on_with(tmp_path: Path, dice: random.Random) -> None:
    source = tmp_path / "file"
    source.write_bytes(dice.randbytes(3_000_000))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / f"{PART}file").write_bytes(dice.randbytes(2_000_000))
    copy = Copy([str(source)], f"{tmp_path}/there", resume=True)
    assert copy.wrong is None and copy.raw > 3_000_000
    assert (tmp_path / "there/file").read_bytes() == source.read_bytes() and len(
        list((tmp_path / "there").iterdir())
    ) == 1


def test_a_small_part_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(900_000))
    (tmp_path / "there").mkdir()
    assert Copy([str(tmp_path / "file")], f"{tmp_path}/there", cut=500_000).wrong is not None
    assert list((tmp_path / "there").iterdir()) == []


def test_what_cannot_be_copied_is_told_and_the_rest_comes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / name).write_text(name * 1000)
    os.mkfifo(source / "pipe")
    (source / "away").symlink_to("/etc/passwd")
    (source / "up").symlink_to("../../x")
    (tmp_path / "copy/source/b").mkdir(parents=True)
    copy = Copy([str(source)], f"{tmp_path}/copy")
    assert copy.wrong is None
    told = "\n".join(copy.problems)
    assert "pipe: is no file, folder or link" in told and "away: is a link that leads out" in told
    assert "/up: is a link that leads out" in told and "source/b: is a folder here" in told and len(copy.problems) == 4
    assert (tmp_path / "copy/source/c").read_text() == "c" * 1000
    missing = Copy([str(source / "a")], f"{tmp_path}/no/where")
    assert isinstance(missing.wrong, FileNotFoundError)


def receive(place: Path, *messages: bytes, names: tuple[str, ...] = ("top",)) -> Receiver:
    """What a sender of ours leads to."""
    first = message(b"n", json.dumps({"names": names, "bytes": 0}).encode())
    waiting = [b"".join((first, *messages, message(b"x", b"")))]
    receiver = Receiver(Channel(waiting.pop, lambda _data: None), str(place), False, lambda _count: None)
    receiver.run()
    return receiver


def header(**about: Any) -> bytes:
    return message(b"h", json.dumps({"mode": 0o644, "changed": 0, "offset": 0, "size": 1, **about}).encode())


def test_a_sender_that_means_ill_stays_inside(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "outside").mkdir()
    file = message(b"d", b"evil") + message(b"f", b"")
    for path in ("../evil", "/evil", "top/../../evil", "top//evil", "top/\0"):
        told = receive(place, header(kind="file", path=path), file).problems
        assert len(told) == 1 and "left out" in told[0], path
    (place / "top").mkdir()
    (place / "top/door").symlink_to(tmp_path / "outside")
    told = receive(place, header(kind="file", path="top/door/evil"), file).problems
    assert "leads out of the copied folder by a link" in told[0]
    for target in ("/etc", "../../outside", "..", "../other"):
        told = receive(place, header(kind="link", path="top/new", target=target)).problems
        assert "leads out" in told[0], target
    with pytest.raises(Refused, match="names that are none"):
        receive(place, names=("..",))
    assert list((tmp_path / "outside").iterdir()) == [] and not (tmp_path / "evil").exists()
    assert sorted(path.name for path in place.rglob("*")) == ["door", "top"]


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path) -> None:
    told = receive(
        tmp_path, header(kind="file", path="top"), message(b"d", b"some") + message(b"f", b"0" * 64)
    ).problems
    assert told == [f"{tmp_path}/top: what came has another checksum"] and list(tmp_path.iterdir()) == []


def test_wildcards(tmp_path: Path) -> None:
    for name in ("a.pt", "b.pt", "[x]", ".hidden.pt"):
        (tmp_path / name).write_text("")
    assert [os.path.basename(one) for one in matching(f"{tmp_path}/*.pt")] == ["a.pt", "b.pt"]
    assert [os.path.basename(one) for one in matching(f"{tmp_path}/[x]")] == ["[x]"]
    assert matching(f"{tmp_path}/*.none") == []
