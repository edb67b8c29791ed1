"""A cluster for the cockpit's tests: 12 nodes of 8 GPUs in two types, some 40 jobs in all states."""

from __future__ import annotations

from msgspec import Struct
from textual.strip import Strip
from textual.widget import Widget

from flagplot.client.calls import Calls
from flagplot.client.mirror import Mirror
from flagplot_wire import replies, requests
from flagplot_wire.accounting import Efficiency, Quota, UsedBy
from flagplot_wire.alloc import Allocation, GpuPart, NodeAlloc
from flagplot_wire.errors import Refused
from flagplot_wire.events import ControllerStarted, Event, JobAdded, JobChanged, NodeChanged
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import (
    ArraySpec,
    Dependency,
    DependencyTerm,
    Forecast,
    GpuCount,
    Job,
    JobSpec,
    Reason,
    Request,
    State,
    Status,
    Why,
)
from flagplot_wire.node import Drain, Gpu, Inventory, Node, NodeGroup, NumaNode, Partition
from flagplot_wire.policy import FairshareRow, Reservation
from flagplot_wire.steps import Step, StepPart
from flagplot_wire.telemetry import GpuProcess, GpuSample, JobSample, NodeSample

NOW = 1_764_590_000
HOSTILE = (
    "sweep[3]",
    "x[/red]",
    "[/]",
    "gpu[/",
    "[$primary]n",
    "[@click=app.quit]here[/]",
    "n[bold",
    "a\x1b]0;X\x07b",
    "c1\x9b31mred",
    "rtl\u202egnp.exe",
    "cr\rover",
)
"""Names that break consoles (shown as typed, control characters replaced)."""
SITE_TEMPLATES = (
    replies.Template(
        "train-8gpu.sh",
        "#!/bin/bash\n# One node, all eight GPUs, torchrun.\n#SBATCH --gpus-per-node=8\n#SBATCH --time=1-00:00:00\n"
        "torchrun --nproc-per-node=8 train.py\n",
    ),
    replies.Template("x[/red].sh", "#!/bin/sh\n# [bold]loud\x1b[31m\ntrue\n"),
)


def node(number: int) -> Node:
    """gpu01-06 have H100s behind switch s1, gpu07-12 A100s behind s2."""
    kind, vram, switch = ("h100", 81_559, "s1") if number <= 6 else ("a100", 40_960, "s2")
    name = f"gpu{number:02}"
    gpus = tuple(
        Gpu(
            index=index,
            uuid=f"GPU-{number:02}{index}",
            type=kind,
            name=f"NVIDIA {kind.upper()}",
            vram_mib=vram,
            numa=index // 4,
            minor=index,
            simulated=True,
            fault="Xid 79: fell off the bus" if (number, index) == (9, 5) else "",
        )
        for index in range(8)
    )
    if number == 12:
        return Node(name)
    return Node(
        name,
        Inventory(
            boot_id=f"boot-{name}",
            sockets=2,
            cores=64,
            threads_per_core=1,
            cpu_ids="0-63",
            memory_mib=1_031_000,
            numa=(NumaNode(0, "0-31", 515_500), NumaNode(1, "32-63", 515_500)),
            gpus=gpus,
            features=("nvlink",) if number <= 6 else (),
            switch=switch,
            simulated=True,
        ),
        responding=number != 11,
        since=NOW - 90_000 if number != 11 else NOW - 754,
        drain={
            8: Drain("bad riser [slot 3]", "root", NOW - 7_200),
            10: Drain("kernel\x1b[2J update", "alice", NOW - 600),
        }.get(number),
        agent_version="0.1.0",
    )


def alloc(places: dict[int, tuple[GpuPart, ...]], cpus: int = 8, memory: int = 65_536, first: int = 0) -> Allocation:
    """An allocation on nodes by number, of CPUs from `first` on."""
    return Allocation(
        tuple(
            NodeAlloc(f"gpu{number:02}", cpus, f"{first}-{first + cpus - 1}", memory, gpus, 1, rank)
            for rank, (number, gpus) in enumerate(places.items())
        )
    )


