"""Command lines of container engines, from what a job asks for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flagplot_agent.launch.containers import container_name
from flagplot_agent.launch.recipe_container import TIDIED, Wanted, command_line, going_along, parse_mounts
from flagplot_wire.errors import Refused

WANTED = Wanted(
    "nvcr.io#nvidia/pytorch:24.01",
    ("/j/script", "a b"),
    (("/j/script", "/j/script", "ro"), ("/data", "/in", "")),
    "/w",
    ("RANK", "SECRET"),
    ("GPU-1",),
    (("nofile", 10, 20),),
)


def test_podman() -> None:
    assert command_line([("podman", "/usr/bin/podman"), ("enroot", "x")], WANTED) == [
        "/bin/sh", "-c", TIDIED,
        "/usr/bin/podman", "run", "--rm", "--cgroups=disabled", "--network=host", "--log-driver=none", "--pull=missing",
        "--label=flagplot", "--userns=keep-id", "--umask=0022", "--ulimit=nofile=10:20", "--env=RANK", "--env=SECRET",
        "--volume=/j/script:/j/script:ro",
        "--volume=/data:/in", "--device=nvidia.com/gpu=GPU-1", "--workdir=/w", "--entrypoint=",
        "nvcr.io/nvidia/pytorch:24.01", "/j/script", "a b",
    ]  # fmt: skip


FAKE_PODMAN = """#!/bin/sh
case $1 in
system) echo "$*" >>log; touch migrated ;;
rm) echo "$*" >>log ;;
ps) [ -e migrated ] || { echo 'try resetting the pause process with "podman system migrate"' >&2; exit 1; }
    printf 'left aa 999999999\\nleft bb 1\\nleft cc 0\\n' ;;
*) echo "$*" ;;
esac
"""


def test_podman_is_put_in_order_before_it_is_used(tmp_path: Path) -> None:
    """After a killed job: podman asks for a migration; of the containers left only those without a process go."""
    podman = tmp_path / "podman"
    podman.write_text(FAKE_PODMAN)
    podman.chmod(0o755)
    called = subprocess.run(
        ["/bin/sh", "-c", TIDIED, str(podman), "run", "a b"], cwd=tmp_path, input="read by nobody else", check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert (called.stdout, called.stderr) == ("run a b\n", "")
    assert (tmp_path / "log").read_text().splitlines() == ["system migrate", "rm --force aa"]


def test_apptainer() -> None:
    assert command_line([("apptainer", "apptainer")], WANTED) == [
        "apptainer", "exec", "--no-home", "--nv", "--bind", "/j/script:/j/script:ro", "--bind", "/data:/in",
        "--pwd", "/w", "docker://nvcr.io/nvidia/pytorch:24.01", "/j/script", "a b",
    ]  # fmt: skip


def test_enroot_starts_files_alone() -> None:
    with pytest.raises(Refused, match="import it first"):
        command_line([("enroot", "enroot")], WANTED)
    file = Wanted("/images/torch.sqsh", ("/j/script",), (("/data", "/in", "ro"),), "/w", ("RANK",))
    assert command_line([("enroot", "enroot")], file) == [
        "enroot", "start", "--mount", "/data:/in:none:x-create=auto,rbind,ro", "--env", "RANK", "/images/torch.sqsh",
        "/bin/sh", "-c", 'cd "$0" && exec "$@"', "/w", "/j/script",
    ]  # fmt: skip


def test_what_is_refused() -> None:
    with pytest.raises(Refused, match="no container engine is installed"):
        command_line([], WANTED)
    for image in ("", " ", "--privileged"):
        with pytest.raises(Refused, match="is no image"):
            command_line([("podman", "podman")], Wanted(image, (), (), "/", ()))
    for text, words in (("data", "no absolute path"), ("/a:b", "no absolute path"), ("/a:/b:suid", "no flag")):
        with pytest.raises(Refused, match=words):
            parse_mounts(text)


def test_mounts_and_variables() -> None:
    assert parse_mounts("") == ()
    assert parse_mounts("/a,/b:/c,/d:/e:ro+rw") == (("/a", "/a", ""), ("/b", "/c", ""), ("/d", "/e", "ro,rw"))
    assert going_along({"RANK": "0", "PATH": "/bin", "LD_PRELOAD": "x", "A": "1"}) == ("A", "RANK")


def test_a_step_joins_a_running_container_where_the_engine_can() -> None:
    wish = Wanted(
        "torch",
        ("sh", "-c", "echo $0"),
        (),
        "/w",
        ("RANK",),
        root=True,
        stdin=True,
        join="flagplot-7-1-0",
        terminal=True,
    )
    shell, option, text = command_line([("podman", "podman")], wish)
    assert (shell, option) == ("/bin/sh", "-c")
    look, new = text.split("\n", 1)
    assert look == (
        "[ \"$(podman container inspect '--format={{.State.Running}}' flagplot-7-1-0 2>/dev/null)\" = true ] && "
        "exec podman exec --interactive --tty --env=RANK --workdir=/w flagplot-7-1-0 sh -c 'echo $0'"
    )
    assert (
        new.startswith("exec /bin/sh -c ")
        and " podman run " in new
        and new.endswith("--tty --env=RANK --workdir=/w --entrypoint= torch sh -c 'echo $0'")
    )
    assert command_line([("apptainer", "apptainer")], wish)[:2] == ["apptainer", "exec"]
    assert container_name(7, 1, 0, "/a/script") != container_name(7, 1, 0, "/b/script")
