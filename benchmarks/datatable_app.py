"""The built-in DataTable with as many rows as the cockpit shows, for comparison."""

from __future__ import annotations

import sys
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable

COLUMNS = ("JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "LIMIT", "NODES", "GPUS", "NODELIST(REASON)")


class TableApp(App[None]):
    """One table."""

    BINDINGS: ClassVar[list[BindingType]] = [("q", "quit", "Quit")]

    def compose(self) -> ComposeResult:
        """The table."""
        yield DataTable(cursor_type="row")

    def on_mount(self) -> None:
        """Fill it."""
        table = self.query_one(DataTable)
        for title in COLUMNS:
            table.add_column(title, width=12)
        table.add_rows(
            (str(n), "main", f"train-{n % 977}", f"user{n % 200}", "PD", "-", "1-0", "1", "4", "(JobHeldUser)")
            for n in range(int(sys.argv[1]))
        )


if __name__ == "__main__":
    TableApp().run()