def whole(*indices: int, kind: str = "h100") -> tuple[GpuPart, ...]:
    """Whole GPUs."""
    return tuple(GpuPart(index, 8, 8, kind) for index in indices)


def job(number: int, user: str, name: str, request: Request, status: Status, **spec: object) -> Job:
    """One job."""
    partition = str(spec.pop("partition", "gpu"))
    return Job(
        JobNumber(number),
        user,
        1000 + len(user),
        JobSpec(name, f"/home/{user}", request, partition, script_name=f"{name[:8]}.sh", **spec),  # type: ignore[arg-type]
        status,
    )


def running(start: int, allocation: Allocation, attempt: int = 1) -> Status:
    """A running job's status."""
    return Status(State.RUNNING, attempt, 0, start - 60, start - 60, start, allocation=allocation, priority=1000)


def pending(age: int, priority: int) -> Status:
    """A pending job's status."""
    return Status(State.PENDING, submit_time=NOW - age, eligible_time=NOW - age, priority=priority)


def ended(state: State, began: int, took: int, code: int = 0, message: str = "", where: int = 2) -> Status:
    """An ended job's status."""
    return Status(
        state,
        1,
        0,
        NOW - began - 30,
        NOW - began - 30,
        NOW - began,
        NOW - began + took,
        code,
        allocation=alloc({where: whole(0)}),
        message=message,
    )


def gpus(count: int, kind: str = "") -> Request:
    """A one-node request."""
    return Request(
        cpus_per_task=8,
        mem_per_node_mib=65_536,
        gpus_per_node=(GpuCount(count, kind),),
        time_limit_s=86_400,
    )


