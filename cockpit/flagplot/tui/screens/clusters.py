"""Pick another cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from flagplot.client.target import ALL, Entry
from flagplot.language import tr
from flagplot.tui.clusters import mark
from flagplot_wire.text import clean, fit


class ClusterPicker(ModalScreen[str]):
    """Enter goes to the cluster, Esc stays."""

    DEFAULT_CSS = """
    ClusterPicker { align: center middle; }
    ClusterPicker > Vertical {
        width: 72; max-width: 95%; height: auto; max-height: 80%;
        border: round $primary; padding: 0 1; background: $surface;
    }
    ClusterPicker OptionList { height: auto; max-height: 16; border: none; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,K,q", "dismiss", "Close"),
        Binding("j", "down", "Down", show=False),
        Binding("k", "up", "Up", show=False),
    ]

    def __init__(self, entries: Sequence[Entry], here: str) -> None:
        super().__init__()
        self._entries, self._here = entries, here

    def compose(self) -> ComposeResult:
        """The clusters, and all of them."""
        options = [Option(self._line(entry), entry.name) for entry in self._entries]
        options.append(Option(Text("   all: the queues of every cluster"), ALL))
        with Vertical():
            yield Static(Content.styled("Clusters", "bold"))
            yield OptionList(*options)
            yield Static(
                Content(tr("Enter goes there · Esc stays · clusters.toml has them, flagplot connect adds one"))
            )

    def _line(self, entry: Entry) -> Text:
        line = Text("▸ " if entry.name == self._here else "  ", no_wrap=True, overflow="ellipsis")
        line.append_text(mark(entry.name, entry.colour))
        line.append(fit("", max(1, 20 - line.cell_len)) + clean(str(entry.target)))
        if entry.read_only:
            line.append("  read-only")
        return line

    def on_mount(self) -> None:
        """Start on the one where we are."""
        options = self.query_one(OptionList)
        names = [entry.name for entry in self._entries]
        options.highlighted = names.index(self._here) if self._here in names else 0
        options.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Taken."""
        self.dismiss(event.option.id)

    def action_down(self) -> None:
        """One further."""
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        """One back."""
        self.query_one(OptionList).action_cursor_up()
