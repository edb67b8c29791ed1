"""Refusals that a person can act on, and the exit codes of the commands."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of `flagplot`; `flagplot(1)` documents each."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    NO_CONTROLLER = 5
    NOT_PERMITTED = 6
    NEVER_FITS = 7
    PROTOCOL = 8
    UNAVAILABLE = 9
    INTERRUPTED = 130


EXIT_OF_CODE: dict[str, Exit] = {
    "not_found": Exit.NOT_FOUND,
    "no_controller": Exit.NO_CONTROLLER,
    "host_key": Exit.NOT_PERMITTED,
    "wrong_key": Exit.NOT_PERMITTED,
    "not_permitted": Exit.NOT_PERMITTED,
    "never_fits": Exit.NEVER_FITS,
    "protocol": Exit.PROTOCOL,
    "wrong_version": Exit.PROTOCOL,
    "unavailable": Exit.UNAVAILABLE,
    "disk_full": Exit.UNAVAILABLE,
    "usage": Exit.USAGE,
}
"""Refusal codes that have an exit code of their own; every other one gives `Exit.REFUSED`."""


class Refused(Exception):
    """A request that is wrong or not allowed.

    `code` is a short stable word for programs, `message` a sentence for the person (what was wrong and
    where), `hint` what to do about it (may be empty).
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    @property
    def exit(self) -> Exit:
        """The exit code of a command that ends with this refusal."""
        return EXIT_OF_CODE.get(self.code, Exit.REFUSED)
