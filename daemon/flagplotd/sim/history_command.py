"""`flagplotd simulate history`: this cluster's own past under other settings."""

from __future__ import annotations

import sqlite3
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from flagplot_wire.errors import Refused
from flagplot_wire.text import clean
from flagplot_wire.units import parse_begin

if TYPE_CHECKING:
    from flagplotd.config import Config
    from flagplotd.core.state import State
    from flagplotd.sim.history import Key, Past, Stay

COURSES = ("before", "present", "after")
"""What really happened, its replay under the present settings, and under the file's."""


@click.command("history")
@click.option("--policy", "file", required=True, help="TOML of other settings, as in flagplotd.toml(5).",
              type=click.Path(path_type=Path, exists=True, dir_okay=False))  # fmt: skip
@click.option("--state", "--data-dir", "folder", type=click.Path(path_type=Path), help="The cluster's files.")
@click.option("--from", "since", default="", metavar="TIME", help="Begin with the cluster as it was then.")
@click.option("--to", "until", default="", metavar="TIME", help="Leave out jobs submitted later.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw plots with ASCII characters.")
def command(file: Path, folder: Path | None, since: str, until: str, as_json: bool, ascii_only: bool) -> None:
    """Replay this cluster's past under other settings: waits, utilisation and fairness before and after.

    The store is only read; the controller may be running."""
    from flagplotd.config import load_config
    from flagplotd.config.overlay import laid_over
    from flagplotd.sim import compare, history_page

    folder = (folder or _default()).expanduser().absolute()
    base = load_config(folder / "flagplotd.toml")
    other = laid_over(base, file)
    past, present = _read(folder / "flagplot.db", base, since, until)
    if not past.stays:
        why = f"{past.never_ran} jobs were submitted and never ran" if past.never_ran else "no job was submitted"
        raise Refused("not_found", f"the past of {folder} holds no job that ran: {why}", "choose other --from and --to")
    now, then = _prepared(past, present, base, folder / "flagplotd.toml"), _prepared(past, present, other, file)
    figures = (
        compare.measure(past, past.stays, now),
        *(compare.measure(past, _replayed(past, state, config), state)
          for state, config in ((now, base), (then, other))),
    )  # fmt: skip
    by_course = dict(zip(COURSES, figures, strict=True))
    if as_json:
        told = {"since": past.since, "until": past.until, "never_ran": past.never_ran,
                "still_running": past.still_running, **by_course}  # fmt: skip
        click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
        return
    plain = ascii_only or "utf" not in (sys.stdout.encoding or "").lower()
    click.echo("\n".join(history_page.page(past, by_course, clean(file.name), plain)))


def _default() -> Path:
    from flagplotd.store.folder import default_folder

    return default_folder()


def _read(path: Path, base: Config, since: str, until: str) -> tuple[Past, State]:
    from flagplotd.service import clock
    from flagplotd.sim import history
    from flagplotd.store import damaged, queries

    now = clock.now()
    offset = int((datetime.now().astimezone().utcoffset() or timedelta()).total_seconds())
    first, last = (
        parse_begin(text, now, offset) if text else default for text, default in ((since, 0), (until, history.FOREVER))
    )
    if last <= first:
        raise Refused("usage", "--to is not after --from", "give for example --from 2026-11-01 --to 2026-12-01")
    if not path.exists():
        raise Refused("not_found", f"there is no store {path}", "say where the cluster's files are: --state DIR")
    try:
        return history.read(queries.journal(path), base.settings, first, last), queries.load(path, base.settings)
    except (sqlite3.DatabaseError, ValueError) as wrong:
        raise damaged(path, str(wrong)) from wrong


def _prepared(past: Past, present: State, config: Config, file: Path) -> State:
    from flagplotd.sim.history import under

    kept = present.partitions and not config.names_partitions
    try:
        return under(past, present, config.settings, () if kept else config.partitions, config.records)
    except Refused as wrong:
        raise Refused("usage", f"{file}: {wrong.message}", wrong.hint) from wrong


def _replayed(past: Past, state: State, config: Config) -> dict[Key, Stay]:
    from flagplotd.sim.replay import Replay

    return Replay(past, state, config.policy).run()
