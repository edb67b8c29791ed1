"""Around a job on its node: prolog and plugins before, epilog and plugins after.

Prolog and epilog run as the agent's user, one after another, each in a session of its own and at most for
`timeout_s`. After an agent's death they may run again for the same attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from flagplot_agent.settings import Hooks
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

log = logging.getLogger("flagplot-agent")
GROUP = "flagplot.agent.plugins"
TOLD = 400
"""So many of the last bytes of a failed hook's output are told."""
READ_LIMIT = 1 << 20


class HookFailed(Exception):
    """A hook or plugin failed; the text says which and how."""


class Plugin:
    """What a plugin may do; all methods run in a thread of the agent and are given plain dictionaries.

    `job` has number, attempt, node, user, uid, gid, work_dir and gpus (indices). The entry point names a class or a
    function that makes the plugin without arguments; methods that it lacks are skipped.
    """

    def before_launch(self, job: dict[str, Any]) -> None:
        """Before anything of the job is started; an exception fails the start with its text."""

    def environment(self, job: dict[str, Any], environment: dict[str, str]) -> dict[str, str]:
        """The environment of each task."""
        return environment

    def after_end(self, job: dict[str, Any], end: dict[str, Any]) -> None:
        """After the last process and the epilog; `end` has cause, exit_code, signal, started, time and message."""


class Around:
    """The hooks and plugins of this node."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._plugins = load_plugins()
        self._running: dict[str, asyncio.subprocess.Process] = {}

    @property
    def before(self) -> bool:
        """True when something is to be done before a job starts."""
        return bool(self._hooks.prolog or self._plugins)

    @property
    def after(self) -> bool:
        """True when something is to be done after a job has ended."""
        return bool(self._hooks.epilog or self._plugins)

    async def prolog(self, name: str, environment: Mapping[str, str]) -> None:
        """Run the prologs of an attempt; raises `HookFailed` at the first that fails."""
        await self._run("prolog", name, self._hooks.prolog, environment)

    async def epilog(self, name: str, environment: Mapping[str, str]) -> None:
        """Run the epilogs of an attempt; raises `HookFailed` at the first that fails."""
        await self._run("epilog", name, self._hooks.epilog, environment)

    async def plugins(self, method: str, *arguments: Any) -> Any:
        """Call a method of every plugin in turn; returns the last answer. Raises `HookFailed`."""
        answer = None
        for name, plugin in self._plugins.items():
            call = getattr(plugin, method, None)
            if call is None:
                continue
            try:
                answer = await asyncio.wait_for(asyncio.to_thread(call, *arguments), self._hooks.timeout_s)
            except TimeoutError as late:
                raise HookFailed(f"plugin {name} did not return within {self._hooks.timeout_s} s") from late
            except Exception as wrong:
                log.exception("plugin %s, %s", name, method)
                text = wrong.message if isinstance(wrong, Refused) else f"{type(wrong).__name__}: {wrong}"
                raise HookFailed(f"plugin {name}: {clean(text)}") from wrong
            if method == "environment":
                arguments = (arguments[0], checked(name, answer))
        return arguments[1] if method == "environment" else answer

    def cancel(self, name: str) -> None:
        """The job is to end: its prolog need not go on."""
        process = self._running.get(name)
        if process is not None:
            kill(process)

    async def _run(self, what: str, name: str, programs: Sequence[str], environment: Mapping[str, str]) -> None:
        context = {"SLURM_SCRIPT_CONTEXT": f"{what}_slurmd"}
        for program in programs:
            await self._run_one(what, name, program, {**environment, **context})

    async def _run_one(self, what: str, name: str, program: str, environment: dict[str, str]) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                program, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT, env=environment, cwd="/", start_new_session=True, limit=READ_LIMIT,
            )  # fmt: skip
        except (OSError, ValueError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else wrong
            raise HookFailed(f"{what} {program} cannot be executed: {why}") from wrong
        self._running[name] = process
        said = bytearray()
        try:
            async with asyncio.timeout(self._hooks.timeout_s):
                reading = asyncio.create_task(keep_last(process, said))
                code = await process.wait()
                # What it left in the background may keep the pipe open: only what is there already is read.
                await asyncio.wait([reading], timeout=0.1)
                reading.cancel()
        except TimeoutError as late:
            kill(process)
            await process.wait()
            raise HookFailed(f"{what} {program} did not end within {self._hooks.timeout_s} s") from late
        finally:
            self._running.pop(name, None)
        text = clean(said.decode("utf-8", "replace").strip().replace("\n", "; "))
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
            raise HookFailed(f"{what} {program} {how}{f': {text}' if text else ''}")
        if text:
            log.info("%s %s of %s: %s", what, program, name, text)


async def keep_last(process: asyncio.subprocess.Process, said: bytearray) -> None:
    """Read a hook's output and keep its end."""
    assert process.stdout is not None
    while data := await process.stdout.read(65_536):
        said += data
        del said[:-TOLD]


def kill(process: asyncio.subprocess.Process) -> None:
    """End a hook with its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def checked(name: str, answer: Any) -> dict[str, str]:
    """An environment that a plugin returned; raises `HookFailed`."""
    good = isinstance(answer, dict) and all(
        isinstance(word, str) and "\0" not in word for pair in answer.items() for word in pair
    )
    if not good:
        raise HookFailed(f"plugin {name} returned no environment (names and texts)")
    return dict(answer)


def load_plugins() -> dict[str, Any]:
    """The installed plugins by name, in the order of their names; one that cannot be loaded stops the agent."""
    found = {}
    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            found[point.name] = point.load()()
        except Exception as wrong:
            raise Refused(
                "usage", f"plugin {point.name} ({point.value}) cannot be loaded: {wrong}", "mend or uninstall it"
            ) from wrong
        log.info("plugin %s (%s)", point.name, point.value)
    return found
