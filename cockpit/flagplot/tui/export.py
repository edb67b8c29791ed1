"""`:export`: the list of a view as CSV or JSON, or the screen as SVG, into a file that never goes over another unasked."""

from __future__ import annotations

import asyncio
import io
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flagplot.client.own_files import confined, write_new
from flagplot.language import tr
from flagplot.tui.screens.confirm import ConfirmDialog
from flagplot.tui.widgets.virtual_table import VirtualTable
from flagplot.view.export import KINDS, file_name, written
from flagplot_wire.errors import Refused

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

AT_ONCE = 500
"""Rows between one look at the keyboard and the next."""


def export(app: FlagplotApp, rest: list[str]) -> None:
    """Write the view on screen; raises `Refused` for what cannot be written."""
    if confined():
        raise Refused("denied", tr("This session may write no files"), tr("flagplot queue --json prints instead"))
    if not rest or rest[0] not in KINDS:
        raise Refused("usage", tr("Export as what?"), f":export {'|'.join(KINDS)} [FILE]")
    kind, view = rest[0], app.active_view
    if view is None:
        return
    table = view.exported()
    if kind != "svg" and table is None:
        raise Refused(
            "usage",
            tr("{view} is no list").format(view=tr(view.title) if view.title else tr("This view")),
            tr(":export svg writes the screen"),
        )
    path = Path(" ".join(rest[1:]) or ".").expanduser().absolute()
    if path.is_dir():
        path /= file_name(view.crumb, kind, datetime.fromtimestamp(app.now()))
    if kind == "svg":
        # The prompt is still on screen now.
        app.call_after_refresh(lambda: _write(app, path, app.export_screenshot(title=view.crumb)))
    elif table is not None:
        app.run_worker(_list(app, path, kind, table), group="export", exclusive=True)


async def _list(app: FlagplotApp, path: Path, kind: str, table: VirtualTable) -> None:
    columns = [column for column, _ in table.columns]
    rows = []
    for at, key in enumerate(list(table.shown_keys)):
        rows.append(table.exported_row(key))
        if at % AT_ONCE == 0:
            await asyncio.sleep(0)
    _write(app, path, written(kind, columns, [row for row in rows if len(row) == len(columns)]))


def _write(app: FlagplotApp, path: Path, text: str, over: bool = False) -> None:
    if app.is_web:
        app.deliver_text(io.StringIO(text), save_filename=path.name)
        return

    def again(yes: bool | None) -> None:
        if yes:
            _write(app, path, text, over=True)

    try:
        write_new(path, text.encode(), over)
    except Refused as refused:
        if refused.code == "exists" and path.is_file():
            app.push_screen(
                ConfirmDialog(
                    tr("Write over {name}?").format(name=path.name),
                    [str(path)],
                    yes=tr("Yes, write over it"),
                    destructive=True,
                ),
                again,
            )
        else:
            app.failure(tr("Nothing was exported"), [refused.message, refused.hint])
        return
    app.say(tr("Exported to {path}").format(path=path))