def sample_jobs() -> list[Job]:
    """All the jobs, by number."""
    share = Request(cpus_per_task=4, mem_per_node_mib=16_384, shards=3, time_limit_s=14_400)
    gang = Request(2, 2, tasks=16, tasks_per_node=8, gpus_per_node=(GpuCount(8, "h100"),), time_limit_s=172_800)
    jobs = [
        job(
            40,
            "alice",
            "llama-pretrain",
            gang,
            running(NOW - 93_784, alloc({1: whole(*range(8)), 2: whole(*range(8))})),
        ),
        job(41, "bob", "resnet50", gpus(4, "h100"), running(NOW - 5_025, alloc({3: whole(0, 1, 2, 3)}))),
        job(42, "carol", "whisper-large", gpus(2), running(NOW - 754, alloc({3: whole(4, 5)}, first=8))),
        job(43, "dave", "notebook", share, running(NOW - 3_600, alloc({4: (GpuPart(0, 3, 8, "h100"),)}, 4))),
        job(
            44,
            "erin",
            "評価ジョブ-漢字",
            share,
            running(NOW - 1_800, alloc({4: (GpuPart(0, 3, 8, "h100"),)}, 4, first=4)),
        ),
        job(45, "alice", "debug", share, running(NOW - 120, alloc({4: (GpuPart(1, 1, 8, "h100"),)}, 4, first=32))),
        job(46, "frank", "cpu-only", Request(cpus_per_task=32), running(NOW - 40_000, alloc({7: ()}, 32))),
        job(
            47,
            "bob",
            "sd-xl-finetune",
            gpus(8, "a100"),
            running(NOW - 80_000, alloc({9: whole(*range(5), kind="a100")})),
        ),
        job(48, "carol", "eval-🚀", gpus(1, "a100"), running(NOW - 65, alloc({8: whole(2, kind="a100")}))),
    ]
    array = Request(cpus_per_task=2, gpus_per_node=(GpuCount(1),), time_limit_s=7_200)
    counters = Status(
        State.PENDING,
        submit_time=NOW - 4_000,
        eligible_time=NOW - 4_000,
        priority=900,
        waiting="4-19",
        elements_running=2,
        elements_ended=2,
        elements_failed=1,
    )
    jobs.append(job(50, "dave", "sweep[lr]", array, counters, array=ArraySpec("0-19", 2)))
    for number, index, status in (
        (51, 0, ended(State.COMPLETED, 4_000, 1_800)),
        (52, 1, ended(State.FAILED, 4_000, 30, 1, "exit code 1")),
        (53, 2, running(NOW - 900, alloc({5: whole(0)}, 2))),
        (54, 3, running(NOW - 840, alloc({5: whole(1)}, 2))),
    ):
        element = job(number, "dave", "sweep[lr]", array, status)
        jobs.append(
            Job(element.number, "dave", 1004, element.spec, status, array_number=JobNumber(50), array_index=index)
        )
    jobs += [
        job(
            55,
            "erin",
            "gang-32",
            Request(4, 4, gpus_per_node=(GpuCount(8, "h100"),), time_limit_s=86_400),
            pending(9_000, 800),
        ),
        job(
            56,
            "bob",
            "after-41",
            gpus(1),
            pending(5_000, 700),
            dependency=Dependency((DependencyTerm("afterok", ("41",)),)),
        ),
        job(57, "alice", "held-by-me", gpus(1), pending(3_000, 0), hold="user"),
        job(58, "frank", "held-by-admin", gpus(2), pending(2_500, 0), hold="admin"),
        job(59, "carol", "tonight", gpus(4), pending(2_000, 600), begin=NOW + 30_000),
        job(60, "dave", "too-big", gpus(16, "h100"), pending(1_500, 550)),
        job(61, "alice", "next-in-line", gpus(2, "h100"), pending(900, 500)),
        job(
            62,
            "bob",
            "finishing",
            gpus(1, "a100"),
            Status(
                State.COMPLETING,
                1,
                0,
                NOW - 2_000,
                NOW - 2_000,
                NOW - 1_900,
                ending=State.COMPLETED,
                allocation=alloc({8: whole(3, kind="a100")}),
            ),
        ),
        job(
            63,
            "erin",
            "paused",
            gpus(1, "a100"),
            Status(
                State.SUSPENDED,
                1,
                0,
                NOW - 9_000,
                NOW - 9_000,
                NOW - 8_000,
                allocation=alloc({7: whole(0, kind="a100")}),
            ),
        ),
        job(64, "bob", "ok", gpus(1), ended(State.COMPLETED, 8_000, 3_600)),
        job(65, "carol", "oops", gpus(1), ended(State.FAILED, 7_000, 12, 137, "exit code 137")),
        job(66, "dave", "stopped", gpus(1), ended(State.CANCELLED, 6_000, 500, message="cancelled by dave")),
        job(67, "erin", "overran", gpus(1), ended(State.TIMEOUT, 9_000, 3_600, message="ran longer than 1:00:00")),
        job(68, "frank", "hungry", gpus(1), ended(State.OUT_OF_MEMORY, 5_000, 44, 137, "used more than 64 GiB")),
        job(69, "bob", "lost", gpus(1), ended(State.NODE_FAIL, 4_000, 900, message="gpu11 was lost", where=11)),
        job(70, "carol", "moved-over", gpus(1), ended(State.PREEMPTED, 3_000, 700)),
    ]
    for offset, name in enumerate(HOSTILE):
        jobs.append(job(80 + offset, "mallory", name, gpus(1), pending(300 - offset, 100 - offset), comment=name))
    return sorted(jobs, key=lambda one: one.number)


def sample_forecasts() -> tuple[Forecast, ...]:
    """Why the pending jobs wait."""
    n = JobNumber
    return (
        Forecast(
            n(55),
            (Reason(Why.RESOURCES, "4 nodes with 8 free h100 are needed, 2 are free", (n(40),)),),
            NOW + 79_016,
            ("gpu01", "gpu02", "gpu05", "gpu06"),
            "",
            ("2 nodes instead of 4 would start now",),
        ),
        Forecast(n(56), (Reason(Why.DEPENDENCY, "waits for 41 to end well", (n(41),)),)),
        Forecast(n(57), (Reason(Why.HELD_USER, "held by its owner"),)),
        Forecast(n(58), (Reason(Why.HELD_ADMIN, "held by an administrator"),)),
        Forecast(n(59), (Reason(Why.BEGIN_TIME, "not before its begin time"),), NOW + 30_000, ("gpu05",)),
        Forecast(
            n(60),
            (Reason(Why.RESOURCES, "16 h100 on one node"),),
            never="no node has 16 h100: the largest has 8",
            hints=("--nodes=2 --gpus-per-node=8",),
        ),
        Forecast(n(61), (Reason(Why.PRIORITY, "behind 55", (n(55),)),), NOW + 7_300, ("gpu04",)),
        *(Forecast(n(80 + k), (Reason(Why.PRIORITY, "behind 61", (n(61),)),)) for k in range(len(HOSTILE))),
    )


