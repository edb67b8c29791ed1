"""The fair tree: what Slurm's own examples give, the order of people's rows, and the oracle on random trees."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as some
from support.fairshare_oracle import Oracle, usages

from flagplot_wire.policy import ROOT, USE_PARENT, Account, Association, Usage
from flagplotd.core.fairshare import Ranks, Remembered, fair_tree, rows


def by_key(*records: Account | Association) -> dict[str, object]:
    return {record.key: record for record in records}


def ranked(accounts: list[Account], associations: list[Association], used: dict[str, int]) -> Ranks:
    return fair_tree({one.name: one for one in accounts}, {one.key: one for one in associations}, usages(used))


def test_the_tree_of_slurms_own_test() -> None:
    """The tree of Slurm's test 24.4 without `Fairshare=parent`, ranked by the rules of its fair tree page."""
    accounts = [
        Account("aA", ROOT, 40), Account("aAA", "aA", 30), Account("aAB", "aA", 10), Account("aB", ROOT, 60),
        Account("aBA", "aB", 25), Account("aBB", "aB", 35), Account("aC", ROOT, 0), Account("aE", ROOT, 10),
        Account("aF", ROOT, 20), Account("aG", ROOT, 8), Account("aGA", "aG", 10),
    ]  # fmt: skip
    people = {
        "uAA1@aAA": (1, 20), "uAB1@aAB": (1, 25), "uAB2@aAB": (1, 0), "uBA1@aBA": (1, 25), "uBB1@aBB": (1, 0),
        "uC1@aC": (0, 30), "aE1@aE": (10, 0), "aE2@aE": (10, 0), "u1@root": (10, 0), "uF1@aF": (10, 0),
        "uF2@aF": (20, 0), "uG1@aG": (10, 10), "uGA1@aGA": (20, 4), "uGA2@aGA": (20, 6), "u2@root": (10, 10),
    }  # fmt: skip
    associations = [Association(*key.split("@"), shares=shares) for key, (shares, _) in people.items()]
    found = ranked(accounts, associations, {key: used for key, (_, used) in people.items()})
    unused = dict.fromkeys(("u1@root", "aE1@aE", "aE2@aE", "uF1@aF", "uF2@aF"), 15)
    assert found.ranks == {
        **unused, "uBB1@aBB": 10, "uBA1@aBA": 9, "u2@root": 8, "uAA1@aAA": 7, "uAB2@aAB": 6, "uAB1@aAB": 5,
        "uG1@aG": 4, "uGA1@aGA": 4, "uGA2@aGA": 2, "uC1@aC": 1,
    }  # fmt: skip
    assert (found.factor("u1@root"), found.factor("uC1@aC"), found.factor("nobody@aC")) == (1_000_000, 66_666, 0)


def test_a_listing_of_sshare() -> None:
    """A group of 23 as a site published it: level 0.173913 with 25.0000 % of the usage, and so on; 20 never ran."""
    used = {"eroche": 344, "qubit": 351, "rezzonic": 681}
    names = [*used, *(f"idle{index}" for index in range(20))]
    associations = by_key(*(Association(name, "scitas-ge") for name in names))
    usage = usages({f"{name}@scitas-ge": value * 1_000 for name, value in used.items()})
    listing = {row.user: row for row in rows(by_key(Account("scitas-ge")), associations, usage)}  # type: ignore[arg-type]
    assert [listing[name].norm_shares for name in used] == [43_478] * 3
    assert [listing[name].norm_usage for name in used] == [250_000, 255_087, 494_912]
    published = {"eroche": 173_913, "qubit": 170_455, "rezzonic": 87_848}  # from usage before it was rounded
    assert all(abs((listing[name].level or 0) - level) <= 11 for name, level in published.items())
    assert [listing[name].usage for name in used] == [344, 351, 681]
    assert listing["idle3"].level is None and listing["idle3"].factor == 1_000_000
    assert [listing[name].factor for name in used] == [130_434, 86_956, 43_478], "3, 2 and 1 of 23"


def test_rows_go_depth_first_with_the_root_on_top() -> None:
    accounts = by_key(Account("b"), Account("a", shares=3), Account("aa", "a"), Account(ROOT, ""))
    people = by_key(Association("zoe", ROOT, shares=4), Association("eve", "a"), Association("ada", "aa"))
    used = {"eve@a": Usage("eve@a", 9_000, 0), "gone@a": Usage("gone@a", 1_000, 0), "ada@aa": Usage("ada@aa", 5_999, 0)}
    found = rows(accounts, people, used)  # type: ignore[arg-type]
    assert [(row.depth, row.account, row.user) for row in found] == [
        (0, ROOT, ""), (1, ROOT, "zoe"), (1, "a", ""), (2, "a", "eve"), (2, "aa", ""), (3, "aa", "ada"), (1, "b", ""),
    ]  # fmt: skip
    assert [row.usage for row in found] == [15, 0, 15, 9, 5, 5, 0], "what somebody left behind stays the account's"
    assert [row.norm_shares for row in found] == [1_000_000, 500_000, 375_000, 500_000, 500_000, 1_000_000, 125_000]
    assert (found[2].level, found[1].level, found[2].factor) == (375_000, None, None)


