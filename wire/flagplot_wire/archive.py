"""What goes into the archives of --stage-in and --stage-out: nothing that the other side refuses to unpack."""

from __future__ import annotations

import os
import tarfile


def add(archive: tarfile.TarFile, source: str) -> list[str]:
    """Add a file or folder by its own name, also where that is a link to it. Raises OSError.

    Returns the paths of what was left out: links that lead out of the folder, devices and pipes.
    """
    top = os.path.realpath(source)
    name = os.path.basename(source.rstrip("/")) or "root"
    left_out: list[str] = []

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        # A second name of a file is sent as a file: the archive's top may get another name where it is unpacked.
        archive.inodes.clear()  # type: ignore[attr-defined]
        try:
            tarfile.data_filter(member, os.path.dirname(top))
        except tarfile.FilterError:
            left_out.append(source.rstrip("/") + member.name[len(name) :])
            return None
        return member

    archive.add(top, arcname=name, filter=kept)
    return left_out


def told(left_out: list[str]) -> str:
    """A sentence on what was left out; empty where nothing was."""
    if not left_out:
        return ""
    more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
    return f"{left_out[0]}{more} left out: links that lead out of the folder, devices and pipes do not go along"