def sample_telemetry(jobs: list[Job]) -> tuple[NodeSample, ...]:
    """One sample per responding node."""
    samples = []
    for number in range(1, 11):
        name = f"gpu{number:02}"
        here = [one for one in jobs if one.status.state == State.RUNNING and name in one.status.allocation.names]  # type: ignore[union-attr]
        total = 81_559 if number <= 6 else 40_960
        busy = {g.index: one for one in here for p in one.status.allocation.nodes if p.node == name for g in p.gpus}  # type: ignore[union-attr]
        gpu_samples = tuple(
            GpuSample(
                index,
                (37 * number + 13 * index) % 60 + 40 if index in busy else 0,
                total * (3 + index) // 12 if index in busy else 4,
                total,
                40 + index,
                320 if index in busy else 60,
                700,
                (GpuProcess(999, 2_048, "root", "X\x1b[31morg"),) if (number, index) == (6, 7) else (),
            )
            for index in range(8)
            if (number, index) != (9, 5)
        )
        used = tuple(
            JobSample(one.number, 1, 7_000_000, 640, 31_000, 44_000, 9, 88 if busy else None, 30_000 if busy else None)
            for one in here
        )
        samples.append(NodeSample(name, NOW - 2, 12 * len(here), 800, 120_000, gpu_samples, used, True))
    return tuple(samples)


def sample_mirror(*, user: str = "alice", roles: tuple[str, ...] = ("user", "admin"), connected: bool = True) -> Mirror:
    """The whole cluster, as if just heard of."""
    jobs = sample_jobs()
    mirror = Mirror(welcome=replies.Welcome("demo", user, roles, Epoch(1), "0.1.0", NOW, True))
    mirror.connected, mirror.heard = connected, NOW if connected else NOW - 42
    mirror.problem = "" if connected else "the connection was closed by the other side"
    mirror.take(
        replies.SnapshotPart(
            100,
            Epoch(1),
            True,
            True,
            tuple(jobs),
            tuple(node(number) for number in range(1, 13)),
            (
                Partition("gpu", all_nodes=True, default=True, max_time_s=172_800, default_time_s=3_600),
                Partition("debug", ("gpu04", "gpu07"), max_time_s=3_600, default_time_s=900),
            ),
            sample_forecasts(),
            sample_telemetry(jobs),
            (NodeGroup("rack", "r1", "gpu[01-04]"), NodeGroup("rack", "r2", "gpu[05-11]")),
            (
                Reservation("ml-course", NOW + 7_200, NOW + 21_600, ("gpu05", "gpu06"), users=("erin",)),
                Reservation("power", NOW + 90_000, NOW + 104_400, ("gpu07", "gpu09"), maintenance=True),
            ),
        )
    )
    by_number = {one.number: one for one in jobs}
    bodies = [
        ControllerStarted(Epoch(1), "0.1.0"),
        NodeChanged(node(8), "drained", "root"),
        NodeChanged(node(11), "lost"),
        JobAdded(by_number[JobNumber(61)]),
        JobChanged(JobNumber(48), by_number[JobNumber(48)].status, "started"),
        JobChanged(JobNumber(68), by_number[JobNumber(68)].status, "ended"),
        NodeChanged(node(10), "drained", "alice"),
    ]
    mirror.take(replies.EventsPushed(tuple(Event(101 + k, NOW - 900 + 120 * k, body) for k, body in enumerate(bodies))))
    return mirror


