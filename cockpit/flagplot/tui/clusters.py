"""The clusters that the cockpit knows, and the way from one to another."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.color import Color

from flagplot.client.target import ALL, Entry, Target, read_entries
from flagplot.language import tr
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


@dataclass(slots=True)
class Clusters:
    """All clusters; `here` is the name of the one that is shown, `following` where to go when the cockpit ends: a name,
    and a command line for there. `problem` tells why the file of clusters cannot be used."""

    entries: list[Entry] = field(default_factory=list)
    here: str = ""
    problem: Refused | None = None
    following: tuple[str, str] | None = None

    @classmethod
    def around(cls, target: Target) -> Clusters:
        """Those of `clusters.toml`, and the target where it is none of them."""
        made = cls()
        try:
            made.entries = list(read_entries().values())
        except Refused as refused:
            made.problem = refused
        place = (target.kind, target.data_dir, target.host, target.port, target.user)
        for one in made.entries:
            other = one.target
            if (other.kind, other.data_dir, other.host, other.port, other.user) == place:
                made.here = one.name
                return made
        made.here = target.name or "here"
        made.entries.insert(0, Entry(made.here, target))
        return made

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [one.name for one in self.entries]

    @property
    def entry(self) -> Entry | None:
        """The one that is shown."""
        return self.named(self.here)

    @property
    def colour(self) -> str:
        """The colour of the one that is shown; empty: none."""
        return self.entry.colour if self.entry else ""

    def named(self, name: str) -> Entry | None:
        """A cluster by its name."""
        return next((one for one in self.entries if one.name == name), None)


def mark(name: str, colour: str) -> Text:
    """A cluster's name in its colour, so that production looks different; bold without one."""
    if not colour:
        return Text(f" {clean(name)} ", Style(bold=True))
    ground = Color.parse(colour)
    return Text(
        f" {clean(name)} ", Style(color=ground.get_contrast_text(1.0).rich_color, bgcolor=ground.rich_color, bold=True)
    )


def pick(app: FlagplotApp) -> None:
    """Ask which, and go there."""
    from flagplot.tui.commands import run_line
    from flagplot.tui.screens.clusters import ClusterPicker

    def chosen(name: str | None) -> None:
        if name:
            run_line(app, f"cluster {shlex.quote(name)}")

    app.push_screen(ClusterPicker(app.clusters.entries, app.clusters.here), chosen)


def cluster(app: FlagplotApp, rest: list[str]) -> None:
    """`:cluster NAME`, or `all`; without a name the picker."""
    if not rest:
        pick(app)
    elif rest[0] == ALL:
        if len(app.clusters.entries) < 2:
            raise Refused("usage", "Only this cluster is known", "flagplot connect user@host:port adds another")
        page = None if app.screen_stack[0].query("#view-clusters") else app.all_clusters()
        if page is not None:
            page.id = "view-clusters"
        app.call_later(app._enter, page, [*app.trail[:1], "clusters"])
    elif rest[0] == app.clusters.here:
        app.say(tr("This is {name}").format(name=rest[0]))
    elif app.clusters.named(rest[0]) is None:
        raise Refused("usage", f"There is no cluster {rest[0]}", "Known: " + " ".join([*app.clusters.names, ALL]))
    else:
        app.go_to_cluster(rest[0])
