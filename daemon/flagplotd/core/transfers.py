"""What a job's transfers may be."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.job import JobSpec

MAX_TRANSFERS = 64
MAX_PATH = 4096


def check(spec: JobSpec) -> None:
    """Refuse what can be no transfer."""
    every = (*spec.stage_in, *spec.stage_out)
    if len(spec.stage_in) > MAX_TRANSFERS or len(spec.stage_out) > MAX_TRANSFERS:
        raise Refused("bad_request", f"a job has at most {MAX_TRANSFERS} transfers each way", "copy whole folders")
    if any("\0" in text or not 0 < len(text) <= MAX_PATH for one in every for text in (one.source, one.target)):
        raise Refused(
            "bad_request", f"a path of --stage-in or --stage-out is empty, has a NUL byte or over {MAX_PATH} letters"
        )
    if any(not one.target.startswith("/") for one in spec.stage_in):
        raise Refused("bad_request", "--stage-in: the place on the nodes must be an absolute path")
