"""Main views that list things: filtered as typed, undone step by step with Esc, never blank without a word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from textual.widget import Widget

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.tui.main_view import MainView
from flagplot.tui.widgets.virtual_table import VirtualTable
from flagplot.view.choice import Choice
from flagplot_wire.text import clean

C = TypeVar("C", bound=Choice)


class ListView(MainView):
    """A list with a filter."""

    NO_MATCH: ClassVar[str] = ""
    """What is said when a filter leaves nothing."""
    NOTHING: ClassVar[tuple[str, str]] = ("", "")
    """What is said while there is nothing to list, and when something will appear."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = ""

    @property
    def table(self) -> VirtualTable:
        """The table."""
        return self.query_one(VirtualTable)

    def focus_target(self) -> Widget:
        """The table."""
        return self.table

    @property
    def can_filter(self) -> bool:
        """Always."""
        return True

    @property
    def filter_text(self) -> str:
        """The filter in force."""
        return self.filter

    def filter_changed(self, text: str) -> None:
        """Filter as typed."""
        self.set_filter(text.strip())

    def set_filter(self, text: str) -> None:
        """Filter by `text` from now on."""
        self.filter = text
        self.cockpit.show_now()

    def clear_marks(self) -> bool:
        """Unmark everything; False when nothing was marked."""
        return self.table.clear_marks()

    def escape(self) -> bool:
        """Marks first, then the filter."""
        if self.clear_marks():
            return True
        if self.filter_text:
            self.filter_changed("")
            return True
        return False

    def empty_words(self, mirror: Mirror) -> Sequence[str]:
        """What is shown in place of rows."""
        if not mirror.complete:
            return [
                tr("Waiting for the controller"),
                clean(mirror.problem) or tr("the list comes with its first answer"),
            ]
        if self.filter_text:
            return [tr(self.NO_MATCH), tr("Esc clears it · / changes it")]
        return self.nothing_yet()

    def nothing_yet(self) -> Sequence[str]:
        """What is shown when there is nothing to list."""
        return [tr(line) for line in self.NOTHING]

    # keys

    def on_virtual_table_opened(self) -> None:
        """A click opens; the cursor is there already."""
        self.action_open()

    def action_open(self) -> None:
        """Open what is under the cursor."""
        raise NotImplementedError


class SortedView(ListView, Generic[C]):
    """A list with a filter and orders, both in its `spec`."""

    ORDERS: ClassVar[Sequence[str]] = ()
    """The orders in which `o` goes through them."""

    def __init__(self, spec: C) -> None:
        super().__init__()
        self.spec = spec

    @property
    def filter_text(self) -> str:
        """The filter in force."""
        return self.spec.filter

    def set_filter(self, text: str) -> None:
        """Filter by `text` from now on."""
        self.choose(replace(self.spec, filter=text))

    def choose(self, spec: C) -> None:
        """Show by another choice."""
        self.spec = spec
        self.cockpit.show_now()

    # keys

    def on_virtual_table_header_clicked(self, event: VirtualTable.HeaderClicked) -> None:
        """A click on a title sorts."""
        self.choose(self.spec.sorted_by(event.column))

    def action_sort_next(self) -> None:
        """The next order."""
        self.choose(self.spec.sorted_next(self.ORDERS))

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.choose(replace(self.spec, reverse=not self.spec.reverse))

    def action_only(self, text: str) -> None:
        """Set a filter, or clear it when it is set already."""
        self.filter_changed("" if self.filter_text == text else text)
