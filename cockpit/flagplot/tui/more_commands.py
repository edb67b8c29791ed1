"""Commands beside those on jobs and nodes: each with its line in the palette and the words that complete it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from flagplot.client.target import ALL
from flagplot.language import later
from flagplot.view.export import KINDS
from flagplot_wire.errors import Refused

if TYPE_CHECKING:
    from flagplot.tui.app import FlagplotApp


@dataclass(frozen=True, slots=True)
class More:
    """A command: `where` is `module:function(app, words)`, loaded when it is first run. With `asks` it needs words,
    so that the palette opens the prompt."""

    name: str
    title: str
    help: str
    where: str
    asks: bool = False
    completes: Callable[[FlagplotApp], Sequence[str]] = lambda app: ()

    def run(self, app: FlagplotApp, rest: list[str]) -> None:
        """Do it."""
        module, _, function = self.where.partition(":")
        getattr(import_module(module), function)(app, rest)

    def from_palette(self, app: FlagplotApp) -> None:
        """Do it, or ask for the words that it needs."""
        if self.asks:
            app.action_command(f"{self.name} ")
            return
        try:
            self.run(app, [])
        except Refused as refused:
            app.failure(refused.message, [refused.hint])

    def words(self, app: FlagplotApp) -> Sequence[str]:
        """What may follow its name."""
        return self.completes(app)


def back(app: FlagplotApp, _: list[str]) -> None:
    """The page before."""
    app.call_later(app.action_travel, -1)


def forward(app: FlagplotApp, _: list[str]) -> None:
    """The page after that."""
    app.call_later(app.action_travel, 1)


def copy(app: FlagplotApp, _: list[str]) -> None:
    """Copy what the view names."""
    app.action_copy()


_ALL = (
    More("back", later("Back"), later("where I was before  key <"), "flagplot.tui.more_commands:back"),
    More("forward", later("Forward"), later("where I was after that  key >"), "flagplot.tui.more_commands:forward"),
    More("copy", later("Copy"), later("the ids or names that are marked  key Y"), "flagplot.tui.more_commands:copy"),
    More(
        "export", later("Export …"), later("the list as csv or json, the screen as svg  key X"), "flagplot.tui.export:export", True,
        lambda app: KINDS,
    ),
    More(
        "cluster", later("Cluster …"), later("another cluster, or all  key K"), "flagplot.tui.clusters:cluster", False,
        lambda app: [*app.clusters.names, ALL],
    ),
    More(
        "plugin", later("Own command …"), later("one of plugins.toml by its name"), "flagplot.tui.plugins:run_plugin", True,
        lambda app: [one.name for one in app.own.plugins],
    ),
    More("undo", later("Undo"), later("take back a hold, release, drain, resume or edit  key Z"), "flagplot.tui.undo:undo"),
    More("notices", later("Notices"), later("how the ends of my jobs are told"), "flagplot.tui.notices:show_settings"),
)  # fmt: skip
MORE = {more.name: more for more in _ALL}
