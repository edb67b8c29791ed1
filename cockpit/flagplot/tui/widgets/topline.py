"""The two lines on top: where am I, as whom, how fresh is this; and the views with the breadcrumbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from flagplot.language import tr, tr_count
from flagplot.tui.clusters import mark
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp

STALE_S = 10
"""Silence of a connected controller after which the data's age is shown (it speaks at least every 5 s)."""


class TopLine(Widget):
    """Cluster, user, role, lock, connection and age, counts; below them the views and the breadcrumbs."""

    DEFAULT_CSS = """
    TopLine { height: 2; dock: top; background: $panel; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__(id="topline")
        self._drawn: tuple[object, ...] = ()

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    def update_if_changed(self) -> None:
        """Repaint when a word of it changed."""
        wanted = (self.first().markup, self.second().markup, self.size.width)
        if wanted != self._drawn:
            self._drawn = wanted
            self.refresh()

    def render(self) -> Text:
        """Both lines."""
        return Text("\n", no_wrap=True, end="").join([self.first(), self.second()])

    def first(self) -> Text:
        """The line of the cluster."""
        app = self.cockpit
        mirror, role = app.mirror, app.role
        left = Text(no_wrap=True)
        left.append(" ⚑ flagplot ", role("brand"))
        if mirror.welcome is None:
            left.append(tr(" not connected yet "), role("dim"))
        else:
            left.append_text(mark(mirror.welcome.cluster, app.clusters.colour))
            if mirror.welcome.simulated:
                left.append(tr(" SIMULATED "), role("badge"))
            left.append(f" {clean(mirror.welcome.user)}", role("plain"))
            left.append(f" ({app.role_word})", role("dim"))
        if app.read_only:
            left.append(tr("  READ-ONLY"), role("badge"))
        right = Text(no_wrap=True)
        if mirror.progress is not None:
            total = f" {mirror.progress.done}/{mirror.progress.total}" if mirror.progress.total else ""
            right.append(f"{clean(mirror.progress.what)}{total}  ", role("warning"))
        connection = self._connection()
        nodes = tr_count("{count} node", "{count} nodes", len(mirror.nodes))
        room = self.size.width - left.cell_len - right.cell_len - connection.cell_len
        counts = tr("{running} running · {pending} pending").format(running=app.running, pending=app.pending)
        for words in (f"{counts} · {nodes}", f"R {app.running} PD {app.pending}"):
            if cell_len(words) + 5 <= room:
                right.append(f"{words}   ", role("dim"))
                break
        right.append_text(connection)
        return self._spread(left, right)

    def second(self) -> Text:
        """The line of the views, with the breadcrumbs and the view's own counts."""
        app = self.cockpit
        right = Text(f"{app.view_counts} ", app.role("dim"), no_wrap=True)
        for titles, gap in ((True, " "), (True, ""), (False, " ")):
            left = self._views(titles, gap)
            if left.cell_len + right.cell_len < self.size.width:
                break
        return self._spread(left, right)

    def _views(self, titles: bool, gap: str) -> Text:
        """The views, each with its title or only the one shown, with a blank before and `gap` behind; then the breadcrumbs."""
        app = self.cockpit
        line = Text(no_wrap=True)
        for entry in app.views:
            chosen = bool(app.trail) and app.trail[0] == entry.name
            words = f" {entry.key} {tr(entry.title)}{gap}" if titles or chosen else f" {entry.key}{gap}"
            line.append(words, app.role("tab-on" if chosen else "tab"))
        if len(app.trail) > 1:
            line.append("  ›  ".join(["", *app.crumbs[1:]]), app.role("bold"))
        return line

    def _connection(self) -> Text:
        app = self.cockpit
        mirror = app.mirror
        age = max(0, app.now() - mirror.heard)
        if mirror.connected and (age < STALE_S or not mirror.heard):
            return Text(tr("● live "), app.role("good"))
        if mirror.connected:
            return Text(tr("◐ {age} s old ").format(age=age), app.role("warning"))
        if not mirror.heard:
            return Text(tr("○ connecting "), app.role("warning"))
        return Text(tr("✗ {age} s old, reconnecting ").format(age=age), app.role("bad"))

    def _spread(self, left: Text, right: Text) -> Text:
        room = max(0, self.size.width - right.cell_len)
        if left.cell_len >= room:
            left.truncate(max(0, room - 1), overflow="ellipsis")
        left.pad_right(room - left.cell_len)
        left.append_text(right)
        left.truncate(self.size.width)
        return left
