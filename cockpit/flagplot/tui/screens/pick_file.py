"""Pick a script file from a tree."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import DirectoryTree, Static

from flagplot.language import tr


class PickFile(ModalScreen[str]):
    """Enter takes the file, Esc leaves, backspace goes up a folder."""

    DEFAULT_CSS = """
    PickFile { align: center middle; }
    PickFile > Vertical {
        width: 70; max-width: 95%; height: 85%; border: round $primary; background: $surface; padding: 0 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close"),
        Binding("backspace,left", "up", "Folder above", priority=True),
    ]

    def __init__(self, start: Path) -> None:
        super().__init__()
        self._start = start if start.is_dir() else Path.cwd()

    def compose(self) -> ComposeResult:
        """The tree."""
        with Vertical():
            yield Static(Content(tr("Enter takes the file · ← folder above · Esc leaves")))
            yield DirectoryTree(self._start)

    def on_mount(self) -> None:
        """Keyboard to the tree."""
        self.query_one(DirectoryTree).focus()

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        """Taken."""
        self.dismiss(str(event.path))

    def action_up(self) -> None:
        """Show the folder above."""
        tree = self.query_one(DirectoryTree)
        tree.path = Path(tree.path).resolve().parent
