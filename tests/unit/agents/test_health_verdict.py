"""What is wrong with a node, from what was found."""

from __future__ import annotations

import pytest

from flagplot_agent.health.verdict import (
    MIB,
    Free,
    Verdict,
    disk_wrong,
    mount_points,
    mount_wrong,
    script_wrong,
    skew_of,
    skew_wrong,
)
from flagplot_agent.settings import Disk

DISK = Disk("/data", 5, 100)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Free(10_000 * MIB, 500 * MIB, 1000, 50), ""),
        (Free(10_000 * MIB, 499 * MIB, 1000, 50), "disk /data: less than 5 % free"),
        (Free(1_000 * MIB, 99 * MIB, 1000, 50), "disk /data: less than 100 MiB free"),
        (Free(10_000 * MIB, 500 * MIB, 1000, 49), "disk /data: less than 5 % of its inodes free"),
        (Free(10_000 * MIB, 500 * MIB, 0, 0), ""),
        ("cannot be asked: Stale file handle", "disk /data: cannot be asked: Stale file handle"),
        (None, "disk /data: does not answer"),
    ],
)
def test_disks(found: Free | str | None, words: str) -> None:
    assert disk_wrong(DISK, found) == words


def test_mounts() -> None:
    points = mount_points(
        "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
        "40 22 0:35 / /mnt/two\\040words rw - nfs4 server:/x rw\n41 22 0:36 / /scratch rw - lustre m:/s rw\n\n"
    )
    assert points == {"/", "/mnt/two words", "/scratch"}
    for path in ("/", "/scratch", "/scratch/", "/mnt/two words"):
        assert mount_wrong(path, points) == ""
    assert mount_wrong("/scratch/a", points) == "file system /scratch/a: not mounted"


def test_skew() -> None:
    assert skew_of(100, 102, 101) == skew_of(100, 100, 100) == 0
    assert skew_of(100, 102, 162) == -60 and skew_of(100, 102, 40) == 60
    assert skew_wrong(60, 60) == skew_wrong(-60, 60) == skew_wrong(None, 60) == skew_wrong(9999, 0) == ""
    assert skew_wrong(61, 60) == "clock: more than 60 s ahead of the controller's"
    assert skew_wrong(-61, 60) == "clock: more than 60 s behind the controller's"


def test_scripts() -> None:
    assert script_wrong("10-ib", "", "all is well\n") == ""
    assert script_wrong("10-ib", "ended with exit code 1", "\nport 1 is down\nmore\n") == "10-ib: port 1 is down"
    assert script_wrong("10-ib", "did not end within 30 s", "") == "10-ib: did not end within 30 s"


def test_words_stay_while_only_figures_move() -> None:
    verdict = Verdict()
    assert not verdict.update({"a": "", "b": ""})
    assert verdict.update({"a": "81.5 C hot", "b": "no link"})
    assert verdict.reasons == ("81.5 C hot", "no link")
    assert not verdict.update({"b": "no link", "a": "83 C hot"})
    assert verdict.reasons == ("81.5 C hot", "no link")
    assert verdict.update({"a": "melted", "b": "no link"}) and verdict.reasons == ("melted", "no link")
    assert verdict.update({"a": "", "b": "no link"}) and verdict.reasons == ("no link",)
    assert verdict.update({"a": ""}) and verdict.reasons == ()
