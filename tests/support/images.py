"""A container image of busybox, in a podman storage of our own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

IMAGE = "localhost/flagplot-busybox"
WORDS = ("sh", "cat", "env", "id", "pwd", "sleep", "touch", "grep", "stty", "tty", "seq", "tail", "sha256sum")
WITHOUT_VERSION_TWO = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
"""crun refuses a machine with both versions of control groups: the agent sees version 1 alone there."""


def agent_prefix() -> list[str]:
    """The command that starts an agent so that podman works under it."""
    if not Path("/sys/fs/cgroup/unified").is_dir():
        return []
    return ["unshare", "--mount", "sh", "-c", WITHOUT_VERSION_TWO, "sh"]


@contextmanager
def storage() -> Iterator[dict[str, str]]:
    """A storage with one image; yields its environment."""
    busybox = shutil.which("busybox")
    if os.getuid() != 0 or shutil.which("podman") is None or busybox is None:
        pytest.skip("needs root, podman and busybox (Debian: apt install podman busybox-static)")
    folder = Path(tempfile.mkdtemp(prefix="flagplot-c-"))
    (folder / "root/bin").mkdir(parents=True)
    shutil.copy(busybox, folder / "root/bin/busybox")
    for word in WORDS:
        (folder / "root/bin" / word).symlink_to("busybox")
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
    )
    environment = {"CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"), "HOME": str(folder)}
    whole = {**os.environ, **environment}
    archive = folder / "root.tar"
    subprocess.run(["tar", "-C", str(folder / "root"), "-cf", str(archive), "."], check=True)
    subprocess.run(["podman", "import", "-q", str(archive), IMAGE], check=True, env=whole, capture_output=True)
    yield environment
    subprocess.run(["podman", "rm", "--all", "--force"], check=False, env=whole, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
