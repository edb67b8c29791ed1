"""A slow, plain scheduler of processors: second by second, whole reservations tried out. The kernels must equal it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Job:
    """`start` is a waiting job's reservation (conservative only), `shadow` the one of a waiting head job."""

    submit: int
    run: int
    estimate: int
    procs: int
    start: int = -1
    promised: int = -1
    shadow: int = 1 << 62


class Oracle:
    """One replay. Ends of one second come in the order of the starts, after that second's submissions."""

    def __init__(self, jobs: list[Job], total: int, policy: str) -> None:
        self.jobs, self.total, self.policy = jobs, total, policy
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.now = 0

    def replay(self) -> tuple[list[int], list[int]]:
        """Starts and promises, in the order of the jobs, which are sorted by submit time."""
        coming = list(self.jobs)
        while coming or self.waiting or self.running:
            while coming and coming[0].submit == self.now:
                self.waiting.append(coming.pop(0))
                self.decide(submitted=self.waiting[-1])
            for job in [job for job in self.running if job.start + job.run == self.now]:
                self.running.remove(job)
                self.decide(ended=job)
            self.decide()
            assert sum(job.procs for job in self.running) <= self.total
            self.now += 1
        return [job.start for job in self.jobs], [job.promised for job in self.jobs]

    def decide(self, submitted: Job | None = None, ended: Job | None = None) -> None:
        """One pass after an event; without one only reservations that are due begin."""
        if self.policy == "conservative":
            self.conserve(submitted, ended)
        elif submitted or ended:
            self.backfill()

    def free(self, when: int, *others: Job) -> int:
        """Processors free then, as estimated, while the running jobs and `others` hold theirs."""
        return self.total - sum(
            job.procs for job in [*self.running, *others] if job.start <= when < job.start + job.estimate
        )

    def begin(self, job: Job) -> None:
        self.waiting.remove(job)
        self.running.append(job)
        job.start = self.now
        if job.promised < 0:
            job.promised = self.now

    def shadow(self, head: Job, *others: Job) -> int:
        """The first second from now on at which the head job fits."""
        when = self.now
        while self.free(when, *others) < head.procs:
            when += 1
        return when

    def backfill(self) -> None:
        """Start the head while it fits; then all that leave the head's shadow time where it is."""
        while self.waiting and self.waiting[0].procs <= self.free(self.now):
            self.begin(self.waiting[0])
        if not self.waiting:
            return
        head = self.waiting[0]
        shadow = self.shadow(head)
        assert shadow <= head.shadow, "the head job's shadow time got later"
        head.shadow = shadow
        if head.promised < 0:
            head.promised = shadow
        behind = [] if self.policy == "fcfs" else self.waiting[1:]
        if self.policy == "easy-sjbf":
            behind.sort(key=lambda job: job.estimate)
        for job in behind:
            job.start = self.now
            if job.procs <= self.free(self.now) and self.shadow(head, job) == shadow:
                self.begin(job)
            else:
                job.start = -1

    def earliest(self, job: Job) -> int:
        """The first start at which all other reservations leave enough processors, second by second."""
        others = [other for other in self.waiting if other is not job and other.start >= 0]
        begin = second = self.now
        while second < begin + job.estimate:
            if self.free(second, *others) < job.procs:
                begin = second + 1
            second += 1
        return begin

    def conserve(self, submitted: Job | None, ended: Job | None) -> None:
        if submitted:
            submitted.start = submitted.promised = self.earliest(submitted)
        if ended and ended.run < ended.estimate:
            for job in self.waiting:
                earlier = self.earliest(job)
                assert earlier <= job.start, "a promised start got later"
                job.start = earlier
        for job in [job for job in self.waiting if job.start == self.now]:
            self.begin(job)
