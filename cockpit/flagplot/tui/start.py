"""Runs cockpits, one after the other as the person goes from cluster to cluster."""

from __future__ import annotations

import gc
import os

from flagplot.client.live import Live
from flagplot.client.target import Target
from flagplot.language import speak, wished
from flagplot.tui.app import FlagplotApp
from flagplot.tui.clusters import Clusters
from flagplot.tui.looks import Looks


def run_cockpits(target: Target, *, read_only: bool, theme: str | None, looks: Looks) -> int:
    """Open the cockpit on a cluster, and on those that it is left for; returns the last one's exit code."""
    speak(() if looks.ascii else wished(os.environ))
    clusters, line = Clusters.around(target), ""
    while True:
        entry = clusters.entry
        live = Live(entry.target if entry else target)
        app = FlagplotApp(
            mirror=live.mirror,
            calls=live.calls,
            live=live,
            read_only=read_only or bool(entry and entry.read_only),
            theme=theme or (entry.theme if entry and not os.environ.get("NO_COLOR") else None) or None,
            looks=looks,
            clusters=clusters,
            first_line=line,
        )
        code = app.run(mouse=looks.mouse and os.environ.get("FLAGPLOT_MOUSE", "1") != "0")
        if clusters.following is None:
            return int(code or 0) if app.return_code == 0 else int(app.return_code or 1)
        (clusters.here, line), clusters.following = clusters.following, None
        # The other cluster's jobs were put aside by the collector.
        del app, live
        gc.unfreeze()
        gc.collect()
