"""The command log: what the cockpit did, as the CLI commands that would have done the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from flagplot.language import tr
from flagplot_wire.text import clean


class CommandLog(ModalScreen[None]):
    """Newest first; Esc closes."""

    DEFAULT_CSS = """
    CommandLog { align: center middle; }
    CommandLog > Vertical {
        width: 90%; height: 80%; border: round $primary; padding: 0 1; background: $surface;
    }
    CommandLog Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,at,q,enter", "dismiss", "Close")]

    def __init__(self, entries: Sequence[tuple[int, str, str]]) -> None:
        super().__init__()
        self._entries = entries

    def compose(self) -> ComposeResult:
        """The lines."""
        with Vertical():
            yield Static(Content.styled(tr("Command log · newest first · Esc closes"), "bold"))
            with VerticalScroll():
                yield Static(self.body())

    def body(self) -> Content:
        """Time, command and outcome of each action."""
        if not self._entries:
            return Content(tr("Nothing was run yet. Every action you take here appears as a flagplot command."))
        parts: list[str | tuple[str, str]] = []
        for at, command, outcome in reversed(self._entries):
            parts.append((time.strftime("%H:%M:%S ", time.localtime(at)), "dim"))
            parts.append(f"$ {clean(command)}\n")
            parts.append((f"         {clean(outcome)}\n", "bold $error" if outcome != "done" else "$success"))
        return Content.assemble(*parts)
