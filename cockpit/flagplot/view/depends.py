"""What a job waits for and what waits for it, as a tree with the state of each link. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.view.bars import Piece
from flagplot.view.queue import find_job
from flagplot.view.words import about, moment, state_look
from flagplot_wire.ids import JobNumber, parse_job_ref
from flagplot_wire.indices import has_index
from flagplot_wire.job import NO_LIMIT, DependencyTerm, Job, State
from flagplot_wire.text import clean

DEEPEST = 6
MOST = 200
"""Lines in one direction."""
LINKS = {"met": ("✓", "good"), "waits": ("○", "state-pending"), "broken": ("✗", "bad")}


@dataclass(frozen=True, slots=True)
class Link:
    """A line of the tree: the job that `kind` leads to (None: it left the queue), under the name it was asked by."""

    lead: str
    kind: str
    state: str
    target: str
    job: Job | None


def link_state(mirror: Mirror, term: DependencyTerm, target: str, now: int) -> str:
    """`met`, `waits` or `broken`: whether one job of a dependency's term lets the other start, as the controller sees it."""
    job, index = find_job(mirror, target), _index(target)
    if job is not None and job.is_array and index is not None:
        # The element was not split off: it waits, or it was cancelled before it could be.
        if has_index(job.status.waiting, index):
            return "waits"
        return "broken" if term.kind == "afterok" else "met"
    if job is None:
        return "met" if term.kind in ("after", "afterany") else "broken"
    status = job.status
    if term.kind == "after":
        began = status.start_time or (status.end_time if status.state.ended else 0)
        return "met" if began and began + term.delay_s <= now else "waits"
    if not status.state.ended:
        return "waits"
    if term.kind == "afterany":
        return "met"
    return "met" if (status.state is State.COMPLETED) == (term.kind == "afterok") else "broken"


def _index(target: str) -> int | None:
    indices = parse_job_ref(target).indices
    return indices[0] if indices else None


def _links(mirror: Mirror, job: Job, now: int) -> Iterator[tuple[str, str, str, Job | None]]:
    """(kind, state, target, job) of everything that a job waits for, or waited for."""
    dependency = job.spec.dependency
    for term in dependency.terms if dependency is not None else ():
        delay = f"+{term.delay_s // 60}" if term.delay_s else ""
        if term.kind == "singleton":
            for other in mirror.jobs.values():
                same = (other.user, other.spec.name) == (job.user, job.spec.name)
                if same and other.number < job.number and not other.status.state.ended:
                    yield "singleton", "waits", str(other.number), other
        for target in term.jobs:
            found = find_job(mirror, target)
            yield f"{term.kind}{delay}", link_state(mirror, term, target, now), target, found


def waits_for(mirror: Mirror, job: Job, now: int) -> list[Link]:
    """The tree of what it waits for; what a job that has begun once waited for is not followed further."""
    rows: list[Link] = []

    def grow(one: Job, lead: str, deep: int, above: frozenset[JobNumber]) -> None:
        links = list(_links(mirror, one, now))
        for at, (kind, state, target, found) in enumerate(links):
            last = at == len(links) - 1
            rows.append(Link(lead + ("└─ " if last else "├─ "), kind, state, target, found))
            if len(rows) >= MOST:
                return
            waiting = found is not None and found.status.state is State.PENDING
            if found is not None and waiting and deep < DEEPEST and found.number not in above:
                grow(found, lead + ("   " if last else "│  "), deep + 1, above | {found.number})

    grow(job, "", 1, frozenset({job.number}))
    return rows


def followers(jobs: Iterable[Job]) -> dict[JobNumber, list[Job]]:
    """The pending jobs that wait for each job, by its number (elements of an array under the array's)."""
    found: dict[JobNumber, list[Job]] = {}
    for job in jobs:
        if job.spec.dependency is not None and job.status.state is State.PENDING:
            targets = {parse_job_ref(target).number for term in job.spec.dependency.terms for target in term.jobs}
            for number in targets:
                found.setdefault(number, []).append(job)
    return found


def waited_for_by(mirror: Mirror, job: Job, behind: dict[JobNumber, list[Job]], now: int) -> list[Link]:
    """The tree of what waits for it. A link to an element of its array is one to it as well."""
    rows: list[Link] = []

    def grow(one: Job, lead: str, deep: int, above: frozenset[JobNumber]) -> None:
        waiting = [(other, kind, state) for other in behind.get(_named(one), ())
                   for kind, state in _of(mirror, other, one, now)]  # fmt: skip
        for at, (other, kind, state) in enumerate(waiting):
            last = at == len(waiting) - 1
            rows.append(Link(lead + ("└─ " if last else "├─ "), kind, state, str(other.number), other))
            if len(rows) >= MOST:
                return
            if deep < DEEPEST and other.number not in above:
                grow(other, lead + ("   " if last else "│  "), deep + 1, above | {other.number})

    grow(job, "", 1, frozenset({job.number}))
    return rows


def _named(job: Job) -> JobNumber:
    return job.array_number if job.array_index is not None else job.number


def _of(mirror: Mirror, other: Job, job: Job, now: int) -> Iterator[tuple[str, str]]:
    """Kind and state of the links by which `other` waits for `job`."""
    for term in other.spec.dependency.terms if other.spec.dependency is not None else ():
        for target in term.jobs:
            ref = parse_job_ref(target)
            if ref.number == _named(job) and (job.array_index is None or ref.indices in (None, (job.array_index,))):
                delay = f"+{term.delay_s // 60}" if term.delay_s else ""
                yield f"{term.kind}{delay}", link_state(mirror, term, target, now)


def link_pieces(mirror: Mirror, link: Link, now: int) -> list[Piece]:
    """A line: the branch, whether the link holds, what it asks for, the job and what will come of it."""
    glyph, role = LINKS[link.state]
    word = {"met": "", "waits": "", "broken": tr("  never: this link is broken")}[link.state]
    pieces: list[Piece] = [(link.lead, "dim"), (f"{glyph} ", role), (f"{link.kind} ", "dim")]
    job = link.job
    if job is None:
        return [*pieces, (clean(link.target), "bold"), (tr("  is no longer in the queue"), "dim"), (word, "bad")]
    look = state_look(job)
    pieces += [(f"{clean(link.target)} ", "bold"), (f"{clean(job.spec.name)} ", "plain")]
    pieces += [(clean(job.user), f"owner:{job.user}"), (f"  {look.glyph} {look.word}", look.role)]
    return [*pieces, (_outlook(mirror, job, now), "dim"), (word, "bad")]


def _outlook(mirror: Mirror, job: Job, now: int) -> str:
    if job.status.state is State.RUNNING and job.time_limit_s != NO_LIMIT:
        left = job.limit_ends - now
        return tr(", ends in {span} at the latest").format(span=about(left)) if left > 0 else tr(", over its limit")
    forecast = mirror.forecasts.get(job.number)
    if forecast is None or not forecast.start:
        return ""
    return tr(", planned {when}").format(when=moment(forecast.start, now))
