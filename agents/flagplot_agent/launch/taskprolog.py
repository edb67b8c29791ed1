"""The task prolog: a site's program that runs as the job's user just before a task and shapes its environment.

Standard library only: it runs in the forked child. Lines of its standard output act as Slurm's do: `export NAME=value`,
`unset NAME`, and `print TEXT`, which goes to the task's standard output; every other line is ignored.
"""

from __future__ import annotations

import os
import signal


def apply_lines(environment: dict[str, str], output: str) -> tuple[dict[str, str], list[str]]:
    """(the environment that the lines make of this one, the texts to print). Pure."""
    found, texts = dict(environment), []
    for line in output.splitlines():
        if line.startswith("print "):
            texts.append(line[6:])
        elif line.startswith("export "):
            name, equals, value = line[7:].partition("=")
            if equals and name.strip() and "\0" not in line:
                found[name.strip()] = value
        elif line.startswith("unset "):
            found.pop(line[6:].strip(), None)
    return found, texts


def run_task_prolog(program: str, limit_s: int, environment: dict[str, str]) -> tuple[dict[str, str], str]:
    """(the task's environment, empty or why the task must not start). Prints to standard output."""
    # Not above (spawn has it loaded by now): it brings `threading`, whose work after a fork would take longer than all else of a start.
    import subprocess

    what = f"the task prolog {program}"
    try:
        done = subprocess.run(
            [program], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return environment, f"{what} did not end within {limit_s} s"
    except OSError as wrong:
        return environment, f"{what} cannot be executed as the job's user: {wrong.strerror}"
    if done.returncode:
        return environment, f"{what} {ending(done.returncode)}"
    found, texts = apply_lines(environment, done.stdout.decode("utf-8", "surrogateescape"))
    data = "".join(f"{text}\n" for text in texts).encode("utf-8", "surrogateescape")
    while data:
        data = data[os.write(1, data) :]
    return found, ""


def ending(code: int) -> str:
    """How a program ended, in words; `code` is as `subprocess` gives it."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
