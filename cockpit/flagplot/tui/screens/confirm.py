"""Dialogs: the question that names its targets and starts on No, and the popup that stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from flagplot.language import tr
from flagplot_wire.text import clean

SHOWN = 200
"""Targets listed in a dialog; beyond them their number is told."""


class ConfirmDialog(ModalScreen[bool]):
    """Ask before something that is hard to undo. `destructive` gives the red frame."""

    DEFAULT_CSS = """
    ConfirmDialog { align: center middle; }
    ConfirmDialog > Vertical {
        width: 76; max-width: 95%; height: auto; max-height: 90%;
        border: round $primary; padding: 0 1; background: $surface;
    }
    ConfirmDialog.-destructive > Vertical { border: round $error; }
    ConfirmDialog .targets { height: auto; max-height: 12; margin: 1 0; }
    ConfirmDialog .targets Static { height: auto; }
    ConfirmDialog Horizontal { height: auto; align-horizontal: right; }
    ConfirmDialog Button { margin-left: 2; min-width: 12; }
    ConfirmDialog .note { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("left,right,h,l", "swap", "Other button", show=False),
    ]

    def __init__(
        self,
        question: str,
        targets: Sequence[str] = (),
        *,
        yes: str = "Yes",
        no: str = "No",
        note: str = "",
        destructive: bool = False,
    ) -> None:
        super().__init__()
        self._question, self._targets, self._note = question, list(targets), note
        self._yes, self._no = yes, no
        self.set_class(destructive, "-destructive")
        self._destructive = destructive

    def compose(self) -> ComposeResult:
        """The question, the targets, the buttons."""
        with Vertical():
            yield Static(Content(clean(self._question)), classes="question")
            if self._targets:
                lines = [clean(target) for target in self._targets[:SHOWN]]
                if len(self._targets) > SHOWN:
                    lines.append(tr("… and {count} more").format(count=len(self._targets) - SHOWN))
                with VerticalScroll(classes="targets", can_focus=False):
                    yield Static(Content("\n".join(lines)))
            if self._note:
                yield Static(Content(clean(self._note, keep_newlines=True)), classes="note")
            with Horizontal():
                yield Button(Content(f"{tr(self._no)} (n)"), id="no")
                yield Button(
                    Content(f"{tr(self._yes)} (y)"), id="yes", variant="error" if self._destructive else "primary"
                )

    def on_mount(self) -> None:
        """Start on No."""
        self.query_one("#no", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A button answers."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        """A key answers."""
        self.dismiss(answer)

    def action_swap(self) -> None:
        """Move between the two buttons."""
        self.query_one("#yes" if self.query_one("#no", Button).has_focus else "#no", Button).focus()


class Popup(ModalScreen[None]):
    """A message that stays until it is closed: failures are shown here."""

    DEFAULT_CSS = """
    Popup { align: center middle; }
    Popup > Vertical {
        width: 72; max-width: 95%; height: auto; max-height: 90%;
        border: round $warning; padding: 0 1; background: $surface;
    }
    Popup .what { text-style: bold; margin-bottom: 1; }
    Popup .lines { height: auto; max-height: 16; }
    Popup .lines Static { height: auto; }
    Popup .close { color: $text-muted; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,space", "dismiss", "Close")]

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        """The title, the lines, how to close."""
        with Vertical():
            yield Static(Content(clean(self._title)), classes="what")
            with VerticalScroll(classes="lines"):
                yield Static(Content("\n".join(clean(line, keep_newlines=True) for line in self._lines)))
            yield Static(Content(tr("Enter or Esc closes this")), classes="close")


class TooSmall(ModalScreen[None]):
    """Shown while the terminal is smaller than the cockpit can use."""

    DEFAULT_CSS = """
    TooSmall { align: center middle; background: $background; }
    TooSmall Static { width: auto; height: auto; text-align: center; }
    """

    def __init__(self, needed: tuple[int, int]) -> None:
        super().__init__()
        self._needed = needed

    def compose(self) -> ComposeResult:
        """One message."""
        yield Static(Content(self.words()))

    def words(self) -> str:
        """What is there and what is needed."""
        size = self.app.size
        now, needed = f"{size.width}×{size.height}", f"{self._needed[0]}×{self._needed[1]}"
        return tr("Terminal too small\nnow {now}\nneeded {needed}").format(now=now, needed=needed)

    def on_resize(self) -> None:
        """Tell the size of now."""
        self.query_one(Static).update(Content(self.words()))