def test_a_user_with_the_shares_of_its_account_ranks_with_its_best() -> None:
    """`Fairshare=parent` of Slurm's fair tree: the highest level in the account, and no part of its users' shares."""
    accounts = [Account("a"), Account("b")]
    people = [
        Association("busy", "a", USE_PARENT), Association("half", "a", 1), Association("other", "a", 1),
        Association("idle", "a", 1), Association("zoe", "b"),
    ]  # fmt: skip
    used = {"busy@a": 100, "half@a": 10, "other@a": 20, "zoe@b": 10}
    found = ranked(accounts, people, used)
    assert found.ranks == {"zoe@b": 5, "busy@a": 4, "idle@a": 4, "half@a": 2, "other@a": 1}
    listing = {row.user: row for row in rows(by_key(*accounts), by_key(*people), usages(used))}  # type: ignore[arg-type]
    busy, half = listing["busy"], listing["half"]
    assert (busy.shares, busy.norm_shares, busy.norm_usage, busy.level) == (USE_PARENT, 500_000, 928_571, None)
    assert (half.norm_shares, half.norm_usage) == (333_333, 76_923)


def test_no_one_at_all() -> None:
    assert ranked([], [], {}).ranks == {}
    assert [row.account for row in rows({}, {}, {})] == [ROOT]


def test_levels_that_differ_by_one_part_in_2_to_the_50_are_not_tied() -> None:
    found = ranked([Account("a")], [Association("x", "a"), Association("y", "a")], {"x@a": 2**50, "y@a": 2**50 + 1})
    assert found.ranks == {"x@a": 2, "y@a": 1}


def test_neighbouring_fractions_of_merged_accounts_are_not_tied() -> None:
    big = 2**30
    people = [
        Association("x", "a", big), Association("idle", "a"), Association("x", "b", big + 1), Association("idle", "b"),
    ]  # fmt: skip
    found = ranked([Account("a"), Account("b")], people, {"x@a": 1, "x@b": 1})
    assert found.ranks == {"idle@a": 4, "idle@b": 4, "x@b": 2, "x@a": 1}


def test_remembered_until_something_changes() -> None:
    memory = Remembered()
    accounts, people = {"a": Account("a")}, {"x@a": Association("x", "a"), "y@a": Association("y", "a")}
    used: dict[str, Usage] = {"x@a": Usage("x@a", 5, 0)}
    first = memory.factors(accounts, people, used)
    assert first == {"y@a": 1_000_000, "x@a": 500_000}
    assert memory.factors(accounts, people, used) is first
    used["y@a"] = Usage("y@a", 6, 0)
    assert memory.factors(accounts, people, used) == {"x@a": 1_000_000, "y@a": 500_000}
    people["y@a"] = Association("y", "a", shares=9)
    assert memory.factors(accounts, people, used) == {"y@a": 1_000_000, "x@a": 500_000}


@some.composite
def trees(draw: some.DrawFn) -> tuple[list[Account], list[Association], dict[str, int]]:
    names = [f"a{index}" for index in range(draw(some.integers(0, 6)))]
    few = some.integers(0, 3)
    accounts = [
        Account(name, draw(some.sampled_from([ROOT, "lost", *names[:index]])), draw(few))
        for index, name in enumerate(names)
    ]
    places = some.tuples(some.sampled_from(["u", "v", "w"]), some.sampled_from([ROOT, "nowhere", *names]))
    of_users = some.sampled_from([USE_PARENT, 0, 1, 2, 3])
    people = [
        Association(user, account, draw(of_users)) for user, account in sorted(draw(some.sets(places, max_size=12)))
    ]
    keys = sorted({one.key for one in people} | {f"gone@{name}" for name in names})
    used = {key: draw(some.sampled_from([0, 0, 1, 2, 3, 6, 10**15, 10**15 + 1])) for key in keys}
    return accounts, people, used


@settings(max_examples=400, deadline=None, print_blob=True)
@given(trees())
def test_like_the_oracle(tree: tuple[list[Account], list[Association], dict[str, int]]) -> None:
    oracle, found = Oracle(*tree), ranked(*tree)
    assert (found.ranks, found.count) == (oracle.ranks, oracle.count)


@settings(max_examples=100, deadline=None, print_blob=True)
@given(trees(), some.integers(2, 1_000))
def test_the_unit_of_usage_and_of_shares_does_not_matter(
    tree: tuple[list[Account], list[Association], dict[str, int]], times: int
) -> None:
    accounts, people, used = tree
    more = [Association(one.user, one.account, one.shares * times) for one in people]
    larger = [Account(one.name, one.parent, one.shares * times) for one in accounts]
    assert ranked(larger, more, {key: value * times for key, value in used.items()}) == ranked(*tree)
