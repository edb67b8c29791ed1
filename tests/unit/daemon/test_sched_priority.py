"""The multifactor priority: every factor alone, their sum and its bounds, and the order that follows."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as some
from support.queues import queue_of
from support.states import World, inventory

from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import ArraySpec, GpuCount, Job, JobSpec, Request, Status
from flagplot_wire.node import Gpu, Node, Partition
from flagplot_wire.policy import Account, Association, Qos, Usage
from flagplotd.core.apply import apply
from flagplotd.core.fairshare import Remembered
from flagplotd.sched.order import positions
from flagplotd.sched.order import values as priorities_at_once
from flagplotd.sched.plan import Policy
from flagplotd.sched.priority import TOP, Inputs, Totals, inputs, priorities, row, totals

NOW = 1_000_000
DAY = 86_400
CLUSTER = Totals(nodes=10, cpus=400, memory_mib=1_000_000, gpus=20, shards=160, vram_mib=1_600_000)
NONE = Policy(weight_age=0, weight_fairshare=0, weight_partition=0, weight_qos=0)


def job(number: int = 1, request: Request | None = None, user: str = "ada", age: int = 0, **fields: Any) -> Job:
    status = {name: fields.pop(name) for name in ("priority", "submit_time") if name in fields}
    spec = JobSpec("job", "/", request or Request(), **fields)
    return Job(JobNumber(number), user, 1, spec, Status(eligible_time=NOW - age, **status))


def only(**weights: Any) -> Policy:
    return msgspec.structs.replace(NONE, **weights)


def test_age_grows_and_saturates() -> None:
    policy = only(weight_age=7_000)
    ages = [0, 1, DAY, 3 * DAY + DAY // 2, 7 * DAY, 70 * DAY, -DAY]
    assert [row(job(age=age), Inputs(), policy, NOW).age for age in ages] == [0, 0, 999, 3_500, 7_000, 7_000, 0]
    assert row(job(age=30), Inputs(), only(weight_age=10, age_max_s=60), NOW).total == 5


def test_size_is_the_mean_of_nodes_and_cpus() -> None:
    given = Inputs(totals=CLUSTER)

    def size(policy: Policy, **asked: int) -> int:
        return row(job(request=Request(**asked)), given, policy, NOW).size

    large, small = only(weight_size=1_000), only(weight_size=1_000, favor_small=True)
    assert size(large, nodes_min=5, cpus_per_task=40) == 500, "5 of 10 nodes and 200 of 400 CPUs"
    assert size(large, nodes_min=2, cpus_per_task=1) == (200 + 5) // 2
    assert size(large, nodes_min=10, cpus_per_task=40) == 1_000 == size(large, nodes_min=99, cpus_per_task=99)
    assert size(small, nodes_min=2, cpus_per_task=20) == 1_000 - 150
    assert size(small, nodes_min=99, cpus_per_task=99) == 0
    assert row(job(), Inputs(), large, NOW).size == 0, "a cluster without nodes"


def test_tres_are_parts_of_the_cluster() -> None:
    given = Inputs(totals=CLUSTER)

    def tres(policy: Policy, **asked: Any) -> int:
        return row(job(request=Request(**asked)), given, policy, NOW).tres

    gpu, memory, cpu = (only(**{f"weight_tres_{name}": 1_000}) for name in ("gpu", "mem", "cpu"))
    assert tres(gpu, gpus_per_node=(GpuCount(2, "h100"), GpuCount(1)), nodes_min=2) == 300
    assert tres(gpu, gpus=(GpuCount(5),)) == 250
    assert tres(gpu, shards=4) == 25 and tres(gpu, vram_mib=40_000) == 25, "half of one GPU of 20"
    assert tres(gpu, gpus=(GpuCount(500),)) == 1_000
    assert tres(memory, mem_per_node_mib=100_000, nodes_min=3) == 300
    assert tres(memory, mem_per_cpu_mib=1_000, cpus_per_task=50) == 50
    assert tres(memory, mem_per_node_mib=0, nodes_min=3) == 300, "all memory of each node"
    assert tres(memory, cpus_per_task=40) == 100, "not given: the CPUs' part"
    assert tres(cpu, cpus_per_task=10, tasks_per_node=4) == 100
    both = only(weight_tres_cpu=100, weight_tres_gpu=1_000)
    assert tres(both, cpus_per_task=40, gpus=(GpuCount(1),)) == 60


def world() -> World:
    made = World(nodes=2, cpus=8, memory=8_000, gpus=2)
    for record in (
        Account("physics"), Association("ada", "physics", priority=5), Association("bob", "physics", priority=10),
        Association("eve", "physics"), Qos("low", 1), Qos("high", 4), Qos("none"),
    ):  # fmt: skip
        apply(made.state, ev.PolicyChanged(record))
    apply(made.state, ev.UsageUpdated(NOW, (Usage("ada@physics", 300, 0), Usage("bob@physics", 200, 0))))
    apply(made.state, ev.PartitionChanged(Partition("fast", all_nodes=True, priority_tier=4)))
    return made


def test_what_belongs_to_people_qos_and_partitions() -> None:
    policy = only(weight_fairshare=900, weight_partition=1_000, weight_qos=1_000, weight_association=100)
    given = inputs(world().state, policy, Remembered())
    ada = row(job(account="physics", partition="main", qos="low"), given, policy, NOW)
    assert (ada.fairshare, ada.partition_part, ada.qos_part, ada.association) == (299, 250, 250, 50)
    bob = row(job(user="bob", account="physics", partition="fast", qos="high"), given, policy, NOW)
    assert (bob.fairshare, bob.partition_part, bob.qos_part, bob.association) == (599, 1_000, 1_000, 100)
    eve = row(job(user="eve", account="physics", partition="gone", qos="none"), given, policy, NOW)
    assert (eve.fairshare, eve.partition_part, eve.qos_part, eve.association) == (900, 0, 0, 0)
    stranger = row(job(user="eve", account="chemistry"), given, policy, NOW)
    assert stranger.total == 0
    assert given.totals == Totals(), "no weight asks for it"


def test_totals_count_what_jobs_may_use() -> None:
    card = Gpu(0, "GPU-x", "l40s", vram_mib=None, shards=4)
    nodes = [Node("a", inventory(8, 100, 2)), Node("b", msgspec.structs.replace(inventory(9, 50, 0), gpus=(card,)))]
    assert totals([*nodes, Node("never-seen")]) == Totals(2, 17, 150, 3, 20, 16_000)


def test_nice_site_and_the_bounds() -> None:
    policy, given = only(weight_age=100), Inputs(site={7: 25, 8: -500})
    one = row(job(7, age=7 * DAY, nice=30), given, policy, NOW)
    assert (one.total, one.nice, one.site, one.age) == (95, 30, 25, 100)
    assert row(job(8, nice=-5), given, policy, NOW).total == 0
    assert row(job(nice=-(2**40)), given, policy, NOW).total == TOP
    highest = only(weight_age=TOP, weight_qos=TOP)
    assert row(job(age=7 * DAY, qos="q"), Inputs(qos={"q": 1_000_000}), highest, NOW).total == TOP
    assert row(job(age=7 * DAY), given, only(weight_age=TOP), NOW).total == TOP


def test_what_an_operator_set_takes_the_place_of_all_factors() -> None:
    one = row(job(priority=77, nice=50, age=DAY, account="a"), Inputs(), Policy(), NOW)
    assert (one.total, one.age, one.nice, one.account) == (77, 0, 0, "a")
    assert priorities([job(priority=2**40)], Inputs(), Policy(), NOW) == [TOP]


def test_a_row_names_the_job_as_people_do() -> None:
    array = msgspec.structs.replace(job(9, array=ArraySpec("0-3", 2)), status=Status(waiting="1-3"))
    assert (row(array, Inputs(), Policy(), NOW).job, row(job(9), Inputs(), Policy(), NOW).number) == ("9_[1-3%2]", 9)


def test_the_order_of_reservation_tier_priority_submission_number() -> None:
    given = Inputs(tiers={"fast": 4, "main": 1})
    jobs = [
        job(1, partition="main", nice=-1, submit_time=9),
        job(2, partition="main", submit_time=5),
        job(3, partition="main", submit_time=4),
        job(4, partition="main", submit_time=4),
        job(5, partition="fast", nice=100, submit_time=9),
        job(6, partition="main", nice=100, reservation="course"),
        job(7, partition="main", nice=100, priority=2, submit_time=9),
    ]
    order = [jobs[place].number for place in positions(*queue_of(jobs), given, NONE, NOW)]
    assert order == [6, 5, 7, 1, 3, 4, 2]
    assert len(positions(*queue_of([]), given, NONE, NOW)) == 0


def test_other_weights_order_at_once() -> None:
    state, jobs = world().state, [job(1, qos="low", user="eve", account="physics"), job(2, qos="high", user="ada")]
    for policy, first in ((only(weight_qos=10), 2), (only(weight_fairshare=10), 1)):
        given = inputs(state, policy, Remembered())
        assert jobs[positions(*queue_of(jobs), given, policy, NOW)[0]].number == first


def test_a_new_clusters_default_goes_by_age() -> None:
    made = World(nodes=1)
    policy = Policy()
    given = inputs(made.state, policy, Remembered())
    assert priorities([job(partition="main"), job(partition="main", age=7 * DAY)], given, policy, NOW) == [1_000, 2_000]


names = some.sampled_from(["", "a", "b", "c"])
factors = some.dictionaries(names, some.integers(0, 1_000_000))
weights = some.integers(0, TOP)
jobs_of_all_kinds = some.builds(
    lambda number, user, age, nice, fixed, submit, request, where: job(
        number, request, user, age, nice=nice, priority=fixed, submit_time=submit, **where
    ),
    some.integers(1, 50), names, some.integers(-DAY, 9 * DAY), some.integers(-(2**33), 2**33),
    some.sampled_from([0, 0, 5]), some.integers(0, 3),
    some.builds(
        lambda nodes, cpus, gpus, memory: Request(
            nodes_min=nodes, cpus_per_task=cpus, gpus=(GpuCount(gpus),) if gpus else (), mem_per_node_mib=memory
        ),
        some.integers(1, 12), some.integers(1, 99), some.integers(0, 30), some.sampled_from([None, 0, 5_000]),
    ),
    some.fixed_dictionaries(dict.fromkeys(("account", "partition", "qos", "reservation"), names)),
)  # fmt: skip
policies = some.builds(
    Policy, weight_age=weights, weight_fairshare=weights, weight_size=weights, weight_partition=weights,
    weight_qos=weights, weight_association=weights, weight_tres_gpu=weights, weight_tres_cpu=weights,
    weight_tres_mem=weights, favor_small=some.booleans(), age_max_s=some.integers(0, 10 * DAY),
)  # fmt: skip
people = some.dictionaries(some.builds("{}@{}".format, names, names), some.integers(0, 1_000_000))
all_inputs = some.builds(
    Inputs, totals=some.sampled_from([CLUSTER, Totals()]), tiers=some.dictionaries(names, some.integers(0, 5)),
    partitions=factors, qos=factors, associations=people, fairshare=people,
    site=some.dictionaries(some.integers(1, 50), some.integers(-999, 999)),
)  # fmt: skip


@settings(max_examples=200, deadline=None, print_blob=True)
@given(some.lists(jobs_of_all_kinds, max_size=8), all_inputs, policies)
def test_parts_add_up_and_order_as_the_key_does(jobs: list[Job], given: Inputs, policy: Policy) -> None:
    values = priorities(jobs, given, policy, NOW)
    rows = [row(one, given, policy, NOW) for one in jobs]
    assert values == [one.total for one in rows]
    for one, its in zip(jobs, rows, strict=True):
        parts = (its.age, its.fairshare, its.size, its.partition_part, its.qos_part, its.tres, its.association)
        assert all(part >= 0 for part in parts) and its.age <= policy.weight_age and its.size <= policy.weight_size
        if not one.status.priority:
            assert its.total == min(max(sum(parts) + its.site - its.nice, 0), TOP)
    keys = [
        (not one.spec.reservation, -given.tiers.get(one.spec.partition, 1), -value, one.status.submit_time, one.number)
        for one, value in zip(jobs, values, strict=True)
    ]
    queue, requests = queue_of(jobs)
    assert priorities_at_once(queue, requests, given, policy, NOW).tolist() == values
    assert [keys[place] for place in positions(queue, requests, given, policy, NOW)] == sorted(keys)
