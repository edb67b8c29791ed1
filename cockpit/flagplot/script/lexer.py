"""Finding the directives of a job script, as sbatch(1) does (DESCRIPTION)."""

from __future__ import annotations

from dataclasses import dataclass

from flagplot_wire.errors import Refused

MAX_SCRIPT = 4 * 1024 * 1024
"""Bytes of a script (`max_script_size` of slurm.conf(5))."""
_MARKS = ("#SBATCH", "#FLAGPLOT")


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive line: its number from 1, its mark and its words."""

    line: int
    mark: str
    words: tuple[str, ...]


def check_script(script: str | bytes, name: str) -> str:
    """The script as text; refuses what could not run: empty, no `#!`, DOS line breaks, NUL, not UTF-8, too large."""
    data = script.encode("utf-8", "surrogateescape") if isinstance(script, str) else script
    if len(data) > MAX_SCRIPT:
        raise Refused("bad_script", f"{name} has {len(data)} bytes: a script may have at most {MAX_SCRIPT}")
    if not data:
        raise Refused("bad_script", f"{name} is empty")
    if not data.strip():
        raise Refused("bad_script", f"{name} holds nothing but white space")
    if data[:2] != b"#!":
        raise Refused(
            "bad_script",
            f"{name} does not start with #! and a path to an interpreter",
            "write #!/bin/bash as the very first line",
        )
    if b"\0" in data:
        raise Refused("bad_script", f"{name} contains a NUL byte: it is no text file")
    if b"\r\n" in data:
        line = data[: data.index(b"\r\n")].count(b"\n") + 1
        raise Refused(
            "bad_script", f"{name} line {line} has a DOS line break (CR LF)", f"convert it: sed -i 's/\\r$//' {name}"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        line = data[: wrong.start].count(b"\n") + 1
        raise Refused(
            "bad_script",
            f"{name} line {line} is not UTF-8 (byte 0x{data[wrong.start]:02x})",
            f"convert it: iconv -f latin1 -t utf-8 {name}",
        ) from wrong


def directives(text: str, name: str) -> tuple[list[Directive], list[int]]:
    """The directives above the first command, and the numbers of ignored directive lines below it."""
    found: list[Directive] = []
    ignored: list[int] = []
    commands_began = False
    for number, line in enumerate(text.split("\n"), 1):
        mark = next((mark for mark in _MARKS if line.startswith(mark) and line[len(mark) :][:1].isspace()), "")
        if commands_began:
            if mark:
                ignored.append(number)
        elif mark:
            found.append(Directive(number, mark, tuple(split_words(line[len(mark) :], f"{name} line {number}"))))
        elif line.strip() and not line.lstrip().startswith("#"):
            commands_began = True
    return found, ignored


def split_words(text: str, where: str) -> list[str]:
    """Split at blanks; single and double quotes group and are removed, `\\` escapes, an unquoted # ends it."""
    words: list[str] = []
    current: list[str] | None = None
    quote = ""
    characters = iter(text)
    for character in characters:
        if quote:
            if character == quote:
                quote = ""
            elif character == "\\" and quote == '"':
                current = [*(current or []), next(characters, "")]
            else:
                current = [*(current or []), character]
        elif character in "\"'":
            quote, current = character, current if current is not None else []
        elif character == "\\":
            current = [*(current or []), next(characters, "")]
        elif character.isspace():
            if current is not None:
                words.append("".join(current))
            current = None
        elif character == "#" and current is None:
            break
        else:
            current = [*(current or []), character]
    if quote:
        raise Refused("bad_directive", f"{where}: a {quote} is not closed")
    if current is not None:
        words.append("".join(current))
    return words
