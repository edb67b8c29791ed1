"""One method for each request; the connection below decides how the frames travel.

Every method raises `Refused` when the controller refuses, or with code `no_controller` when there is no
connection (then nothing was sent, or for `submit` the same key may be sent again without harm).
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from flagplot_wire import replies, requests
from flagplot_wire.errors import Refused
from flagplot_wire.job import Forecast, Job, JobSpec, Payload
from flagplot_wire.policy import FairshareRow, PriorityRow, Record, kind_of

R = TypeVar("R", bound=Struct)


class Channel(Protocol):
    """Something that carries one request and brings its reply (a `Failure` comes as `Refused`)."""

    async def ask(self, request: requests.AnyRequest) -> replies.Reply:
        """Send and wait for the reply with the same id."""


class Calls:
    """Typed calls over a channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    async def _ask(self, request: requests.AnyRequest, kind: type[R]) -> R:
        reply = await self.channel.ask(request)
        if not isinstance(reply, kind):
            raise Refused("protocol", f"the controller answered {type(reply).__name__} to {type(request).__name__}")
        return reply

    async def submit(self, spec: JobSpec, payload: Payload, key: str, dry_run: bool = False) -> replies.Submitted:
        """Submit a job; the same `key` never makes a second one."""
        return await self._ask(requests.Submit(spec, payload, key, dry_run), replies.Submitted)

    async def act(self, request: requests.Act) -> replies.Acted:
        """Cancel, hold, release or requeue."""
        return await self._ask(request, replies.Acted)

    async def update(self, request: requests.Update) -> replies.Acted:
        """Change jobs."""
        return await self._ask(request, replies.Acted)

    async def drain(self, nodes: tuple[str, ...], reason: str) -> replies.Acted:
        """Take nodes out of service; `nodes` are host lists."""
        return await self._ask(requests.DrainNodes(nodes, reason), replies.Acted)

    async def resume(self, nodes: tuple[str, ...]) -> replies.Acted:
        """Give nodes back."""
        return await self._ask(requests.ResumeNodes(nodes), replies.Acted)

    async def reboot(self, nodes: tuple[str, ...], reason: str) -> replies.Acted:
        """Drain nodes, reboot them when they hold no jobs, give them back."""
        return await self._ask(requests.RebootNodes(nodes, reason), replies.Acted)

    async def remove(self, nodes: tuple[str, ...]) -> replies.Acted:
        """Forget nodes that are gone."""
        return await self._ask(requests.RemoveNodes(nodes), replies.Acted)

    async def queue(self, request: requests.GetQueue) -> replies.Jobs:
        """List jobs, all pages of them."""
        return await self._all_pages(request)

    async def job(self, job: str) -> replies.Jobs:
        """One job, or every element of an array, with history."""
        return await self._all_pages(requests.GetJob(job))

    async def _all_pages(self, request: requests.GetQueue | requests.GetJob) -> replies.Jobs:
        jobs: list[Job] = []
        forecasts: list[Forecast] = []
        confined: list[replies.Confined] = []
        while True:
            page = await self._ask(request, replies.Jobs)
            jobs += page.jobs
            forecasts += page.forecasts
            confined += page.confined
            if not page.more or not page.jobs:
                return replies.Jobs(tuple(jobs), tuple(forecasts), confined=tuple(confined))
            request = msgspec.structs.replace(request, after=page.jobs[-1].number)

    async def nodes(self, nodes: tuple[str, ...] = ()) -> replies.Nodes:
        """List nodes."""
        return await self._ask(requests.GetNodes(nodes), replies.Nodes)

    async def partitions(self) -> replies.Partitions:
        """List partitions."""
        return await self._ask(requests.GetPartitions(), replies.Partitions)

    async def change_policy(self, request: requests.ChangePolicy) -> replies.Acted:
        """Add, modify or remove accounts, users, QoS, partitions or reservations."""
        return await self._ask(request, replies.Acted)

    async def policy(self, request: requests.GetPolicy) -> replies.Policies:
        """Accounts, users, QoS and reservations, all pages of them; one that moves in the order meanwhile stands once."""
        records: dict[tuple[str, str], Record] = {}
        seen = 0
        while True:
            page = await self._ask(msgspec.structs.replace(request, skip=seen), replies.Policies)
            records |= {(kind_of(record), record.key): record for record in page.records}
            seen += len(page.records)
            if not page.more or not page.records:
                return replies.Policies(tuple(records.values()))

    async def priority(self, jobs: tuple[str, ...] = ()) -> replies.Priorities:
        """The factors of pending jobs, all pages of them; a job that moves in the order meanwhile stands once."""
        rows: dict[int, PriorityRow] = {}
        seen = 0
        while True:
            page = await self._ask(requests.GetPriority(jobs, seen), replies.Priorities)
            rows |= {row.number: row for row in page.rows}
            seen += len(page.rows)
            if not page.more or not page.rows:
                return replies.Priorities(tuple(rows.values()))

    async def fairshare(self, request: requests.GetFairshare) -> replies.Fairshares:
        """The fair tree, all pages of it."""
        rows: list[FairshareRow] = []
        while True:
            page = await self._ask(msgspec.structs.replace(request, skip=len(rows)), replies.Fairshares)
            rows += page.rows
            if not page.more or not page.rows:
                return replies.Fairshares(tuple(rows))

    async def usage(self, request: requests.GetUsage) -> replies.UsageReport:
        """Who used what, all pages of it; the last ended jobs and the limits of one user."""
        first = page = await self._ask(request, replies.UsageReport)
        used = [*page.used]
        while page.more and page.used:
            page = await self._ask(msgspec.structs.replace(request, skip=len(used)), replies.UsageReport)
            used += page.used
        return replies.UsageReport(tuple(used), first.user, first.ended, first.quotas)

    async def script(self, job: str) -> replies.Script:
        """A job's script."""
        return await self._ask(requests.GetScript(job), replies.Script)

    async def templates(self) -> replies.Templates:
        """The site's job scripts to start from."""
        return await self._ask(requests.GetTemplates(), replies.Templates)

    async def explain(self, job: str) -> replies.Explained:
        """Why a job is pending."""
        return await self._ask(requests.Explain(job), replies.Explained)

    async def estimate(self, spec: JobSpec) -> replies.Estimated:
        """When this would start."""
        return await self._ask(requests.Estimate(spec), replies.Estimated)

    async def output(self, request: requests.ReadOutput) -> replies.Output:
        """A piece of a job's output."""
        return await self._ask(request, replies.Output)

    async def events(self, request: requests.GetEvents) -> replies.Events:
        """Journal entries."""
        return await self._ask(request, replies.Events)

    async def status(self, agents: bool = True) -> replies.ControllerStatus:
        """The controller at a glance."""
        return await self._ask(requests.GetStatus(agents), replies.ControllerStatus)

    async def steps(self, job: str) -> replies.Steps:
        """A job's steps."""
        return await self._ask(requests.GetSteps(job), replies.Steps)

    async def cancel_step(self, job: str, step: int) -> replies.Acted:
        """End a step."""
        return await self._ask(requests.CancelStep(job, step), replies.Acted)

    async def claim(self, job: str) -> replies.Acted:
        """Tie an interactive job to this connection."""
        return await self._ask(requests.Claim(job), replies.Acted)

    async def end_job(self, job: str, exit_code: int) -> replies.Acted:
        """End an interactive job."""
        return await self._ask(requests.EndJob(job, exit_code), replies.Acted)

    async def start_step(self, request: requests.StartStep | requests.WatchStep) -> replies.StepStarted:
        """Start a step, or watch one; its streams must be reserved already."""
        return await self._ask(request, replies.StepStarted)

    async def stage(self, job: str) -> replies.Stage:
        """A job's transfers, and what of them the controller has."""
        return await self._ask(requests.GetStage(job), replies.Stage)

    async def stage_done(self, job: str) -> replies.Acted:
        """All files that come with a job are with the controller."""
        return await self._ask(requests.StageDone(job), replies.Acted)

    async def opened(self, request: requests.OpenPort | requests.OpenFile | requests.OpenStage) -> replies.Opened:
        """Open a stream to a port, a file or a transfer."""
        return await self._ask(request, replies.Opened)

    async def shutdown(self, request: requests.Shutdown) -> replies.Acted:
        """Stop the controller."""
        return await self._ask(request, replies.Acted)
