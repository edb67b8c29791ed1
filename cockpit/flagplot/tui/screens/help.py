"""The help: every key that works where it was opened, made from the real bindings, searchable."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from flagplot.language import later, tr
from flagplot.tui.widgets.hints import key_name
from flagplot_wire.text import fit, width

ROOM = 63
"""Cells for keys and what they do; longer words go on below."""
KEYS = 15
"""Cells for the keys at most; what those of more do begins below them."""
HERE, ALSO_HERE, EVERYWHERE = later("Here"), later("Also here"), later("Everywhere")


def help_rows(bindings: Sequence[ActiveBinding]) -> list[tuple[str, str, str]]:
    """(where, keys, what) of each action, keys of one action together, those of the view first."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for active in bindings:
        binding = active.binding
        if binding.description:
            where = HERE if binding.show else EVERYWHERE if active.node is active.node.app else ALSO_HERE
            words = tr(binding.tooltip or binding.description)
            grouped.setdefault((where, binding.action, words), []).append(binding.key_display or key_name(binding.key))
    order = {HERE: 0, ALSO_HERE: 1, EVERYWHERE: 2}
    rows = [(where, "  ".join(dict.fromkeys(keys)), what) for (where, _, what), keys in grouped.items()]
    return sorted(rows, key=lambda row: order[row[0]])


class HelpScreen(ModalScreen[None]):
    """Type to search, Esc closes."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > Vertical {
        width: 72; max-width: 95%; height: 90%; border: round $primary; padding: 0 1; background: $surface;
    }
    HelpScreen Input { border: none; height: 1; margin-bottom: 1; }
    HelpScreen VerticalScroll { height: 1fr; }
    HelpScreen #keys { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "dismiss", "Close"),
        Binding("down", "scroll(1)", "Down", show=False),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("pagedown", "scroll(10)", "Page down", show=False),
        Binding("pageup", "scroll(-10)", "Page up", show=False),
    ]

    def __init__(self, bindings: Sequence[ActiveBinding]) -> None:
        super().__init__()
        self._rows = help_rows(bindings)

    def compose(self) -> ComposeResult:
        """Search box and keys."""
        with Vertical():
            yield Input(placeholder=tr("type to search the keys · Esc closes"), compact=True)
            with VerticalScroll(can_focus=False):
                yield Static(self.body(""), id="keys")

    def body(self, wanted: str) -> Content:
        """The keys that match."""
        parts: list[str | tuple[str, str]] = []
        last, wide = "", min(KEYS, max((width(keys) for _, keys, _ in self._rows), default=0))
        for where, keys, what in self._rows:
            if wanted.lower() not in f"{keys} {what}".lower():
                continue
            if where != last:
                parts.append(("\n" if last else "", ""))
                parts.append((f"{tr(where)}\n", "bold $accent"))
                last = where
            first, *rest = wrap(what, ROOM - wide) or [""]
            long = width(keys) > wide
            parts.append((f"  {keys}\n" if long else f"  {fit(keys, wide)}", "bold"))
            parts.append(f"{'':<{wide + 3}}{first}\n" if long else f" {first}\n")
            parts.extend(f"{'':<{wide + 3}}{more}\n" for more in rest)
        return Content.assemble(*parts) if parts else Content(tr("No key matches"))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search as typed."""
        self.query_one("#keys", Static).update(self.body(event.value.strip()))

    def action_scroll(self, lines: int) -> None:
        """Scroll the keys."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)
