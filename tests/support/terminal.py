"""A real terminal: tmux on a socket of its own, typed into and read as a person would."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import pytest
from support.cluster import wait_until


class Terminal:
    """One tmux session; `keys` types, `screen` reads, `wait_for` waits until a text is on the screen."""

    def __init__(
        self, command: list[str], *, columns: int = 120, rows: int = 40, env: dict[str, str], cwd: Path
    ) -> None:
        self._socket = Path(tempfile.mkdtemp(prefix="flagplot-tmux-")) / "s"
        self._env = {**env, "TMUX_TMPDIR": str(self._socket.parent)}
        size = ("-x", str(columns), "-y", str(rows), "-c", str(cwd))
        self._tmux("-f", os.devnull, "new-session", "-d", "-s", "t", *size, *command)
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.screen())
        self._tmux("kill-server")

    def _tmux(self, *args: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *args], env=self._env, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"tmux {args[0]}: {done.stderr}")
        return done.stdout

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names (`Enter`, `C-d`, `n`)."""
        self._tmux("send-keys", "-t", "t", *names)

    def type(self, text: str) -> None:
        """Type a text as it is."""
        self._tmux("send-keys", "-t", "t", "-l", text)

    def screen(self) -> str:
        """What is on the screen now."""
        return self._tmux("capture-pane", "-p", "-t", "t")

    def cursor(self) -> tuple[int, int]:
        """(column, row) of the cursor, from 0: where a focused field takes the next character."""
        column, row = self._tmux("display-message", "-p", "-t", "t", "#{cursor_x} #{cursor_y}").split()
        return int(column), int(row)

    def wait_focus(self, label: str, seconds: float = 10) -> None:
        """Wait until the cursor stands in the field behind `label`. Keys typed before would go elsewhere."""

        def inside() -> bool:
            column, row = self.cursor()
            line = self.screen().splitlines()[row]
            return label in line and column > line.index(label)

        wait_until(inside, seconds, f"the cursor behind {label!r}")

    def tab_to(self, label: str, most: int = 40) -> None:
        """Press Tab until the cursor stands in the field behind `label`: fields that are still being made are passed by."""
        for _ in range(most):
            try:
                self.wait_focus(label, 1)
            except pytest.fail.Exception:
                self.keys("Tab")
            else:
                return
        self.wait_focus(label)

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size."""
        self._tmux("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))

    def wait_for(self, *texts: str, seconds: float = 30) -> str:
        """Wait until every text is on the screen; returns the screen."""

        def shown() -> str:
            screen = self.screen()
            return screen if all(text in screen for text in texts) else ""

        try:
            return str(wait_until(shown, seconds, f"{texts} on the screen"))
        except BaseException:
            print(self.screen())
            raise

    def wait_gone(self, text: str, seconds: float = 30) -> str:
        """Wait until a text is no longer on the screen; returns the screen."""

        def gone() -> str:
            screen = self.screen()
            return screen if text not in screen else ""

        return str(wait_until(gone, seconds, f"{text!r} gone from the screen"))

    def wait_exit(self, seconds: float = 20) -> None:
        """Wait until the command has ended."""
        dead = ("display-message", "-p", "-t", "t", "#{pane_dead}")
        wait_until(lambda: self._tmux(*dead).strip() == "1", seconds, "the command's end")
