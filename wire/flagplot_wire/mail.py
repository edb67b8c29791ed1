"""What `--mail-type` and `--mail-user` say (sbatch(1)), and which mail a change of a job is worth."""

from __future__ import annotations

import re

from flagplot_wire.errors import Refused
from flagplot_wire.job import Job, State
from flagplot_wire.text import clean

BEGIN, END, FAIL, REQUEUE, TIME_LIMIT, ARRAY_TASKS = "BEGIN", "END", "FAIL", "REQUEUE", "TIME_LIMIT", "ARRAY_TASKS"
PERCENTS = {"TIME_LIMIT_50": 50, "TIME_LIMIT_80": 80, "TIME_LIMIT_90": 90}
"""Sent when that much of the time limit is over."""
TYPES = (BEGIN, END, FAIL, REQUEUE, TIME_LIMIT, *PERCENTS, ARRAY_TASKS)
WITHOUT_EFFECT = ("INVALID_DEPEND", "STAGE_OUT")
"""Types that Slurm has and that are read without effect."""
ALL = (BEGIN, END, FAIL, REQUEUE)
WORDS = {BEGIN: "Began", END: "Ended", FAIL: "Failed", REQUEUE: "Requeued", TIME_LIMIT: "Reached time limit"}
WORDS |= {kind: f"Reached {percent}% of time limit" for kind, percent in PERCENTS.items()}
MOST_ADDRESSES, LONGEST = 10, 500
_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._%+=-]{0,63}(@[A-Za-z0-9][A-Za-z0-9.-]{0,252})?", re.ASCII)


def parse_mail_type(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The types named (ALL taken apart, NONE nothing), and those of them without effect; raises `Refused`."""
    found: list[str] = []
    idle: list[str] = []
    for word in (part.strip().upper() for part in text.split(",")):
        if word == "NONE":
            found.clear()
        elif word == "ALL":
            found += ALL
        elif word in TYPES:
            found.append(word)
        elif word in WITHOUT_EFFECT:
            idle.append(word)
        else:
            raise Refused(
                "bad_value", f"{clean(word)!r} is no type of mail", f"NONE, ALL, {', '.join((*TYPES, *WITHOUT_EFFECT))}"
            )
    return tuple(kind for kind in TYPES if kind in found), tuple(idle)


def check_mail_user(text: str) -> str:
    """Users or addresses, apart by commas, of characters that no mail program and no shell gives a meaning."""
    addresses = [part.strip() for part in text.split(",")]
    if len(addresses) > MOST_ADDRESSES or len(text) > LONGEST:
        raise Refused("bad_value", f"too many mail addresses: at most {MOST_ADDRESSES}")
    for address in addresses:
        if not _ADDRESS.fullmatch(address):
            raise Refused("bad_value", f"{clean(address)!r} is no mail address", "write ada or ada@example.org")
    return ",".join(addresses)


def kind_of_mail(job: Job, cause: str, at: int, wanted: tuple[str, ...]) -> str:
    """The one type of mail that a change of a job's status at `at` is worth to who wants these types; empty: none.

    As in Slurm an array is told of as a whole, when its first element starts and when all have ended, unless
    ARRAY_TASKS is wanted: then each of its elements is. A failed end is FAIL where that is wanted, else END.
    """
    if not wanted or (job.is_array if ARRAY_TASKS in wanted else job.array_index is not None):
        return ""
    status = job.status
    if status.state.ended:
        failed = status.state is not State.COMPLETED
        if failed and FAIL in wanted:
            return FAIL
        if END in wanted:
            return END
        return TIME_LIMIT if status.state is State.TIMEOUT and TIME_LIMIT in wanted else ""
    first = job.is_array and status.start_time == at and (status.elements_running, status.elements_ended) == (1, 0)
    if (cause == "started" or (cause == "split" and first)) and BEGIN in wanted:
        return BEGIN
    return REQUEUE if cause == "requeued" and REQUEUE in wanted else ""


def percents_due(job: Job, now: int) -> list[str]:
    """The types by percent that a running job's time has reached, in their order."""
    status, limit = job.status, job.time_limit_s
    if status.state is not State.RUNNING or not limit or not status.start_time:
        return []
    ran = now - status.start_time - status.suspended_s
    return [kind for kind, percent in PERCENTS.items() if kind in job.spec.mail_type and ran * 100 >= limit * percent]
