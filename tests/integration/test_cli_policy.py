"""Accounts, users, QoS, partitions, reservations, priorities and fair shares by command, on a real one-node cluster."""

from __future__ import annotations

import time

from support.cluster import Cluster


def test_accounts_users_and_qos_are_made_shown_and_removed(cluster: Cluster) -> None:
    cluster.cli("account", "add", "physics", "--shares", "3", "--max-gpus", "8")
    cluster.cli("account", "add", "ml", "--parent", "physics", "--description", "grants")
    cluster.cli("qos", "add", "high", "--priority", "10", "--user-max-jobs", "2")
    cluster.cli("user", "add", "ada", "--account", "ml", "--max-wall", "1:00:00")
    assert cluster.cli("account", "show").splitlines() == [
        "ACCOUNT  SHARES  MAX-GPUS  DESCRIPTION",
        "physics       3         8",
        "  ml          1            grants",
    ]
    assert cluster.json("qos", "show", "high")[0]["user_limits"]["jobs"] == 2
    cluster.cli("user", "modify", "ada", "--max-wall=", "--qos", "+high")
    (ada,) = cluster.json("user", "show", "ada")
    assert (ada["account"], ada["default"], ada["qos"], ada["limits"]["job_wall_s"]) == ("ml", True, ["high"], None)
    used = cluster.run("account", "remove", "ml", "--json")
    assert used.returncode == 3 and '"error": "in_use"' in used.stdout
    tree = [(row["account"], row["user"]) for row in cluster.json("show", "fairshare")]
    assert tree == [("root", ""), ("physics", ""), ("ml", ""), ("ml", "ada")]
    assert cluster.run("account", "modify", "ml", "--shares", "many").returncode == 3
    cluster.cli("user", "remove", "ada")
    cluster.cli("account", "remove", "ml")
    assert cluster.run("account", "show", "ml").returncode == 4


def test_a_partition_and_a_reservation(cluster: Cluster) -> None:
    cluster.cli("partition", "add", "short", "--nodes", "ALL", "--max-time", "30", "--comment", "for tests")
    cluster.cli("partition", "modify", "short", "--state", "down")
    (short,) = cluster.json("partition", "show", "short")
    assert (short["all_nodes"], short["up"], short["max_time_s"], short["comment"]) == (True, False, 1_800, "for tests")
    before = int(time.time())
    cluster.cli(
        "reservation", "add", "stop", "--start", "now+2hours", "--duration", "60", "--nodes", "ALL", "--flags", "maint"
    )
    (stop,) = cluster.json("reservation", "show")
    assert 0 <= stop["start"] - before - 7_200 <= 60
    assert (stop["end"] - stop["start"], stop["maintenance"]) == (3_600, True)
    cluster.cli("reservation", "remove", "stop")
    cluster.cli("partition", "remove", "short")


def test_a_waiting_job_shows_what_its_priority_is_made_of(cluster: Cluster) -> None:
    number = cluster.submit("--hold", "--wrap", "true")
    (row,) = cluster.json("show", "priority", str(number))
    parts = ("age", "fairshare", "job_size", "partition_part", "qos_part", "tres", "site", "assoc")
    assert row["priority"] == sum(row[part] for part in parts) - row["nice"]
    assert cluster.run("show", "priority", "99999").returncode == 4
    cluster.cli("cancel", str(number))
