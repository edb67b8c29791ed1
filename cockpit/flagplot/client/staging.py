"""Sending the files that a job comes with to the controller, and fetching those that it left."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from flagplot.client.archive import pack, unpack
from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.target import Target
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job, JobSpec
from flagplot_wire.patterns import Fields, expand_pattern
from flagplot_wire.requests import OpenStage

PATIENCE_S = 120.0
"""For a controller that is away to come back, while files are sent."""
PAUSE_S = 0.5
AWAY = ("no_controller", "unavailable", "gone")


def check_sources(spec: JobSpec) -> None:
    """Refuse what is not there, before anything is submitted."""
    for one in spec.stage_in:
        if not os.path.exists(one.source):
            raise Refused("usage", f"--stage-in: there is no {one.source}")
        if not os.access(one.source, os.R_OK):
            raise Refused("usage", f"--stage-in: {one.source} cannot be read")


async def send(target: Target, job: str, told: Callable[[str], None]) -> None:
    """Send what the controller does not have yet, then let the job start; goes on after a controller that was away."""
    deadline, said = time.monotonic() + PATIENCE_S, False
    while True:
        try:
            connection = await Connection.open(target)
            try:
                await _send(connection, job, told)
                return
            finally:
                await connection.close()
        except Refused as refused:
            if refused.code not in AWAY or time.monotonic() > deadline:
                raise
            if not said:
                said = True
                told(f"the files of job {job}: {refused.message}; trying again for {PATIENCE_S:.0f} s")
        await asyncio.sleep(PAUSE_S)


async def _send(connection: Connection, job: str, told: Callable[[str], None]) -> None:
    calls = Calls(connection)
    found = await calls.stage(job)
    for index, one in enumerate(found.job.spec.stage_in):
        if index in found.have_in or not found.job.status.staging:
            continue
        if not os.path.exists(one.source):
            raise Refused(
                "usage",
                f"--stage-in: there is no {one.source} on this machine",
                "send it from where the job was submitted",
            )
        stream = connection.streams.make()
        try:
            await calls.opened(OpenStage(job, stream.number, "in", index))
            left_out = await pack(stream, Path(one.source))
            if left_out:
                told(f"--stage-in: {left_out}")
            # The controller says its end when all of it is on its disk.
            while await stream.read():
                continue
        finally:
            stream.close()
    await calls.stage_done(job)


async def fetch(connection: Connection, job: str, folder: Path | None) -> tuple[list[str], list[str]]:
    """Put what a job left to its places (into `folder` instead, where one is given); returns the places, and what is
    not with the controller."""
    calls = Calls(connection)
    found = await calls.stage(job)
    if not found.job.spec.stage_out:
        raise Refused("bad_request", f"job {job} was submitted without --stage-out", "flagplot cp reaches running jobs")
    if not found.job.status.state.ended and not found.have_out:
        state = found.job.status.state.lower()
        raise Refused(
            "not_running",
            f"job {job} is {state}: what it leaves is sent when it has ended",
            "flagplot wait waits for it",
        )
    places, missing = [], []
    fields = _fields(found.job)
    for index, one in enumerate(found.job.spec.stage_out):
        if index not in found.have_out:
            missing.append(expand_pattern(one.source, fields))
            continue
        place = folder if folder is not None else Path(expand_pattern(one.target, fields))
        if folder is None and one.target.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        stream = connection.streams.make()
        try:
            await calls.opened(OpenStage(job, stream.number, "out", index))
            await unpack(stream, place)
        finally:
            stream.close()
        places.append(str(place))
    return places, missing


def _fields(job: Job) -> Fields:
    """What patterns in a job's transfers may name, as on its first node."""
    held = job.status.allocation
    return Fields(
        job.number, job.spec.name, job.user, held.names[0] if held is not None else "", job.array_number, job.array_index,
        job.status.restarts,
    )  # fmt: skip
