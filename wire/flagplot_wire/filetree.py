"""Copying files and folders through a stream, for both of its sides. Standard library only; all of it waits.

Unlike the rest of the wire this touches files: a client and a node do the same with theirs. Messages are those of
`step_messages`. The sender begins with news (`n`): the `names` of what comes, how many `bytes`. The receiver answers what
it has, where it is to go on with an earlier copy (`have`: path, size and time of change in ns; `parts`: path, size and
SHA-256 of what that left half-way), then `go`. Each entry is a header (`h`, JSON) and, of a file, data (`d`) and the
SHA-256 of all of it (`f`); what the sender cannot read is a sentence (`p`); `x` is the end. The receiver's last news are
its `problems`.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from typing import Any

from flagplot_wire.errors import Refused
from flagplot_wire.step_messages import Reader, message

PIECE = 128 * 1024
PART = ".flagplot-part-"
"""Before the name of a file that is not whole yet."""
KEPT = 1024 * 1024
"""A part of so many bytes is worth to be gone on with."""
BATCH = 500
Message = tuple[bytes, bytes]
Sum = Any
"""What `hashlib.sha256` makes."""


class Channel:
    """A stream as messages. `read` gives some bytes (none: the end), `write` takes all."""

    def __init__(self, read: Callable[[], bytes], write: Callable[[bytes], Any]) -> None:
        self._read = read
        self._write = write
        self._reader = Reader()
        self._came: list[Message] = []

    def take(self) -> Message:
        """The next message; raises EOFError."""
        while not self._came:
            data = self._read()
            if not data:
                raise EOFError("the other side ended too early")
            self._came += self._reader.feed(data)
        return self._came.pop(0)

    def news(self) -> dict[str, Any]:
        """The next message, which must be news; raises `Refused`."""
        kind, content = self.take()
        if kind != b"n":
            raise Refused("protocol", "the other side says something else than news")
        found: dict[str, Any] = json.loads(content)
        return found

    def send(self, kind: bytes, data: bytes) -> None:
        """One message."""
        self._write(message(kind, data))

    def tell(self, letter: bytes = b"n", /, **what: Any) -> None:
        """News, or a header."""
        self.send(letter, json.dumps(what).encode())


# The sender.


def matching(pattern: str) -> list[str]:
    """What a path with wildcards means, in order; itself where it has none or is there as it is written."""
    if os.path.lexists(pattern):
        return [pattern]
    return sorted(glob(pattern, include_hidden=False))


def entries(top: str) -> Iterator[tuple[str, str]]:
    """(path, path in the copy) of all below `top` and itself, folders first."""
    name = os.path.basename(os.path.abspath(top)) or "root"
    yield top, name
    if os.path.isdir(top) and not os.path.islink(top):
        yield from _below(top, name)


def _below(folder: str, inside: str) -> Iterator[tuple[str, str]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        # Told when the folder itself is sent.
        return
    for name in names:
        if name.startswith(PART):
            continue
        path, into = os.path.join(folder, name), f"{inside}/{name}"
        yield path, into
        if os.path.isdir(path) and not os.path.islink(path):
            yield from _below(path, into)


def size_of(tops: Iterable[str]) -> int:
    """Bytes of all files."""
    total = 0
    for top in tops:
        for path, _ in entries(top):
            try:
                found = os.lstat(path)
            except OSError:
                continue
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def send(channel: Channel, tops: list[str], told: Callable[[int], None]) -> list[str]:
    """Send `tops` with all below; `told` hears of bytes that are done with. Returns the problems of both sides."""
    names = [os.path.basename(os.path.abspath(top)) or "root" for top in tops]
    channel.tell(names=names, bytes=size_of(tops))
    have: dict[str, tuple[int, int]] = {}
    parts: dict[str, tuple[int, str]] = {}
    while not (news := channel.news()).get("go"):
        have |= {path: (size, changed) for path, size, changed in news.get("have", ())}
        parts |= {path: (size, summed) for path, size, summed in news.get("parts", ())}
    for top in tops:
        for path, into in entries(top):
            try:
                _send_one(channel, path, into, have.get(into), parts.get(into), told)
            except OSError as wrong:
                channel.send(b"p", f"{path}: {wrong.strerror or wrong}".encode(errors="replace"))
    channel.send(b"x", b"")
    return [str(problem) for problem in channel.news()["problems"]]


def _send_one(
    channel: Channel,
    path: str,
    into: str,
    known: tuple[int, int] | None,
    part: tuple[int, str] | None,
    told: Callable[[int], None],
) -> None:
    found = os.lstat(path)
    about = {"path": into, "mode": found.st_mode & 0o777, "changed": found.st_mtime_ns}
    if stat.S_ISDIR(found.st_mode):
        os.listdir(path)
        channel.tell(b"h", kind="folder", **about)
    elif stat.S_ISLNK(found.st_mode):
        channel.tell(b"h", kind="link", target=os.readlink(path), **about)
    elif not stat.S_ISREG(found.st_mode):
        raise OSError(95, "is no file, folder or link: left out")
    elif known == (found.st_size, found.st_mtime_ns):
        told(found.st_size)
    else:
        with open(path, "rb") as file:
            summed, offset = _prefix(file, part)
            told(offset)
            channel.tell(b"h", kind="file", size=found.st_size, offset=offset, **about)
            wrong: OSError | None = None
            try:
                while data := file.read(PIECE):
                    summed.update(data)
                    channel.send(b"d", data)
                    told(len(data))
            except OSError as failed:
                wrong = failed
            channel.send(b"f", b"" if wrong else summed.hexdigest().encode())
            if wrong is not None:
                raise wrong


def _prefix(file: Any, part: tuple[int, str] | None) -> tuple[Sum, int]:
    """The sum of what the receiver has of a file already, and how much that is: nothing, where it is something else."""
    summed = hashlib.sha256()
    left = part[0] if part is not None else 0
    while left and (data := file.read(min(left, PIECE))):
        summed.update(data)
        left -= len(data)
    if part is not None and not left and summed.hexdigest() == part[1]:
        return summed, part[0]
    file.seek(0)
    return hashlib.sha256(), 0


# The receiver.


class Receiver:
    """Writes what comes: into `place` where that is a folder or ends in `/` (it is made then), else as `place`."""

    def __init__(self, channel: Channel, place: str, resume: bool, told: Callable[[int], None]) -> None:
        self._channel = channel
        self._resume = resume
        self._told = told
        self._into = place.endswith("/") or os.path.isdir(place)
        self._made = place.endswith("/")
        self.place = place.rstrip("/") or "/"
        self._names: list[str] = []
        self._parts: dict[str, Sum] = {}
        self._folders: list[tuple[str, int]] = []
        self._open = False
        """The messages of a file are not all taken."""
        self.problems: list[str] = []
        self.files = 0

    @property
    def _base(self) -> str:
        return self.place if self._into else os.path.dirname(self.place) or "."

    def run(self, begun: Callable[[int], None] = lambda _total: None) -> list[str]:
        """All of it; returns the problems of both sides. Raises `Refused`, OSError, EOFError."""
        coming = self._channel.news()
        self._names = [str(name) for name in coming["names"]]
        if any("/" in name or name in ("", ".", "..") for name in self._names):
            raise Refused("protocol", "the other side sends names that are none")
        if self._resume and len(self._names) == 1 and not self._made:
            # What was copied as this folder before is gone on with, not copied into itself.
            self._into = self._into and _begun(os.path.join(self.place, self._names[0]))
        if len(self._names) > 1 and not self._into:
            raise Refused("usage", f"{len(self._names)} files do not go into one: {self.place} is no folder")
        if self._made:
            os.makedirs(self._base, exist_ok=True)
        if not os.path.isdir(self._base):
            raise FileNotFoundError(2, "there is no such folder", self._base)
        begun(int(coming["bytes"]))
        if self._resume:
            self._tell_what_is_here()
        self._channel.tell(go=True)
        try:
            while (one := self._channel.take())[0] != b"x":
                self._one(*one)
        except BaseException:
            self._clean()
            raise
        for path, mode in reversed(self._folders):
            os.chmod(path, mode)
        self._channel.tell(problems=self.problems[:1000])
        return self.problems

    def _tops(self) -> list[tuple[str, str]]:
        """(where it goes, what the sender calls it)."""
        return (
            [(os.path.join(self._base, name), name) for name in self._names]
            if self._into
            else [(self.place, self._names[0])]
        )

    def _left(self) -> Iterator[tuple[str, str, str]]:
        """What an earlier copy left half-way: (the part, the whole, what the sender calls that)."""
        for top, name in self._tops():
            beside = os.path.join(os.path.dirname(top), PART + os.path.basename(top))
            found = [beside] if os.path.isfile(beside) else []
            for folder, _, files in os.walk(top):
                found += [os.path.join(folder, file) for file in files if file.startswith(PART)]
            for part in found:
                whole = os.path.join(os.path.dirname(part), os.path.basename(part).removeprefix(PART))
                yield part, whole, name + whole[len(top) :]

    def _tell_what_is_here(self) -> None:
        have, parts = [], []
        for top, name in self._tops():
            for path, _ in entries(top) if os.path.lexists(top) else ():
                found = os.lstat(path)
                if stat.S_ISREG(found.st_mode):
                    have.append((name + path[len(top) :], found.st_size, found.st_mtime_ns))
        for part, whole, called in self._left():
            summed = self._parts[whole] = hashlib.sha256()
            with open(part, "rb") as file:
                while data := file.read(PIECE):
                    summed.update(data)
            parts.append((called, os.path.getsize(part), summed.hexdigest()))
        for start in range(0, max(len(have), len(parts)), BATCH):
            self._channel.tell(have=have[start : start + BATCH], parts=parts[start : start + BATCH])

    def _clean(self) -> None:
        """After an interruption: what is too little to be gone on with goes away."""
        for part, _, _ in list(self._left()):
            if os.path.getsize(part) < KEPT:
                os.unlink(part)

    def _one(self, kind: bytes, content: bytes) -> None:
        if kind == b"p":
            self.problems.append(content.decode(errors="replace"))
            return
        if kind != b"h":
            raise Refused("protocol", "something else than a file came")
        about: dict[str, Any] = json.loads(content)
        place, self._open = "", about["kind"] == "file"
        try:
            place = self._place(str(about["path"]))
            if about["kind"] == "folder":
                self._folder(place, int(about["mode"]) & 0o777)
            elif about["kind"] == "link":
                self._link(place, str(about["path"]), str(about["target"]))
            else:
                self._file(place, about)
        except OSError as wrong:
            self.problems.append(f"{place or about['path']}: {wrong.strerror or wrong}")
            while self._open:
                self._open = self._channel.take()[0] == b"d"

    def _place(self, path: str) -> str:
        """Where an entry goes; raises OSError on one that would lead out of the place."""
        words = path.split("/")
        if "\0" in path or any(word in ("", ".", "..") for word in words):
            raise OSError(22, "is no path below the copied folder: left out")
        if not self._into:
            words[0] = os.path.basename(self.place)
        place = os.path.join(self._base, *words)
        inside, base = os.path.realpath(os.path.dirname(place)), os.path.realpath(self._base)
        if os.path.commonpath((inside, base)) != base:
            raise OSError(40, "leads out of the copied folder by a link: left out")
        return place

    def _folder(self, place: str, mode: int) -> None:
        """Ours while it is being filled; one that was there keeps its mode, unless an earlier copy made it."""
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:
            if not os.path.isdir(place):
                raise
            if not self._resume or os.lstat(place).st_uid != os.geteuid():
                return
        self._folders.append((place, mode))

    def _link(self, place: str, path: str, target: str) -> None:
        away = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if os.path.isabs(target) or away.split("/")[0] in ("..", ".") or away.split("/")[0] != path.split("/")[0]:
            raise OSError(40, "is a link that leads out of the copied folder: left out")
        if os.path.islink(place):
            os.unlink(place)
        os.symlink(target, place)

    def _file(self, place: str, about: dict[str, Any]) -> None:
        if os.path.isdir(place):
            raise IsADirectoryError(21, "is a folder here")
        offset = int(about["offset"])
        part = os.path.join(os.path.dirname(place), PART + os.path.basename(place))
        summed = self._parts[place] if offset else hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_APPEND if offset else os.O_TRUNC)
        self._told(offset)
        try:
            with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
                while (one := self._channel.take())[0] == b"d":
                    file.write(one[1])
                    summed.update(one[1])
                    self._told(len(one[1]))
                self._open = False
                if one[1] != summed.hexdigest().encode():
                    raise OSError(5, "what came has another checksum" if one[1] else "the other side could not read it")
                file.flush()
                os.fchmod(file.fileno(), int(about["mode"]) & 0o777)
                os.utime(file.fileno(), ns=(int(about["changed"]), int(about["changed"])))
            os.replace(part, place)
        except OSError:
            if os.path.lexists(part):
                os.unlink(part)
            raise
        self.files += 1


def _begun(top: str) -> bool:
    """True where a copy with this name is there, or a part of it."""
    return os.path.lexists(top) or os.path.lexists(os.path.join(os.path.dirname(top), PART + os.path.basename(top)))
