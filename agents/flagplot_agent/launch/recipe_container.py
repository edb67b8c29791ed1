"""From a container's wish to the command line of an engine, one function for each engine. Pure.

Variables go along by name: their values are in the engine's own environment, never among its arguments. The container
stays in the job's control groups and has the node's network, as a job without one has.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from flagplot_wire.errors import Refused

OWN = ("PATH", "HOME", "SHELL", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "TMPDIR")
"""Variables that mean files of the node: inside they are the image's."""

USUAL_UMASK = 0o022

TIDIED = """\
left() { "$0" ps --all --filter=label=flagplot --format='left {{.ID}} {{.Pid}} {{.Exited}}' 2>&1 </dev/null; }
said=$(left)
case $said in *"system migrate"*) "$0" system migrate >/dev/null 2>&1 </dev/null; said=$(left) ;; esac
printf '%s\\n' "$said" | while read -r word id pid over; do
    [ "$word" = left ] || continue
    [ "$over" = true ] || { [ "$pid" -gt 0 ] && [ ! -d "/proc/$pid" ]; } || continue
    "$0" rm --force "$id" >/dev/null 2>&1 </dev/null
done
exec "$0" "$@"
"""
"""Starts podman ($0) with its arguments, after our containers whose processes are gone have been removed.

A job that is killed takes podman's own processes along: its container stands as running for ever and keeps its files,
and where it was the user's last one each later podman of theirs fails and asks for `podman system migrate`.
"""


class Wanted(Struct, frozen=True):
    """What is to run: `argv` in `image`, with `mounts` (source, destination, flags) and in the folder `workdir`.

    `environment` are the names of variables that go along, `gpus` the UUIDs of real GPUs, `limits` soft and hard limits by
    podman's names (-1: unlimited). `root` is True where the job's user is root. `name` is the container's (empty: any).
    `join` names a container to go into instead, where it runs and the engine can. `terminal`: standard input is one.
    """

    image: str
    argv: tuple[str, ...]
    mounts: tuple[tuple[str, str, str], ...]
    workdir: str
    environment: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    limits: tuple[tuple[str, int, int], ...] = ()
    root: bool = False
    stdin: bool = False
    name: str = ""
    join: str = ""
    terminal: bool = False
    umask: int = USUAL_UMASK


def parse_mounts(text: str) -> tuple[tuple[str, str, str], ...]:
    """`SRC[:DST[:FLAGS]],...` as pyxis has it; FLAGS are joined by `+`. Raises `Refused`."""
    found = []
    for word in filter(None, text.split(",")):
        source, _, rest = word.partition(":")
        target, _, flags = rest.partition(":")
        target = target or source
        wrong = [path for path in (source, target) if not path.startswith("/")]
        unknown = set(filter(None, flags.split("+"))) - {"ro", "rw"}
        if wrong:
            raise Refused("bad_mount", f"user: --container-mounts: {wrong[0]!r} is no absolute path")
        if unknown:
            raise Refused("bad_mount", f"user: --container-mounts: {sorted(unknown)[0]!r} is no flag: write ro or rw")
        found.append((source, target, flags.replace("+", ",")))
    return tuple(found)


def going_along(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of variables that a container gets."""
    return tuple(sorted(name for name in environment if name not in OWN))


def podman(program: str, wanted: Wanted) -> list[str]:
    """podman-run(1). Nothing is pulled over another image of the node; a user's own storage and namespace are used.

    Into a running container by podman-exec(1): what runs there keeps the limits and mounts that it has.
    """
    both = ["--interactive"] if wanted.stdin else []
    both += ["--tty"] if wanted.terminal else []
    both += [f"--env={name}" for name in wanted.environment]
    argv = [program, "run", "--rm", "--cgroups=disabled", "--network=host", "--log-driver=none", "--pull=missing"]
    argv += ["--label=flagplot"]
    argv += [f"--name={wanted.name}"] if wanted.name else []
    argv += [] if wanted.root else ["--userns=keep-id"]
    argv += [f"--umask={wanted.umask:04o}"]
    argv += [f"--ulimit={name}={soft}:{hard}" for name, soft, hard in wanted.limits]
    argv += both
    for source, target, flags in wanted.mounts:
        argv += [f"--volume={source}:{target}{f':{flags}' if flags else ''}"]
    argv += [f"--device=nvidia.com/gpu={uuid}" for uuid in wanted.gpus]
    image = wanted.image.replace("#", "/", 1)
    argv += [f"--workdir={wanted.workdir}", "--entrypoint=", image, *wanted.argv]
    argv = ["/bin/sh", "-c", TIDIED, *argv]
    if not wanted.join:
        return argv
    # podman exec has no option for the umask.
    masked = ["/bin/sh", "-c", f'umask {wanted.umask:04o}; exec "$@"', "sh"] if wanted.umask != USUAL_UMASK else []
    inside = [program, "exec", *both, f"--workdir={wanted.workdir}", wanted.join, *masked, *wanted.argv]
    look = shlex.join([program, "container", "inspect", "--format={{.State.Running}}", wanted.join])
    choose = f'[ "$({look} 2>/dev/null)" = true ] && exec {shlex.join(inside)}\nexec {shlex.join(argv)}'
    return ["/bin/sh", "-c", choose]


def apptainer(program: str, wanted: Wanted) -> list[str]:
    """apptainer-exec(1): an image file, or one of a registry; the environment goes along by itself."""
    argv = [program, "exec", "--no-home"] + (["--nv"] if wanted.gpus else [])
    for source, target, flags in wanted.mounts:
        argv += ["--bind", f"{source}:{target}{f':{flags}' if flags else ''}"]
    image = wanted.image.replace("#", "/", 1)
    if not image.startswith("/") and "://" not in image:
        image = f"docker://{image}"
    return [*argv, "--pwd", wanted.workdir, image, *wanted.argv]


def enroot(program: str, wanted: Wanted) -> list[str]:
    """enroot start: an image file or an unpacked container of the user. Raises `Refused` for a registry's."""
    if "#" in wanted.image or "://" in wanted.image:
        raise Refused(
            "bad_image", f"user: --container-image: enroot starts files, and {wanted.image} is in a registry: "
            "import it first (enroot import)",
        )  # fmt: skip
    argv = [program, "start"]
    for source, target, flags in wanted.mounts:
        options = ",".join(["x-create=auto", "rbind", *filter(None, [flags])])
        argv += ["--mount", f"{source}:{target}:none:{options}"]
    argv += [word for name in wanted.environment for word in ("--env", name)]
    return [*argv, wanted.image, "/bin/sh", "-c", 'cd "$0" && exec "$@"', wanted.workdir, *wanted.argv]


ENGINES: dict[str, Callable[[str, Wanted], list[str]]] = {"podman": podman, "apptainer": apptainer, "enroot": enroot}


def command_line(engines: Sequence[tuple[str, str]], wanted: Wanted) -> list[str]:
    """The command line by the first of `engines` (name, path of the program); raises `Refused` where there is none."""
    if not engines:
        raise Refused(
            "no_engine", "user: no container engine is installed on this node (podman, apptainer or enroot): "
            "ask for nodes that have one by --constraint, or leave out --container-image",
        )  # fmt: skip
    if wanted.image.startswith("-") or not wanted.image.strip():
        raise Refused("bad_image", f"user: --container-image: {wanted.image!r} is no image")
    name, program = engines[0]
    return ENGINES[name](program, wanted)
