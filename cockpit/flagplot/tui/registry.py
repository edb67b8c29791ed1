"""The main views by name and key; a view's module is loaded when it is first shown."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from flagplot.tui.main_view import MainView


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A main view: its name in `:` commands, its digit, its title, and `module:Class`."""

    name: str
    key: str
    title: str
    where: str

    def make(self) -> MainView:
        """Build the view."""
        module, _, attribute = self.where.partition(":")
        view: MainView = getattr(import_module(module), attribute)()
        view.id = f"view-{self.name}"
        return view


VIEWS: tuple[ViewEntry, ...] = (
    ViewEntry("queue", "1", "Queue", "flagplot.tui.screens.queue:QueueView"),
    ViewEntry("nodes", "2", "Nodes", "flagplot.tui.screens.nodes:NodesView"),
    ViewEntry("gpus", "3", "GPUs", "flagplot.tui.screens.gpus:GpusView"),
    ViewEntry("timeline", "4", "Timeline", "flagplot.tui.screens.timeline:TimelineView"),
    ViewEntry("events", "5", "Events", "flagplot.tui.screens.events:EventsView"),
    ViewEntry("usage", "6", "Usage", "flagplot.tui.screens.usage:UsageView"),
    ViewEntry("pulse", "7", "Pulse", "flagplot.tui.screens.pulse:PulseView"),
)
"""In the order of their keys."""
