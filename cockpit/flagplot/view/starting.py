"""What the submit form can start from: one's own templates, the site's, one's last jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from flagplot.view.queue import job_target
from flagplot.view.words import gpu_words, moment, short_span, state_look
from flagplot_wire.job import Job
from flagplot_wire.replies import Template
from flagplot_wire.text import clean, counted

JOBS = 20
"""The last jobs that are offered."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing to start from. `key` is the template's name, or the job as people write it; `script` is a template's."""

    kind: Literal["mine", "site", "job"]
    key: str
    words: str
    script: str = ""

    def matches(self, text: str) -> bool:
        """True when every word of the filter is in what is shown."""
        shown = f"{self.kind} {self.key} {self.words}".casefold()
        return all(word in shown for word in text.casefold().split())


def offers(own: Iterable[Template], site: Iterable[Template], jobs: Iterable[Job], user: str, now: int) -> list[Offer]:
    """All of them: one's own templates, the site's, then the last jobs of `user`, the newest first."""
    mine = [job for job in jobs if job.user == user and job.array_index is None]
    mine.sort(key=lambda job: (-job.status.submit_time, -job.number))
    return [
        *(Offer("mine", one.name, about(one.script), one.script) for one in own),
        *(Offer("site", one.name, about(one.script), one.script) for one in site),
        *(Offer("job", job_target(job), _job_words(job, now)) for job in mine[:JOBS]),
    ]


def about(script: str) -> str:
    """What a script says of itself: its first comment that is no directive (cleaned; empty: it says nothing)."""
    for line in script.split("\n")[1:]:
        if line.startswith(("#SBATCH", "#FLAGPLOT")) or not line.strip("# \t"):
            continue
        return clean(line.strip("# \t")) if line.startswith("#") else ""
    return ""


def _job_words(job: Job, now: int) -> str:
    request = job.spec.request
    nodes = counted(request.nodes_min, "node") if request.nodes_min > 1 else ""
    gpus = gpu_words(job)
    limit = short_span(job.time_limit_s) if job.time_limit_s else "no limit"
    parts = [clean(job.spec.name), nodes, "" if gpus == "-" else f"GPUs {gpus}", limit]
    when = job.status.end_time or job.status.start_time or job.status.submit_time
    return " · ".join([*filter(None, parts), f"{state_look(job).word} {moment(when, now)}"])
