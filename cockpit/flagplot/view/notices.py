"""Notices of one's own jobs: which, in which words, and in which of the terminal's languages. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flagplot.client.mirror import Mirror
from flagplot.view.queue import job_target
from flagplot.view.variables import check, values_of_job
from flagplot.view.words import elapsed
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, State
from flagplot_wire.text import clean, counted

ON = ("BEGIN", "END", "FAIL")
DESKTOP = ("auto", "osc9", "osc777", "both", "off")
THROUGH = ("auto", "tmux", "screen", "off")
LONGEST = 200
NAMED = 3
"""Jobs of one state that a notice names."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`notices.toml`. `on` are words of `ON`; `at_least_s`: ends of jobs that ran for less are not told."""

    on: tuple[str, ...] = ("END",)
    desktop: str = "auto"
    through: str = "auto"
    bell: bool = True
    at_least_s: int = 0
    command: tuple[str, ...] = ()


def read(text: str) -> Settings:
    """Read `notices.toml`; raises `Refused` that names the key where something in it is wrong."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise Refused("usage", f"this is no TOML: {wrong}") from wrong
    plain = Settings()
    for key, value in found.items():
        if not hasattr(plain, key):
            raise Refused("usage", f"there is no setting {clean(key)}", "known: " + " ".join(Settings.__slots__))
        kind = list if isinstance(getattr(plain, key), tuple) else type(getattr(plain, key))
        if type(value) is not kind or (kind is list and not all(isinstance(word, str) for word in value)):
            raise Refused("usage", f"{key} must be a {'list of texts' if kind is list else kind.__name__}")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
    made = Settings(**values)
    for key, known in (("on", ON), ("desktop", DESKTOP), ("through", THROUGH)):
        value = getattr(made, key)
        for word in value if isinstance(value, tuple) else (value,):
            if word not in known:
                raise Refused("usage", f"{key}: {clean(word)!r} is none of {' '.join(known)}")
    check(made.command)
    return made


@dataclass(frozen=True, slots=True)
class Told:
    """One thing to tell: the job as it is, and which of `ON` it is."""

    kind: str
    job: Job


@dataclass(slots=True)
class Watch:
    """Follows one person's jobs through the mirror. The elements of arrays are told of by their array."""

    settings: Settings = field(default_factory=Settings)
    _live: dict[JobNumber, State] = field(default_factory=dict)
    _place: int = -1
    _user: str = ""
    _newest: int = 0

    def look(self, mirror: Mirror, user: str) -> list[Told]:
        """What is new since the last look; the first look, and the first at another user's jobs, tells nothing."""
        if not mirror.complete or not user:
            return []
        first, self._user = user != self._user, user
        changed = mirror.touched.since(self._place) if self._place >= 0 and not first else None
        self._place = mirror.touched.end
        if changed is not None and not changed:
            return []
        before = self._live
        if changed is None:
            jobs = mirror.jobs.items()
            self._live = {number: job.status.state for number, job in jobs if self._lives(job)}
            new = {number for number, job in jobs if number > self._newest and job.user == user}
            changed = {number for number in {*before, *self._live, *new} if number in mirror.jobs}
        newest, self._newest = self._newest, max(self._newest, max(changed, default=0))
        if first:
            self._newest = max(mirror.jobs, default=0)
            return []
        told = []
        for number in sorted(changed):
            job = mirror.jobs.get(number)
            # A job so short that it came and went between two looks was pending all the same.
            was = before.get(number, State.PENDING if number > newest else None)
            if job is None or job.user != user:
                self._live.pop(number, None)
                continue
            if self._lives(job):
                self._live[number] = job.status.state
            else:
                self._live.pop(number, None)
            if kind := self._kind(job, was):
                told.append(Told(kind, job))
        return told

    def _lives(self, job: Job) -> bool:
        return job.user == self._user and not job.status.state.ended

    def _kind(self, job: Job, was: State | None) -> str:
        status, on = job.status, self.settings.on
        if job.array_index is not None:
            return ""
        if status.state.ended and was is not None:
            failed = status.state is not State.COMPLETED
            kind = "FAIL" if failed and "FAIL" in on else "END" if "END" in on else ""
            ran = status.end_time - status.start_time if status.start_time else 0
            return kind if failed or ran >= self.settings.at_least_s else ""
        began = status.state is State.RUNNING and was is State.PENDING
        return "BEGIN" if began and "BEGIN" in on else ""


def words(told: Sequence[Told]) -> tuple[str, str]:
    """Title and text of one notice for all of them."""
    if len(told) == 1:
        job = told[0].job
        status = job.status
        if told[0].kind == "BEGIN":
            return f"Job {job_target(job)} started", clean(job.spec.name)
        ran = f" after {elapsed(status.end_time - status.start_time)}" if status.start_time else ""
        code = f", exit code {status.exit_code}" if status.exit_code else ""
        return f"Job {job_target(job)} {status.state.value}", f"{clean(job.spec.name)}{ran}{code}"
    states: dict[str, list[str]] = {}
    for one in told:
        state = "started" if one.kind == "BEGIN" else one.job.status.state.value
        states.setdefault(state, []).append(job_target(one.job))
    return counted(len(told), "job"), ", ".join(
        f"{len(jobs)} {state} ({_few(jobs)})" for state, jobs in sorted(states.items())
    )


def _few(jobs: Sequence[str]) -> str:
    return " ".join([*jobs[:NAMED], "…"] if len(jobs) > NAMED else jobs)


def terminal_words(title: str, text: str, settings: Settings, environment: Mapping[str, str]) -> str:
    """The escape sequences that make a notice of the desktop, and the bell; safe whatever the text."""
    title, text = (_plain(part) for part in (title, text))
    way = settings.desktop
    if way == "auto":
        knows_777 = environment.get("TERM", "").startswith(("rxvt", "foot")) or "VTE_VERSION" in environment
        way = "osc777" if knows_777 else "osc9"
    made = []
    if way in ("osc9", "both"):
        # "flagplot" first: a number in front would be another command of some terminals.
        made.append(f"\x1b]9;flagplot: {title}: {text}\x07")
    if way in ("osc777", "both"):
        made.append(f"\x1b]777;notify;flagplot: {title.replace(';', ',')};{text.replace(';', ',')}\x07")
    through = way_through(settings.through, environment)
    return "".join(passed(one, through) for one in made) + ("\x07" if settings.bell else "")


def _plain(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in clean(text))[:LONGEST]


def way_through(wanted: str, environment: Mapping[str, str]) -> str:
    """The multiplexer between this program and the terminal, as far as the environment tells: tmux, screen or off."""
    if wanted != "auto":
        return wanted
    term = environment.get("TERM", "")
    if environment.get("TMUX") or term.startswith("tmux"):
        return "tmux"
    return "screen" if environment.get("STY") or term.startswith("screen") else "off"


def passed(sequence: str, through: str) -> str:
    """What a multiplexer passes on to the terminal around it."""
    if through == "tmux":
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return f"\x1bP{sequence}\x1b\\" if through == "screen" else sequence


def command_values(one: Told, cluster: str) -> dict[str, list[str]]:
    """The variables of the person's own command."""
    target = job_target(one.job)
    values: dict[str, Any] = values_of_job(one.job, cluster, [target], target)
    return values
