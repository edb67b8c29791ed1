"""A small cluster in which everything that a snapshot depends on happens at random."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from support.states import ADA, ROOT, World, inventory

from flagplot_wire.events import Body
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import ArraySpec, GpuCount, JobSpec, LicenseCount, Request
from flagplot_wire.node import Inventory, NumaNode
from flagplot_wire.requests import ChangePolicy, DrainNodes, RemoveNodes, ResumeNodes, Update
from flagplot_wire.values import parse_dependency
from flagplotd.core import stimuli as st
from flagplotd.core.orders import Outcome
from flagplotd.core.state import Settings, Switch, Who

BOB = Who("bob", 1001)
SWITCHES = (Switch("s1", ("n1", "n2")), Switch("s2", ("n3", "n4")), Switch("top", switches=("s1", "s2")))


class Busy(World):
    """`happens` does one thing at random; every event is told to `watch`."""

    def __init__(self, seed: int, watch: Callable[[Body], None]) -> None:
        self.chance, self.watch = Random(seed), watch
        mode: Any = self.chance.choice(("off", "requeue", "suspend"))
        settings = Settings(
            licenses=(("matlab", 2), ("ansys", 1)), preempt_mode=mode, keep_ended=4, keep_ended_s=60, launch_retry_s=5,
            switches=self.chance.choice(((), SWITCHES)), refuse_impossible=False,
        )  # fmt: skip
        super().__init__(3, settings)
        for kind, name, values in (
            ("account", "lab", {"max-gpus": "3"}), ("account", "sub", {"parent": "lab", "max-jobs": "2"}),
            ("user", "ada", {"account": "lab"}), ("user", "bob", {"account": "sub", "max-gpu-minutes": "200"}),
            ("qos", "low", {}), ("qos", "high", {"preempts": "low", "max-jobs": "3"}),
        ):  # fmt: skip
            self.change("add", kind, name, values)
        self.things = [self.submits] * 6 + [self.ends] * 4 + [self.acts] * 2 + [self.passes] * 3 + [
            self.updates, self.breaks, self.hardware, self.records, self.reserves,
        ]  # fmt: skip

    def do(self, stimulus: st.Stimulus) -> Outcome:
        """As the loop does, which tells of each event."""
        outcome = super().do(stimulus)
        for body in outcome.events:
            self.watch(body)
        return outcome

    def change(self, verb: Any, kind: Any, name: str, values: dict[str, str]) -> None:
        """Change policy; what is refused changes nothing."""
        self.do(st.ChangeRecords(ROOT, ChangePolicy(verb, kind, (name,), values)))

    def happens(self) -> None:
        """One thing."""
        self.chance.choice(self.things)()

    def _some(self, numbers: Any) -> JobNumber | None:
        numbers = sorted(numbers)
        return self.chance.choice(numbers) if numbers else None

    def submits(self) -> None:
        """A job or array of some kind."""
        pick, some = self.chance.random, self.chance.choice
        nodes = some((1, 1, 1, 2, 3))
        gpus = some((0, 0, 1, 2))
        request = Request(
            nodes_min=nodes, nodes_max=nodes, cpus_per_task=some((1, 2, 4, 8)), mem_per_node_mib=some((100, 3_000)),
            time_limit_s=some((60, 600, 3_600, 0)), gpus_per_node=(GpuCount(gpus, some(("", "a100"))),) if gpus else (),
            shards=0 if gpus else some((0, 0, 3)), constraint=some(("", "", "", "fast", "!fast")),
            licenses=(LicenseCount(some(("matlab", "ansys")), 1),) if pick() < 0.2 else (),
            switches=some((0, 0, 1)), switches_wait_s=some((0, 30)), exclusive=pick() < 0.1,
            nodelist=("n1", "n2", "n3") if pick() < 0.1 else (), contiguous=nodes > 1 and pick() < 0.2,
        )  # fmt: skip
        target = self._some(self.state.jobs)
        depends = some(("", "", "", "singleton", "afterok:{}", "afterany:{}", "after:{}+1", "afternotok:{}?singleton"))
        who = some((ADA, BOB))
        spec = JobSpec(
            some(("job", "other")), "/tmp", request, account={"ada": "lab", "bob": "sub"}[who.user] if pick() < 0.8 else "",
            qos=some(("", "", "low", "high")), reservation=some(("", "", "", "r1")),
            dependency=parse_dependency(depends.format(target)) if depends and target else None,
            begin=self.now + 20 if pick() < 0.1 else 0, hold=some(("", "", "", "", "user")),
            array=ArraySpec(some(("0-3", "1,5")), some((0, 1))) if pick() < 0.2 else None, nice=some((0, 0, 50)),
        )  # fmt: skip
        self.keys += 1
        self.do(st.SubmitJob(who, spec, f"key{self.keys}"))

    def ends(self) -> None:
        """The end of a job's part, as its node tells."""
        number = self._some(self.state.active)
        if number is not None:
            allocation = self.state.jobs[number].status.allocation
            assert allocation is not None
            cause = self.chance.choice(("exited", "exited", "launch_failed", "stopped"))
            for node in allocation.names[: self.chance.choice((1, 9))]:
                if number in self.state.active:
                    self.end(number, self.chance.choice((0, 0, 1)), cause, node)

    def acts(self) -> None:
        """Somebody holds, releases, cancels or requeues a job."""
        number = self._some(self.state.jobs)
        if number is not None:
            self.act(self.chance.choice(("hold", "release", "release", "cancel", "requeue")), str(number), who=ROOT)

    def updates(self) -> None:
        """Somebody changes a job."""
        number = self._some(self.state.jobs)
        changes: Any = self.chance.choice(
            (
                {"time_limit": "5"}, {"name": "other"}, {"array_limit": 2}, {"begin": "now+30"}, {"priority": 9},
                {"dependency": "singleton"}, {"qos": "low"}, {"account": "lab"}, {"site_factor": 100}, {"nice": 3},
                {"licenses": "matlab:2"}, {"reservation": ""}, {"gpus_per_node": "1"},
            )
        )  # fmt: skip
        if number is not None:
            self.do(st.UpdateJobs(ROOT, Update((str(number),), **changes)))

    def breaks(self) -> None:
        """A node goes out of service or comes back."""
        name = self.chance.choice(sorted(self.state.nodes))
        pick = self.chance.random()
        if pick < 0.25:
            self.do(st.Drain(ROOT, DrainNodes((name,), "test")))
        elif pick < 0.5:
            self.do(st.Resume(ROOT, ResumeNodes((name,))))
        elif pick < 0.6:
            self.do(st.AgentLost(name))
        elif pick < 0.65:
            self.do(st.AgentLost(name))
            self.do(st.Remove(ROOT, RemoveNodes((name,))))
        else:
            self.do(st.AgentJoined(name, self._inventory(name), "0", self.running_on(name)))

    def _inventory(self, name: str) -> Inventory:
        old = self.state.nodes[name].inventory if name in self.state.nodes else None
        return old or inventory()

    def hardware(self) -> None:
        """A node is new, or has other hardware than it had."""
        name, some = self.chance.choice(("n1", "n2", "n3", "n4", "n10")), self.chance.choice
        cards = tuple(
            msgspec.structs.replace(card, fault=some(("", "", "", "broken")), type=some(("a100", "a100", "h100")))
            for card in inventory(gpus=some((2, 2, 3))).gpus
        )
        numa = some(((), (NumaNode(0, "0-3", 4_000), NumaNode(1, "4-7", 4_000))))
        made = msgspec.structs.replace(inventory(), gpus=cards, numa=numa, features=some(((), ("fast",))))
        self.do(st.AgentJoined(name, made, "0", self.running_on(name) if name in self.state.use else ()))

    def records(self) -> None:
        """An account, a QoS or the partition becomes another."""
        kind, name, values = self.chance.choice(
            (
                ("account", "lab", {"max-gpus": self.chance.choice(("1", "4", ""))}),
                ("account", "sub", {"parent": self.chance.choice(("lab", "root"))}),
                ("qos", "high", {"max-jobs": self.chance.choice(("1", "")), "priority": "5"}),
                ("partition", "main", {"state": self.chance.choice(("up", "up", "down"))}),
                ("partition", "main", {"qos": self.chance.choice(("low", ""))}),
                ("user", "ada", {"account": "lab", "max-wall": self.chance.choice(("10", ""))}),
            )
        )
        self.change("modify", kind, name, values)

    def reserves(self) -> None:
        """A reservation is made or taken back."""
        some = self.chance.choice
        name = some(("r1", "r2"))
        if name in self.state.reservations:
            self.change("remove", "reservation", name, {})
            return
        values = {
            "nodes": some(("n1", "n[1-2]", "ALL")), "start": some(("now", "now+1minute", "now+1hour")), "users": "ada,bob",
            "duration": some(("10:00", "2:00:00")), "cores": some(("", "", "2")), "flags": some(("", "flex", "ignore-jobs")),
        }  # fmt: skip
        self.change("add", "reservation", name, {key: value for key, value in values.items() if value})

    def passes(self) -> None:
        """Time."""
        self.now += self.chance.choice((1, 5, 30, 61, 700))
        self.do(st.Tick())
