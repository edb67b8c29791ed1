"""The fair tree, who used what, efficiency and quota in words and bars."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from support import sample_cluster as sample

from flagplot.view import efficiency, usage
from flagplot.view.columns import spread
from flagplot.view.tree import branches
from flagplot_wire.accounting import Efficiency, Quota, UsedBy
from flagplot_wire.ids import JobNumber

BERLIN = ZoneInfo("Europe/Berlin")
NAMES = usage.tree_names(sample.sample_tree())


def words(cells: usage.Cells) -> list[str]:
    return ["".join(text for text, _ in cell).strip() for cell in cells]


def shown(folded: tuple[str, ...] = (), text: str = "") -> list[str]:
    return [branch.user or branch.account for _, branch in branches(NAMES, frozenset(folded), text)]


def test_a_folded_account_hides_all_below_it_and_nothing_else() -> None:
    assert shown() == ["root", "physics", "lattice", "alice", "bob", "optics", "carol", "speech", "dave", "erin[/]"]
    assert shown(("physics",)) == ["root", "physics", "speech", "dave", "erin[/]"]
    assert shown(("lattice", "speech")) == ["root", "physics", "lattice", "optics", "carol", "speech"]
    assert shown(("root",)) == ["root"]
    below = {branch.key: branch.below for _, branch in branches(NAMES, frozenset())}
    assert (below["root", ""], below["physics", ""], below["lattice", ""], below["lattice", "bob"]) == (9, 5, 2, 0)


def test_a_filter_keeps_the_way_to_what_matches_and_opens_folds() -> None:
    assert shown(("physics",), "carol") == ["root", "physics", "optics", "carol"]
    assert shown((), "LATTICE") == ["root", "physics", "lattice", "alice", "bob"]
    assert shown((), "lattice !bob") == ["root", "physics", "lattice", "alice"]
    assert shown((), "nobody") == []
    assert branches([], frozenset(), "x") == []


def test_a_line_of_the_fair_tree() -> None:
    rows = sample.sample_tree()
    columns = spread(usage.TREE_COLUMNS, 100)
    cells = {branch.user or branch.account: words(usage.share_cells(branch, rows[at], columns))
             for at, branch in branches(NAMES, frozenset())}  # fmt: skip
    assert cells["root"][:5] == ["▾ root", "1", "100 %", "100 %", "-"]
    assert cells["bob"][1:4] == ["1", "50 %", "88 %"] and cells["bob"][4].endswith("176 %")
    assert cells["bob"][5].endswith("0.375") and cells["bob"][6] == "30000000"
    assert cells["carol"][1] == "parent"
    assert cells["erin[/]"][3] == "0 %" and cells["erin[/]"][4].lstrip("─").strip() == "0 %"


def test_who_used_what_by_account_and_by_user() -> None:
    used = sample.sample_usage().used
    names, rows = usage.used_rows(used, by_user=False)
    assert [name[:2] for name in names][:3] == [("lattice", ""), ("lattice", "bob"), ("lattice", "alice")]
    assert names[-2:] == [("", "", 0), ("", "frank", 1)]
    assert rows[0] == UsedBy("", "lattice", 53, 11_648 * 3_600, 1_645 * 3_600)
    names, rows = usage.used_rows(used, by_user=True)
    assert [one.user for one in rows] == ["bob", "dave", "alice", "carol", "frank"]
    assert rows[2] == UsedBy("alice", "", 13, 2_078 * 3_600, 215 * 3_600 + 1_800)
    assert sum(one.cpu_s for one in rows) == usage.total_of(used).cpu_s
    (_, branch), *_ = branches(names, frozenset())
    cells = usage.used_cells(branch, rows[0], usage.total_of(used), usage.largest(rows), spread(usage.USED_COLUMNS, 90))
    assert words(cells)[1] == "41" and words(cells)[3] == "62 %" and words(cells)[2].endswith("1,430")


def test_without_gpus_the_cpus_tell_the_parts() -> None:
    used = (UsedBy("a", "", 1, 3_600, 0), UsedBy("b", "", 1, 10_800, 0))
    names, rows = usage.used_rows(used, by_user=True)
    lines = branches(names, frozenset())
    total, most = usage.total_of(used), usage.largest(rows)
    columns = spread(usage.USED_COLUMNS, 80)
    assert [words(usage.used_cells(branch, rows[at], total, most, columns))[3] for at, branch in lines] == [
        "75 %",
        "25 %",
    ]
    nothing = usage.total_of(())
    assert words(usage.used_cells(lines[0][1], nothing, nothing, nothing, columns))[3] == "-"


@pytest.mark.parametrize(
    ("moment", "back", "since", "until"),
    [
        ("2026-12-03 08:00", 0, "2026-11-30 00:00", ""),
        ("2026-11-30 00:00", 0, "2026-11-30 00:00", ""),
        ("2026-11-29 23:59", 0, "2026-11-23 00:00", ""),
        ("2026-12-03 08:00", 1, "2026-11-23 00:00", "2026-11-30 00:00"),
        ("2026-11-01 12:00", 1, "2026-10-19 00:00", "2026-10-26 00:00"),
        ("2026-10-25 12:00", 0, "2026-10-19 00:00", ""),
    ],
)
def test_weeks_begin_on_monday_in_the_persons_zone(moment: str, back: int, since: str, until: str) -> None:
    def seconds(text: str) -> int:
        return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()) if text else 0

    assert usage.week(seconds(moment), back, BERLIN) == (seconds(since), seconds(until))


def test_a_week_in_words() -> None:
    at = int(datetime(2026, 12, 3, 8, tzinfo=BERLIN).timestamp())
    assert usage.week_words(*usage.week(at, 0, BERLIN), BERLIN) == "this week, since Mon 11-30"
    assert usage.week_words(*usage.week(at, 1, BERLIN), BERLIN) == "11-23 to 11-29"


def test_efficiency_tells_unknown_from_nothing() -> None:
    columns = spread(efficiency.COLUMNS, 120)
    one = Efficiency(JobNumber(7), "7", "x[/red]", "COMPLETED", sample.NOW - 60, 100, 4, 1_024, 2_000, 100_000, 512, 50)
    cells = words(efficiency.cells(one, sample.NOW, columns))
    assert cells[:4] == ["7", "x[/red]", "CD", "1m40s"]
    assert cells[4].endswith("25 %") and cells[5].endswith("512M/1G") and cells[6].endswith("50 %")
    unknown = Efficiency(JobNumber(8), "8", "y", "NODE_FAIL", sample.NOW, 0, 4, 1_024)
    assert [cell.split()[-1] for cell in words(efficiency.cells(unknown, sample.NOW, columns))[4:7]] == ["?", "?", "-"]
    assert words(efficiency.cells(unknown, sample.NOW, columns))[2] == "NF"
    newer = Efficiency(JobNumber(9), "9", "y", "TELEPORTED", sample.NOW, 1, 1, 1)
    assert words(efficiency.cells(newer, sample.NOW, columns))[2] == "TEL"


def test_the_mean_weighs_by_what_was_held() -> None:
    long = Efficiency(JobNumber(1), "1", "a", "COMPLETED", 9, 300, 1, 100, 0, 300_000, 100)
    short = Efficiency(JobNumber(2), "2", "b", "COMPLETED", 9, 100, 1, 100, 0, 0, 0)
    text = "".join(words for words, _ in efficiency.mean_words([long, short]))
    assert " ".join(text.split()) == "2 jobs used, of what they held: CPU 75 % memory 75 % GPU ?"
    assert efficiency.mean_words([]) == []


def test_what_a_quota_leaves_and_whose_jobs_count() -> None:
    columns = spread(efficiency.QUOTA_COLUMNS, 110)
    cells = words(efficiency.quota_cells(Quota("QoS high", "memory_mib", 2_048, 4_096, "qos:high"), columns))
    assert cells[:2] == ["QoS high", "memory"] and cells[2].endswith("50 %") and cells[3:] == ["2G", "4G", "2G"]
    over = efficiency.quota_cells(Quota("account a", "gpus", 9, 8, "account:a"), columns)
    assert words(over)[5] == "0" and over[5][0][1] == "bad"
    assert words(efficiency.quota_cells(Quota("account a", "jobs", 0, 0), columns))[2].endswith("100 %")
    filters = [efficiency.quota_filter(Quota("", "gpus", 0, 0, scope)) for scope in (
        "account:lab", "user:ada@lab", "qos:high", "qos:high:user:ada", "qos:high:account:lab",
    )]  # fmt: skip
    assert filters == ["account:lab", "user:ada account:lab", "qos:high", "qos:high user:ada", "qos:high account:lab"]
