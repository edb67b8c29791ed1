"""The one-line prompt for filters (`/`) and commands (`:`)."""

from __future__ import annotations

from typing import ClassVar, Literal

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

Kind = Literal["/", ":"]


class Prompt(Horizontal):
    """Hidden until opened. Filter text takes effect as it is typed and stays on screen when accepted."""

    DEFAULT_CSS = """
    Prompt { height: 1; dock: bottom; background: $surface; }
    Prompt Static { width: 2; color: $accent; text-style: bold; }
    Prompt Input { height: 1; width: 1fr; border: none; padding: 0; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False),
        Binding("up", "older", "Older", show=False),
        Binding("tab", "complete", "Complete", show=False),
    ]

    class Typed(Message):
        """The text of a filter changed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Accepted(Message):
        """Enter was pressed."""

        def __init__(self, kind: Kind, text: str) -> None:
            super().__init__()
            self.kind, self.text = kind, text

    class Cancelled(Message):
        """Escape was pressed."""

        def __init__(self, kind: Kind) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.kind: Kind = "/"
        self.display = False
        self._past: list[str] = []
        self._at = 0

    def compose(self) -> ComposeResult:
        """The sign and the input."""
        yield Static(Text(":"), id="prompt-sign")
        # What is there is gone on with: the filter in force, or a command that the palette began.
        yield Input(id="prompt-input", compact=True, select_on_focus=False)

    def open(self, kind: Kind, text: str, words: list[str]) -> None:
        """Show the prompt with `text`; `words` complete a command."""
        self.kind = kind
        self._at = len(self._past)
        self.query_one("#prompt-sign", Static).update(Text(kind))
        box = self.query_one(Input)
        box.suggester = SuggestFromList(words) if words else None
        with self.prevent(Input.Changed):
            box.value = text
        box.cursor_position = len(text)
        self.add_class("-open")
        self.display = True
        # At once, not after the next refresh: what is typed right behind the `/` belongs in here.
        self.screen.set_focus(box)

    def close(self) -> None:
        """Hide it."""
        self.remove_class("-open")
        self.display = False

    @property
    def is_open(self) -> bool:
        """True while it has the keyboard."""
        return self.has_class("-open")

    def on_input_changed(self, event: Input.Changed) -> None:
        """A filter works as it is typed."""
        event.stop()
        if self.kind == "/" and self.is_open:
            self.post_message(self.Typed(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter accepts."""
        event.stop()
        if self.kind == ":" and event.value.strip():
            self._past.append(event.value)
        self.post_message(self.Accepted(self.kind, event.value))

    def action_cancel(self) -> None:
        """Escape closes the prompt."""
        self.post_message(self.Cancelled(self.kind))

    def action_older(self) -> None:
        """Bring back an earlier command."""
        if self.kind == ":" and self._past:
            self._at = max(0, self._at - 1)
            self.query_one(Input).value = self._past[self._at]
            self.query_one(Input).action_end()

    def action_complete(self) -> None:
        """Take the completion shown in grey."""
        self.query_one(Input).action_cursor_right()
