"""The process behind one page of `flagplot web`: a cockpit whose terminal is the browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flagplot.client.target import resolve
from flagplot.tui.looks import Looks
from flagplot.tui.start import run_cockpits
from flagplot_wire.errors import Refused


def main(options: dict[str, str]) -> int:
    """Run; a refusal is told on standard error, which the server prints."""
    folder = options.get("data_dir")
    try:
        target = resolve(data_dir=Path(folder) if folder else None, cluster=options.get("cluster"))
        return run_cockpits(
            target, read_only="read_only" in options, theme=options.get("theme"), looks=Looks.of(options)
        )
    except Refused as refused:
        print(f"flagplot: {refused.message}", file=sys.stderr)
        return int(refused.exit)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
