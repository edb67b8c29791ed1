"""Text from users and nodes made safe to show, and measured in terminal cells."""

from __future__ import annotations

import unicodedata

from wcwidth import wcswidth, wcwidth

_HIDDEN = {0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF, 0x061C}
_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def clean(text: str, keep_newlines: bool = False) -> str:
    """Replace everything that could steer a terminal by a visible substitute.

    C0 controls become control pictures (U+2400…), C1 controls, bidirectional overrides, zero-width and line
    separators and lone surrogates become U+FFFD, a tab becomes a space. Parts of emoji whose width depends on their
    neighbour, and which a dialog's edge could cut in two, go: flags become their two letters, variation selectors and
    skin tones are left out. Printable text is returned as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_safe(character, keep_newlines) for character in text)


def _safe(character: str, keep_newlines: bool) -> str:
    code = ord(character)
    if character == "\n" and keep_newlines:
        return character
    if character == "\t":
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code < 0xA0 or code in _HIDDEN or code in _BIDI or 0xD800 <= code < 0xE000:
        return "\ufffd"
    if 0x1F1E6 <= code <= 0x1F1FF:
        return chr(ord("A") + code - 0x1F1E6)
    if 0xE0000 <= code < 0xE0080:
        return "\ufffd"
    if 0xFE00 <= code <= 0xFE0F or 0x1F3FB <= code <= 0x1F3FF:
        return ""
    return character


def width(text: str) -> int:
    """Terminal cells that `text` takes; text that was not cleaned counts unprintable characters as one."""
    if text.isascii() and text.isprintable():
        return len(text)
    cells = wcswidth(text)
    return cells if cells >= 0 else sum(max(wcwidth(character), 1) for character in text)


def fit(text: str, columns: int) -> str:
    """Cut (with `…`) or pad `text` to exactly `columns` cells."""
    if columns <= 0:
        return ""
    cells = width(text)
    if cells <= columns:
        return text + " " * (columns - cells)
    kept, used = [], 0
    for character in text:
        cells = 0 if unicodedata.combining(character) else max(wcwidth(character), 0)
        if used + cells > columns - 1:
            break
        kept.append(character)
        used += cells
    return "".join(kept) + "…" + " " * (columns - 1 - used)


def counted(count: int, noun: str) -> str:
    """A number and its noun: `1 node`, `2 nodes`, `0 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
