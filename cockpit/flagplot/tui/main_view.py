"""The base of every main view: what the app tells it, and what it tells the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding
from textual.containers import Container
from textual.widget import Widget

from flagplot.client.mirror import Mirror
from flagplot.tui.widgets.virtual_table import VirtualTable
from flagplot.view.queue import job_target
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Job

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


class MainView(Container):
    """One of the views that fill the body. The app shows one at a time.

    `show` is called when the mirror changed (at most five times a second) and once a second for the sake of
    ages and elapsed times, only while the view is visible. It must draw nothing when nothing visible changed.
    Bindings with `show=True` of the view and of what has the focus in it make the hint line.
    `CHANGES` names the actions that change the cluster: in read-only mode their keys are unbound.
    """

    DEFAULT_CSS = """
    MainView { height: 1fr; width: 1fr; }
    """

    title: ClassVar[str] = ""
    CHANGES: ClassVar[frozenset[str]] = frozenset()
    """Names of actions that change something (unbound in read-only mode)."""

    @property
    def part(self) -> str:
        """Its name in `keys.toml` and `plugins.toml`."""
        return (self.id or "").removeprefix("view-").split("-")[0]

    def on_mount(self) -> None:
        """Bind the person's own commands; read-only those that they call dangerous are left out."""
        for plugin in self.cockpit.own.of_view(self.part):
            if not (plugin.dangerous and self.cockpit.read_only):
                self._bindings.bind(plugin.key, f"app.plugin({plugin.name!r})", plugin.description, show=False)

    @property
    def cockpit(self) -> FlagplotApp:
        """The app, typed."""
        return cast("FlagplotApp", self.app)

    @property
    def crumb(self) -> str:
        """Where we are, for the breadcrumbs (plain text, cleaned)."""
        return self.title

    @property
    def counts(self) -> str:
        """A few words for the right end of the second line (`5 of 20`)."""
        return ""

    @property
    def bindings_shown(self) -> list[Binding]:
        """The bindings for the hint line, from the real ones that work now."""
        seen: set[str] = set()
        found: list[Binding] = []
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.show or not active.enabled or binding.action in seen:
                continue
            if active.node is self or (isinstance(active.node, Widget) and self in active.node.ancestors):
                seen.add(binding.action)
                found.append(binding)
        return found

    def show(self, mirror: Mirror, now: int) -> None:
        """Bring the view up to date with the mirror; `now` is epoch seconds."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """A view lays itself out for its width when it is shown."""
        if self.has_class("-active"):
            self.cockpit.show_now()

    def entered(self) -> None:
        """The view comes on screen (again)."""

    def focus_target(self) -> Widget:
        """What gets the focus when the view is shown."""
        return self

    def filter_changed(self, text: str) -> None:
        """The person types a filter (`/`); views without one ignore it by leaving `can_filter` False."""

    def filter_accepted(self) -> None:
        """The person keeps the filter."""

    @property
    def can_filter(self) -> bool:
        """True when `/` works here."""
        return False

    @property
    def filter_text(self) -> str:
        """The filter in force."""
        return ""

    def escape(self) -> bool:
        """Undo one step (marks, then filter); False when there is nothing to undo, then the app goes back."""
        return False

    def moved_away(self) -> bool:
        """True, once and with a word, when what was under the cursor went and something else has taken its place."""
        return False

    def aimed_jobs(self) -> list[Job]:
        """The jobs that an action means here: those marked, else the one under the cursor."""
        return []

    def aimed_nodes(self) -> list[str]:
        """The nodes that an action means here."""
        return []

    def exported(self) -> VirtualTable | None:
        """The table that `:export` writes: the one with the focus, else the first on screen."""
        shown = [table for table in self.query(VirtualTable) if table.display and table.size.width]
        return next((table for table in shown if table.has_focus), shown[0] if shown else None)

    def copied(self) -> str:
        """What `Y` copies: the ids of the jobs meant, else the host list of the nodes."""
        jobs = " ".join(job_target(job) for job in self.aimed_jobs())
        return jobs or compress_hosts(self.aimed_nodes())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Unbind what changes the cluster when the cockpit is read-only."""
        return not (action in self.CHANGES and self.cockpit.read_only)