def sample_steps(number: JobNumber) -> tuple[Step, ...]:
    """The script's own step, a gang that runs, and one that failed."""
    parts = (StepPart("gpu01", 8, 0), StepPart("gpu02", 8, 8))
    batch = Step(
        number, 1, -1, "batch", "alice", parts=(parts[0],), command="train.sh", start_time=NOW - 90_000, batch=True
    )
    gang = Step(number, 1, 0, "torchrun", "alice", "RUNNING", parts, "torchrun train.py --lr [/]", NOW - 80_000)
    failed = Step(
        number, 1, 1, "check", "alice", "FAILED", (StepPart("gpu01", 1, 0),), "python -c 'import x'", NOW - 500, NOW - 470, 1,
        cpu_ms=29_000, memory_peak_mib=1_500, message="ended with code 1",
    )  # fmt: skip
    return batch, gang, failed


def sample_tree() -> tuple[FairshareRow, ...]:
    """Two faculties with their people, one of which shares as its account does, and one who never used anything."""
    row = FairshareRow
    return (
        row("root", "", 0, 1, 1_000_000, 48_000_000, 1_000_000),
        row("physics", "", 1, 60, 600_000, 36_000_000, 750_000, 800_000),
        row("lattice", "", 2, 2, 666_666, 34_000_000, 944_444, 705_882),
        row("lattice", "alice", 3, 1, 500_000, 4_000_000, 117_647, 4_250_000, 500_000),
        row("lattice", "bob", 3, 1, 500_000, 30_000_000, 882_352, 566_666, 375_000),
        row("optics", "", 2, 1, 333_333, 2_000_000, 55_555, 6_000_000),
        row("optics", "carol", 3, -1, 333_333, 2_000_000, 55_555, None, 625_000),
        row("speech", "", 1, 40, 400_000, 12_000_000, 250_000, 1_600_000),
        row("speech", "dave", 2, 10, 909_090, 12_000_000, 1_000_000, 909_090, 750_000),
        row("speech", "erin[/]", 2, 1, 90_909, 0, 0, None, 875_000),
    )


def sample_usage(empty: bool = False) -> replies.UsageReport:
    """Who used what; what the last jobs of alice used; her limits."""
    if empty:
        return replies.UsageReport(user="alice")
    hour = 3_600
    used = (
        UsedBy("bob", "lattice", 41, 9_600 * hour, 1_430 * hour),
        UsedBy("dave", "speech", 212, 1_210 * hour, 640 * hour),
        UsedBy("alice", "lattice", 12, 2_048 * hour, 215 * hour),
        UsedBy("carol", "optics", 3, 96 * hour, 11 * hour),
        UsedBy("alice", "optics", 1, 30 * hour, 1_800),
        UsedBy("frank", "", 7, 31_000 * hour, 0),
    )
    n = JobNumber
    ended = (
        Efficiency(
            n(64), "64", "llama-eval", "COMPLETED", NOW - 4_400, 3_600, 16, 131_072, 2_000, 9_000_000, 31_000, 71
        ),
        Efficiency(n(39), "39_7", "sweep[lr]", "FAILED", NOW - 9_000, 30, 8, 65_536, 1_000, 12_000, 900, 4),
        Efficiency(
            n(38), "38", "評価ジョブ-漢字", "TIMEOUT", NOW - 80_000, 86_400, 4, 16_384, 375, 310_000_000, 15_900, None
        ),
        Efficiency(n(31), "31", "cpu-only", "COMPLETED", NOW - 190_000, 7_200, 32, 65_536, 0, 225_000_000, 52_000),
        Efficiency(n(30), "30", "lost", "NODE_FAIL", NOW - 191_000, 500, 32, 65_536, 8_000),
    )
    quotas = (
        Quota("user alice in account lattice", "jobs", 3, 4, "user:alice@lattice"),
        Quota("account lattice", "gpus", 20, 20, "account:lattice"),
        Quota("account physics", "gpu_minutes", 1_240_000, 6_000_000, "account:physics"),
        Quota("QoS high", "memory_mib", 262_144, 4_194_304, "qos:high"),
        Quota("user alice in QoS high", "submitted", 3, 50, "qos:high:user:alice"),
    )
    return replies.UsageReport(used, "alice", ended, quotas)


def number_of(event: Event) -> int:
    """The job that an event is about; 0: none."""
    match event.body:
        case JobAdded(job):
            return job.number
        case JobChanged(number):
            return number
    return 0


class FakeChannel:
    """Keeps what was asked; answers from `answers` (by request type) or in the plainest way."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.asked: list[requests.AnyRequest] = []
        self.answers: dict[type[Struct], replies.Reply | Refused] = {}
        self.output = b"".join(b"step %d loss %.3f\n" % (step, 4 / (step + 1)) for step in range(200))

    async def ask(self, request: requests.AnyRequest) -> replies.Reply:
        """Answer at once."""
        self.asked.append(request)
        prepared = self.answers.get(type(request))
        if isinstance(prepared, Refused):
            raise prepared
        return prepared or self._plain(request)

    def _plain(self, request: requests.AnyRequest) -> replies.Reply:
        match request:
            case requests.Act(jobs=targets) | requests.Update(jobs=targets):
                return replies.Acted(tuple(replies.ActedOn(target) for target in targets))
            case requests.ChangePolicy(names=targets):
                return replies.Acted(tuple(replies.ActedOn(target) for target in targets))
            case requests.DrainNodes() | requests.ResumeNodes() | requests.RebootNodes():
                targets = request.nodes
                return replies.Acted(tuple(replies.ActedOn(target) for target in targets))
            case requests.Submit():
                return replies.Submitted(JobNumber(101))
            case requests.Estimate():
                return replies.Estimated(Forecast(JobNumber(0), (), NOW, ("gpu07",)))
            case requests.Explain(job=name):
                number = JobNumber(int(name))
                return replies.Explained(self.mirror.jobs[number], self.mirror.forecasts.get(number))
            case requests.GetTemplates():
                return replies.Templates(SITE_TEMPLATES)
            case requests.GetScript(job=name):
                return replies.Script(JobNumber(int(name)), "#!/bin/bash\n#SBATCH -J x[/red]\nsrun python train.py\n")
            case requests.ReadOutput(offset=offset, limit=limit, search=search) if search:
                size, words = len(self.output), search.lower().encode()
                before = size if offset < 0 else offset
                found = self.output.lower().rfind(words, 0, before + len(words) - 1)
                start = max(0, found - limit // 2)
                data = self.output[start : start + limit] if found >= 0 else b""
                return replies.Output(
                    "/home/a/slurm-1.out", "gpu03", start, size, data, found=found, searched=max(found, 0)
                )
            case requests.ReadOutput(offset=offset, limit=limit):
                size = len(self.output)
                start = max(0, size + offset) if offset < 0 else min(offset, size)
                return replies.Output("/home/a/slurm-1.out", "gpu03", start, size, self.output[start : start + limit])
            case requests.GetEvents(job=name) if name:
                return replies.Events(tuple(one for one in self.mirror.recent if f"{number_of(one)}" == name))
            case requests.GetEvents():
                return replies.Events(tuple(self.mirror.recent))
            case requests.GetSteps(job=name):
                return replies.Steps(sample_steps(JobNumber(int(name.split("_")[0]))))
            case requests.GetStatus():
                return replies.ControllerStatus(
                    "demo", "0.1.0", 1, "127.0.0.1", 7_077, Epoch(1), NOW - 90_000, 108, last_cycle_us=1_400
                )
            case requests.GetFairshare():
                return replies.Fairshares(sample_tree())
            case requests.GetUsage():
                return sample_usage(empty=not self.mirror.jobs)
        raise Refused("unavailable", f"the sample cluster does not answer {type(request).__name__}")


def sample_calls(mirror: Mirror) -> tuple[Calls, FakeChannel]:
    """Calls that never leave the process, and their channel."""
    channel = FakeChannel(mirror)
    return Calls(channel), channel


def watch_lines(widget: Widget) -> list[int]:
    """The lines of a widget that are drawn from now on, by their y, in a list that grows."""
    drawn: list[int] = []
    render_line = widget.render_line

    def watched(y: int) -> Strip:
        drawn.append(y)
        return render_line(y)

    widget.render_line = watched  # type: ignore[method-assign]
    return drawn
